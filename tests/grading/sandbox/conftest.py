"""Sandboxes to test: every backend that works on this machine, and the best of them."""

from collections.abc import Iterator
from typing import cast

import pytest

from groupwise.grading.sandbox.backend import UnavailableError
from groupwise.grading.sandbox.open import BACKENDS, open_backend
from groupwise.grading.sandbox.runs import SandboxOptions
from groupwise.grading.sandbox.sandbox import Sandbox

OTHERS = [pytest.param(name, marks=pytest.mark.slow) for name in BACKENDS if name not in ("bubblewrap", "none")]


@pytest.fixture(scope="module", params=["bubblewrap", "none", *OTHERS])
def each_sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """Each that works here, `none` too."""
    try:
        opened = open_backend(cast("str", request.param), SandboxOptions())
    except UnavailableError as error:
        pytest.skip(str(error))
    with opened:
        yield opened
