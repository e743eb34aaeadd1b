"""What a reward function is given about a completion."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, time
from typing import Any, Literal

from groupwise.problem import Problem

FINISHED = Literal["stop", "length"]


@dataclass(frozen=True, slots=True)
class SampleInput:
    """A completion and its problem, as a reward function sees them.

    ids: tokens without the one that stopped it. raw_text: their text with special tokens; text: without them.
    finish_reason: `length` where it was cut off. row: see `row_of`. step, progress: see `place_in_run`.
    """

    problem_id: str
    ids: tuple[int, ...]
    raw_text: str
    text: str
    finish_reason: FINISHED
    row: Mapping[str, Any]
    step: int
    progress: float


def place_in_run(step: int | None, steps: int) -> tuple[int, float]:
    """The step that samples, from 1, and how far a run of so many steps is: 0 in its first step, 1 in its last.

    A measurement, which has no step, counts as the last one, so that measurements of any two steps compare.
    """
    step = steps if step is None else step
    return step, (step - 1) / (steps - 1) if steps > 1 else 1.0


def row_of(problem: Problem) -> dict[str, Any]:
    """The columns of the problem's file, and `id`, `question`, `answer` and `domain` where it has no such column.

    Values that JSON has no form for are turned into one: NumPy numbers into numbers, dates into ISO 8601, others into
    text.
    """
    own = {
        "id": problem.id,
        "question": problem.question,
        "answer": problem.answer,
        "domain": problem.domain,
    }
    return {**own, **{str(key): plain(value) for key, value in problem.row.items()}}


def plain(value: Any) -> Any:
    """A value as JSON holds it."""
    if value is None or type(value) in (str, int, float, bool):
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if isinstance(value, date | time):
        return value.isoformat()
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    return str(value)
