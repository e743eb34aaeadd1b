"""What it costs to record every completion: CPU time of the demo with and without, in turn, and what is spent on it.

python benchmarks/cost_of_rollouts.py [PAIRS [STEPS]]
"""

import contextlib
import functools
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from groupwise.track.journal import Journal
from groupwise.track.tracker import Tracker
from groupwise.training import loop
from groupwise.training.run import compose_and_start
from groupwise.training.token_pass import TokenPass

PLACES = ((loop, "kept"), (loop, "token_values"), (TokenPass, "of"), (Journal, "write_rollouts"))


def cpu_seconds(every: int, steps: int) -> float:
    """Of all steps of a run without measurements; every: run.rollouts_every_steps."""
    options = [f"run.steps={steps}", "run.threads=1", "run.checkpoint_every_steps=0", "problems.eval_problems=0"]
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        summary = compose_and_start(["demo", *options, f"run.rollouts_every_steps={every}"], False, Tracker())
    assert summary is not None
    return float(summary["training_cpu_seconds"])


def counted(spent: list[float], function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, which adds what it takes."""

    @functools.wraps(function)
    def measured(*arguments: Any) -> Any:
        start = time.process_time()
        result = function(*arguments)
        spent.append(time.process_time() - start)
        return result

    return measured


def main(pairs: int = 5, steps: int = 25) -> None:
    spent: list[float] = []
    for place, name in PLACES:
        made = counted(spent, getattr(place, name))
        setattr(place, name, staticmethod(made) if name == "of" else made)
    cpu_seconds(1, 2)
    more, shares = [], []
    for _ in range(pairs):
        without = cpu_seconds(0, steps)
        spent.clear()
        recorded = cpu_seconds(1, steps)
        more.append(100 * (recorded / without - 1))
        shares.append(100 * sum(spent) / recorded)
    print(f"{pairs} pairs of {steps} steps of the demo on one thread, CPU time")
    print(
        f"a step that records all: {1000 * recorded / steps:.0f} ms, {1000 * sum(spent) / steps:.1f} ms of it to do so"
    )
    print(f"spent on recording: {statistics.median(shares):.1f} % ({min(shares):.1f} to {max(shares):.1f})")
    print(f"more than without: {statistics.median(more):+.1f} % ({min(more):+.1f} to {max(more):+.1f})")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
