"""What every test runs under: one thread, so that numbers repeat, no network, and Ctrl-C heard."""

import os
import signal

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

from collections.abc import Iterator

import pytest
import torch
from hypothesis import settings

from groupwise.errors import DataError
from groupwise.grading.sandbox.open import open_sandbox
from groupwise.grading.sandbox.runs import SandboxOptions
from groupwise.grading.sandbox.sandbox import Sandbox
from groupwise.stopping import SIGNALS

# A loaded machine makes any example slow: what may take how long is asserted where it matters. Each run draws the same
# examples, so that a test turns red by a change alone; with FUZZ=1 in the environment it draws others each time.
settings.register_profile("repeated", deadline=None, derandomize=os.environ.get("FUZZ") != "1")
settings.load_profile("repeated")


# A shell that runs this in the background has them ignored, as nohup does, and so would all that the tests start.
for number in SIGNALS:
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    """The one that `auto` takes; a test that needs one is skipped where none works."""
    try:
        opened = open_sandbox(SandboxOptions())
    except DataError as error:
        pytest.skip(str(error))
    with opened:
        yield opened
