"""Short runs of the bundled model, healthy and broken on purpose: which rules fire, and when. Makes the table of
docs/health.md.

    python benchmarks/health_runs.py [--steps 100] [--cache FOLDER]
"""

import argparse
import contextlib
import copy
import io
import json
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from groupwise.errors import BrokenRunError
from groupwise.health.conditions import Context
from groupwise.health.logs import read_steps
from groupwise.health.rules import findings
from groupwise.objective.loss import LossInputs
from groupwise.track.tracker import Tracker
from groupwise.training import loop, setup, update
from groupwise.training.run import compose_and_start

REWARDS = """\
import zlib


def one(text):
    return 1.0


def half(text, step):
    # Not when the function is tried out before the run.
    if step > 1 and zlib.crc32(text.encode()) % 2:
        raise ValueError("cannot be judged")
    return float(len(text) > 40)
"""


def advantages_shuffled() -> AbstractContextManager[Any]:
    """Every answer is trained with the advantage of another one of the batch."""
    real, drawn = loop.advantages_of, np.random.default_rng(0)

    def shuffled(*given: Any) -> Any:
        advantages_PG = real(*given)
        return drawn.permutation(advantages_PG.ravel()).reshape(advantages_PG.shape)

    return patch.object(loop, "advantages_of", shuffled)


def ends_masked() -> AbstractContextManager[Any]:
    """The last token of every answer has no weight in the loss."""
    real = update.loss_inputs

    def without_ends(*given: Any) -> LossInputs:
        inputs = real(*given)
        weights_N = inputs.weights_N.clone()
        weights_N[inputs.lengths_E.cumsum(0) - 1] = 0
        return replace(inputs, weights_N=weights_N)

    return patch.object(update, "loss_inputs", without_ends)


def engine_stale() -> AbstractContextManager[Any]:
    """The engine samples with the weights of the beginning for ever."""
    real = setup.make_engine
    return patch.object(setup, "make_engine", lambda config, policy, say: real(config, copy.deepcopy(policy), say))


@dataclass(frozen=True)
class Started:
    """options: on top of the demo. is_broken: whether something is wrong. breaks: what is done to the code.

    recipe: what the demo is laid over. was_seen: whether thresholds were chosen with this run in view.
    """

    options: tuple[str, ...] = ()
    is_broken: bool = True
    breaks: Callable[[], AbstractContextManager[Any]] = nullcontext
    recipe: str = ""
    was_seen: bool = True


def held_out(seed: int, *options: str, recipe: str = "") -> Started:
    """A healthy run that no threshold was chosen with."""
    return Started((f"run.seed={seed}", *options), is_broken=False, recipe=recipe, was_seen=False)


RUNS: dict[str, Started] = {
    "the demo, seed 0": Started(is_broken=False),
    "shuffled advantages": Started(breaks=advantages_shuffled),
    "masked ends of answers": Started(breaks=ends_masked),
    "an engine with old weights": Started(breaks=engine_stale),
    "half of the answers cannot be judged": Started(
        ("rewards.functions.half.path={own}:half", "rewards.functions.half.weight=0.1")
    ),
    "KL by k1 in the loss, coefficient 1": Started(("kl.coefficient=1.0", "kl.estimator=k1")),
    "format reward × 15": Started(("rewards.format.weight=3.0",)),
    "at most 8 tokens": Started(("sampling.max_new_tokens=8",)),
    "temperature 3": Started(("sampling.temperature=3.0",)),
    "the demo, seed 1": Started(("run.seed=1",), is_broken=False),
    "group scale": Started(("advantage.estimator.scale=group_std",), is_broken=False),
    "CISPO": Started(("objective.surrogate=cispo",), is_broken=False),
    "learning rate × 30": Started(("optimizer.lr=1.8e-2",)),
    "learning rate × 100": Started(("optimizer.lr=6e-2",)),
    "a reward that is always 1": Started(
        ("rewards.correctness.weight=0", "rewards.format.weight=0", "rewards.functions.one.path={own}:one")
    ),
    "entropy bonus 0.3": Started(("entropy.bonus={type: fixed, coefficient: 0.3}",)),
    "the demo, seed 2": held_out(2),
    "the demo, seed 3": held_out(3),
    "GRPO, seed 4": held_out(4, recipe="grpo"),
    "Dr. GRPO, seed 5": held_out(5, recipe="dr_grpo"),
    "DAPO, seed 6": held_out(6, "rewards.overlong.buffer_tokens=16", recipe="dapo"),
    "GSPO, seed 7": held_out(7, recipe="gspo"),
    "OLMo 3, seed 8": held_out(8, recipe="olmo3"),
    "learning rate × 3, seed 9": held_out(9, "optimizer.lr=1.8e-3"),
    "shuffled advantages, seed 10": Started(("run.seed=10",), breaks=advantages_shuffled, was_seen=False),
    "format reward × 25, seed 11": Started(("run.seed=11", "rewards.format.weight=5.0"), was_seen=False),
    "learning rate × 10, seed 12": Started(("run.seed=12", "optimizer.lr=6e-3"), was_seen=False),
}


def run(name: str, steps: int, folder: Path) -> str:
    """Train in a folder, unless that was done before; why the run was stopped, empty where it was not."""
    own, output, ended = folder / "own.py", folder / "run", folder / "ended.json"
    if ended.is_file():
        return str(json.loads(ended.read_text()))
    own.write_text(REWARDS)
    started, why = RUNS[name], ""
    given = [
        *([RUNS[name].recipe] if RUNS[name].recipe else []),
        "demo",
        f"run.steps={steps}",
        "problems.eval_problems=0",
        "run.threads=1",
        f"run.output={output}",
    ]
    given += [option.replace("{own}", str(own)) for option in started.options]
    with contextlib.redirect_stdout(io.StringIO()), started.breaks():
        try:
            compose_and_start(given, False, Tracker())
        except BrokenRunError as error:
            why = str(error).partition(". ")[0].partition(":\n")[0]
    ended.write_text(json.dumps(why))
    return why


def row_of(name: str, steps: int, folder: Path) -> str:
    """The row of the table for one run."""
    why = run(name, steps, folder)
    lines = folder / "run"
    rows = read_steps(lines) if (lines / "metrics.jsonl").read_text() else []
    found = findings(rows, Context(512)) if rows else []
    words = [f"{one.severity} `{one.rule}` {one.first_step}" for one in found]
    reason = why.partition("\n")[0].partition("; for example")[0]
    words += [f"a guard stops it after {len(rows)} steps: {reason}"] if why else []
    last = [row.correctness for row in rows[-20:] if row.correctness is not None]
    right = f"{100 * fmean(last):.0f} %" if last else ""
    return f"| {name} | {'yes' if RUNS[name].is_broken else 'no'} | {right} | {', '.join(words) or 'none'} |"


def folders(cache: str) -> Iterator[Path]:
    """A folder for each run, kept only where one is named."""
    with tempfile.TemporaryDirectory() as own:
        for name in RUNS:
            made = Path(cache or own) / f"{zlib.crc32(name.encode()):08x}"
            made.mkdir(parents=True, exist_ok=True)
            yield made


def main(given: Sequence[str] | None = None) -> None:
    """Run all of them and print a row of the table for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--only", default="", help="run those whose name has this")
    parser.add_argument("--cache", default="", help="where runs are kept: what is there is not run again")
    stated = parser.parse_args(given)
    torch.set_num_threads(1)
    print("| run | broken | right in the last 20 steps | findings, with the step at which each fires |")
    print("|---|---|---|---|")
    for name, folder in zip(RUNS, folders(stated.cache), strict=True):
        if stated.only in name:
            print(row_of(name, stated.steps, folder), flush=True)


if __name__ == "__main__":
    main()
