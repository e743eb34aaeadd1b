"""Short runs of the bundled model, healthy and broken on purpose: which rules fire, and when. Makes the table of
docs/health.md.

    python benchmarks/health_runs.py [--steps 120]
"""

import argparse
import contextlib
import io
import tempfile
from pathlib import Path

import torch

from groupwise.errors import BrokenRunError
from groupwise.health.conditions import Context
from groupwise.health.rules import findings
from groupwise.health.steps import read_steps
from groupwise.track.tracker import Tracker
from groupwise.training.run import compose_and_start

ALWAYS = "def one(text):\n    return 1.0\n"

# What each run is started with on top of the demo, and whether something is wrong with it.
RUNS: dict[str, tuple[tuple[str, ...], bool]] = {
    "the demo, seed 0": ((), False),
    "the demo, seed 1": (("run.seed=1",), False),
    "the recipe grpo's group scale": (("advantage.estimator.scale=group_std",), False),
    "cispo": (("objective.surrogate=cispo",), False),
    "learning rate × 30": (("optimizer.lr=1.8e-2",), True),
    "learning rate × 100": (("optimizer.lr=6e-2",), True),
    "KL by k1 in the loss, coefficient 1": (("kl.coefficient=1.0", "kl.estimator=k1"), True),
    "format reward × 15": (("rewards.format.weight=3.0",), True),
    "at most 8 tokens": (("sampling.max_new_tokens=8",), True),
    "temperature 3": (("sampling.temperature=3.0",), True),
    "a reward that is always 1": (
        ("rewards.correctness.weight=0", "rewards.format.weight=0", "rewards.functions.one.path={own}:one"),
        True,
    ),
    "entropy bonus 0.3": (("entropy.bonus={type: fixed, coefficient: 0.3}",), True),
}


def main() -> None:
    """Run all of them and print a row of the table for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--only", default="", help="run those whose name has this")
    stated = parser.parse_args()
    steps = stated.steps
    torch.set_num_threads(1)
    print("| run | broken | findings, with the step at which each fires |\n|---|---|---|")
    for name, (options, is_broken) in RUNS.items():
        if stated.only not in name:
            continue
        with tempfile.TemporaryDirectory() as folder:
            own, output = Path(folder) / "own.py", Path(folder) / "run"
            own.write_text(ALWAYS)
            given = ["demo", f"run.steps={steps}", "problems.eval_problems=0", "run.threads=1", f"run.output={output}"]
            given += [option.replace("{own}", str(own)) for option in options]
            ended = ""
            with contextlib.redirect_stdout(io.StringIO()):
                try:
                    compose_and_start(given, False, Tracker())
                except BrokenRunError as error:
                    ended = f"; stopped by a guard: {str(error).partition('. ')[0]}"
            rows = read_steps(output)
            found = findings(rows, Context(512))
            words = ", ".join(f"{one.severity} {one.rule} {one.first_step}" for one in found)
            broken = "yes" if is_broken else "no"
            print(f"| {name} | {broken} | {words or 'none'} ({rows[-1].step} steps{ended}) |", flush=True)


if __name__ == "__main__":
    main()
