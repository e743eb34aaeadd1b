"""What reward functions are told of the run: the same by worker, by object, and after an interruption."""

from pathlib import Path
from typing import Any

import groupwise
from tests.api.program import OPTIONS
from tests.support.runs import Quiet, interrupt_at, metrics, resume, train

REWARD = """
def told(text, step, progress):
    return 10 * step + progress


async def told_in_batches(text, step, progress):
    return [10 * step + progress for _ in text]


def right(step, progress):
    return float(step == 3 and progress == 1.0)
"""
TOLD = [[10.0], [20.5], [31.0]]
RUN = ["run.steps=3", "run.checkpoint_every_steps=1", "run.rollouts_every_steps=1"]


class Told:
    """A reward that no worker can load."""

    def __call__(self, step: int, progress: float) -> float:
        return 10 * step + progress


def rewards_by_step(folder: Path, name: str) -> list[list[float]]:
    """The values that the completions of each step have, without repetition."""
    run = groupwise.open_run(folder)
    return [sorted({row["rewards"][name] for row in run.rollouts(step)}) for step in (1, 2, 3)]


def test_a_run_passes_step_and_progress_and_a_resumed_one_the_same(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(REWARD)
    functions = [
        f"rewards.functions.told.path={file}:told",
        f"rewards.functions.batched={{path: '{file}:told_in_batches', call: batch, weight: 0}}",
    ]
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert train(whole, *RUN, *functions) is not None
    assert rewards_by_step(whole, "told") == rewards_by_step(whole, "batched") == TOLD
    assert train(parts, *RUN, *functions, reporter=Quiet(interrupt_at(2))) is None
    assert resume(parts) is not None
    assert rewards_by_step(parts, "told") == TOLD
    assert metrics(parts) == metrics(whole)


def test_an_object_is_told_the_same(tmp_path: Path) -> None:
    options: dict[str, Any] = {**OPTIONS, "run.steps": 3, "run.rollouts_every_steps": 1}
    run = groupwise.train(rewards={"own": (Told(), 0.5)}, output=tmp_path / "run", quiet=True, **options)
    assert rewards_by_step(run.folder, "own") == TOLD


def test_a_measurement_is_of_the_last_step(tmp_path: Path) -> None:
    """Before, during and after training: all of them say that every answer is right, as only the third step does."""
    file = tmp_path / "mine.py"
    file.write_text(REWARD)
    options: dict[str, Any] = {
        **OPTIONS,
        "run.steps": 3,
        "problems.eval_problems": 2,
        "problems.eval_every_steps": 1,
        "rewards.correctness.grader": "right",
        "rewards.correctness.math.answer": "marked",
        "active_sampling.filter": "none",
    }
    run = groupwise.train(rewards={"right": f"{file}:right"}, output=tmp_path / "run", quiet=True, **options)
    assert run.metrics["reward/correctness/mean"] == [0.0, 0.0, 1.0]
    measured = [run.summary["before"], run.summary["after"]]
    assert [one["sampled"]["accuracy"]["value"] for one in measured] == [1.0, 1.0]
    assert [row["eval/greedy/accuracy"] for row in run.metrics if "eval/greedy/accuracy" in row] == [1.0, 1.0]
