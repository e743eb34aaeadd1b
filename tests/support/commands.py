"""Running the command line: in this process, where an uncaught error fails the test, or as one of its own."""

import os
import shutil
import signal
import subprocess
import sys
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from groupwise import cli
from groupwise.stopping import SIGNALS

# A run of seconds: everything that a real one does, at the smallest size.
# The model is named so that a command line of these is not one of overrides of the recipe `demo`.
SMALL = [
    "model.path=bundled",
    "run.steps=4",
    "run.threads=1",
    "run.checkpoint_every_steps=2",
    "run.rollouts_every_steps=2",
    "batch.prompts_per_step=3",
    "batch.samples_per_prompt=4",
    "sampling.max_new_tokens=20",
    "problems.eval_problems=16",
    "problems.eval_samples_per_prompt=2",
    "optimizer.warmup_steps=2",
    "optimizer.lr=1e-3",
    "rewards.format.weight=0.2",
]


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


def groupwise(capsys: pytest.CaptureFixture[str], *arguments: str) -> Outcome:
    """What `groupwise ARGUMENTS` prints and how it ends."""
    given, handlers = sys.argv, {number: signal.getsignal(number) for number in SIGNALS}
    sys.argv = ["groupwise", *arguments]
    capsys.readouterr()
    try:
        cli.main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    finally:
        sys.argv = given
        for number, handler in handlers.items():
            signal.signal(number, handler)
    return Outcome(code, *capsys.readouterr())


def environment(**more: str) -> dict[str, str]:
    """For a process of its own: one thread, and no look at the network."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", **more}


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """`groupwise ARGUMENTS` as a process in a folder."""
    return subprocess.Popen(
        [sys.executable, "-m", "groupwise", *arguments],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def bundled_copy(folder: Path) -> Path:
    """The bundled model as a folder that a test may break."""
    source = Path(str(resources.files("groupwise"))) / "bundled" / "model"
    shutil.copytree(source, folder)
    return folder


def tree(folder: Path) -> dict[str, Any]:
    """Every file of a folder with its content."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
