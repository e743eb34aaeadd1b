"""Runs of a few steps: started, interrupted, resumed and compared."""

import io
import json
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from groupwise.errors import RunInterrupted
from groupwise.track.console import ConsoleTracker
from groupwise.training.run import compose_and_start, resume_run
from tests.support.commands import SMALL, tree

UNMEASURED = [*SMALL, "problems.eval_problems=0"]


class Quiet(ConsoleTracker):
    """Keeps what it is told; `at_step` is called after each step."""

    def __init__(self, at_step: Callable[[int], None] | None = None) -> None:
        super().__init__(Console(file=io.StringIO(), width=200))
        self.notes: list[str] = []
        self._at_step = at_step

    def note(self, text: str) -> None:
        self.notes.append(text)

    def step(self, metrics: dict[str, Any]) -> None:
        super().step(metrics)
        if self._at_step is not None:
            self._at_step(metrics["step"])


def train(output: Path, *more: str, options: list[str] = UNMEASURED, reporter: Quiet | None = None) -> Any:
    """The summary, or None where the run was interrupted, which is noted."""
    told = reporter or Quiet()
    return unless_interrupted(told, lambda: compose_and_start([*options, f"run.output={output}", *more], False, told))


def resume(output: Path, *overrides: str, reporter: Quiet | None = None, allowed: Sequence[str] = ()) -> Any:
    """As `train`."""
    told = reporter or Quiet()
    return unless_interrupted(told, lambda: resume_run(str(output), list(overrides), told, allowed))


def unless_interrupted(reporter: Quiet, act: Callable[[], Any]) -> Any:
    try:
        return act()
    except RunInterrupted as stopped:
        reporter.note(str(stopped))
        return None


def interrupt_at(step: int) -> Callable[[int], None]:
    """Ctrl-C as soon as this step is reported."""
    return lambda finished: os.kill(os.getpid(), signal.SIGINT) if finished == step else None


def metrics(run: Path) -> list[dict[str, Any]]:
    """All lines, without what depends on the speed of the machine."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if not key.startswith("time/")} for line in lines]


def model_files(run: Path) -> dict[str, bytes]:
    """The trained model, without its card: that states options and measurements, which may be others."""
    return {name: content for name, content in tree(run / "model").items() if name != "README.md"}


def assert_same_run(actual: Path, expected: Path) -> None:
    """The same stream, to the last digit, the same completions, and the same weights, to the last bit."""
    assert metrics(actual) == metrics(expected)
    assert tree(actual / "rollouts") == tree(expected / "rollouts")
    assert model_files(actual) == model_files(expected)
    newest = sorted((expected / "checkpoints").iterdir())[-1].name
    for name in ("weights.safetensors", "optimizer.safetensors"):
        files = [folder / "checkpoints" / newest / name for folder in (actual, expected)]
        assert files[0].read_bytes() == files[1].read_bytes()
