"""A completion of a run as a page needs it, checked: a folder may be of another version, or of somebody else."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from groupwise.errors import DataError
from groupwise.track.rollouts import read_rollouts

Id = Annotated[int, Field(ge=0, lt=2**31)]
Count = Annotated[int, Field(ge=0)]


class Verdict(BaseModel):
    """See `grading.records.Verdict`."""

    status: str = ""
    extracted: str = ""
    method: str = ""
    flags: list[str] = []


class Record(BaseModel):
    """A line of a file of rollouts/, as docs/run-folder.md describes it; older versions lack some of it.

    Floats may be NaN, which the files have as text.
    """

    problem: str
    sample: Count
    completion: str
    position: int = -1
    domain: str = ""
    question: str = ""
    answer: str = ""
    prompt: str = ""
    tokens: Count = 0
    finish_reason: str = ""
    rewards: dict[str, float] = {}
    status: dict[str, str] = {}
    detail: dict[str, str] = {}
    verdict: Verdict | None = None
    total: float = float("nan")
    advantage: float | None = None
    ids: list[Id] = []
    logps: list[float] = []
    ratios: list[float] | None = None
    entropies: list[float] | None = None
    token_advantages: list[float] | None = None
    spans: dict[str, list[tuple[Count, Count, float]]] = {}

    @property
    def outcome(self) -> str:
        """What became of the completion: the grader's verdict, or that of the reward of correctness."""
        if self.verdict is not None and self.verdict.status:
            return self.verdict.status
        status = self.status.get("correctness", "")
        if status != "scored":
            return status or "not graded"
        return "correct" if self.rewards.get("correctness") == 1.0 else "wrong"

    def over_tokens(self) -> dict[str, Sequence[float]]:
        """The numbers that there are for every token."""
        named = {"logps": self.logps, "ratios": self.ratios, "entropies": self.entropies}
        named |= {"token_advantages": self.token_advantages}
        return {name: values for name, values in named.items() if values and len(values) == len(self.ids)}

    def scored_spans(self) -> dict[str, list[tuple[int, int, float]]]:
        """By function, the parts of the completion that it scored: first token, the one behind the last, score."""
        within = {
            name: [
                (start, end, score) for start, end, score in own if start < end <= self.tokens and math.isfinite(score)
            ]
            for name, own in self.spans.items()
        }
        return {name: own for name, own in within.items() if own}


_RECORDS = TypeAdapter(list[Record])


def records_of(path: Path) -> list[Record]:
    """All completions in a file of rollouts/. Raises DataError for a line that is none."""
    rows: Sequence[Mapping[str, Any]] = read_rollouts(path)
    try:
        return _RECORDS.validate_python(rows)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"][1:]))
        raise DataError(
            f"'{path}' cannot be shown: line {int(first['loc'][0]) + 1}: {where}: {first['msg']}"
        ) from error
