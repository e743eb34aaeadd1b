"""What is wrong with the problems of a file, before anything is trained on them. Knows no model.

A row is unusable if it cannot be read as a problem, if its reference answer could never be matched, or if its prompt
does not fit. Up to 1 % of unusable rows are left out and listed; a file with more is refused.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from groupwise.data.files import UnusableRow
from groupwise.data.shapes import DOMAIN_COLUMNS, get
from groupwise.errors import DataError, listed
from groupwise.problem import Problem

MOST_UNUSABLE = 0.01
"""A file with a larger share of unusable rows is refused."""

LONG_ANSWER_CHARACTERS = 200

ProblemCheck = Callable[[Problem], str]
"""Why a problem cannot be used; empty where it can."""


@dataclass(frozen=True, slots=True)
class Report:
    """The usable problems of some files, and the rows that are unusable."""

    path: str
    rows: int
    problems: tuple[Problem, ...]
    unusable: tuple[UnusableRow, ...]

    @property
    def unusable_share(self) -> float:
        """The share of rows that are unusable, 0 to 1."""
        return len(self.unusable) / self.rows if self.rows else 0.0

    @property
    def refused(self) -> str:
        """Why nothing should be trained on these problems; empty where something can."""
        if not self.problems:
            return f"{self.path}: none of {self.rows} rows can be used"
        if self.unusable_share > MOST_UNUSABLE:
            shorter = any(row.kind == "prompt" for row in self.unusable)
            return (
                f"{self.path}: {len(self.unusable)} of {self.rows} rows ({100 * self.unusable_share:.1f} %) cannot be "
                f"used, and more than {100 * MOST_UNUSABLE:g} % are refused; fix or remove them"
                + (", or lower sampling.max_new_tokens" if shorter else "")
            )
        return ""


def preflight(
    problems: Sequence[Problem],
    unusable: Iterable[UnusableRow],
    checks: Mapping[str, ProblemCheck],
    path: str = "the problems",
) -> Report:
    """Sort the problems of a file from those that some check refuses.

    problems, unusable: those of a file as `files.read_file` gives them. checks: by the kind of what each one refuses,
    asked in their order until one refuses.
    """
    found = list(unusable)
    usable: list[Problem] = []
    unread = len(found)
    for problem in problems:
        for kind, check in checks.items():
            reason = check(problem)
            if reason:
                found.append(UnusableRow(problem.place, reason, kind))
                break
        else:
            usable.append(problem)
    return Report(path, len(problems) + unread, tuple(usable), tuple(found))


def refuse(report: Report) -> None:
    """Raises DataError where more than 1 % of the rows are unusable or nothing is left, with the first rows."""
    if report.refused:
        raise DataError("\n".join([report.refused + ":", *listed(report.unusable)]))


@dataclass(frozen=True, slots=True)
class Lengths:
    """Of prompts, in tokens; p95 is the length that 95 % do not exceed."""

    shortest: int
    median: int
    p95: int
    longest: int


def lengths_of(tokens: Sequence[int]) -> Lengths | None:
    """The spread of lengths; None without any."""
    if not tokens:
        return None
    values = np.asarray(tokens)
    median, p95 = (int(np.percentile(values, q, method="inverted_cdf")) for q in (50, 95))
    return Lengths(int(values.min()), median, p95, int(values.max()))


@dataclass(frozen=True, slots=True)
class Remarks:
    """What is remarkable about usable problems, each as sources.

    missing_domain: rows without a domain in a file whose other rows state one. long_answers: reference answers of more
    than 200 characters without a box, which look like solutions. given_away: questions that end with their answer.
    weak_tests: programs of whose tests some could not be read.
    """

    missing_domain: tuple[str, ...]
    long_answers: tuple[str, ...]
    given_away: tuple[str, ...]
    weak_tests: tuple[str, ...]


def remarks_of(problems: Sequence[Problem], domain_column: str = "") -> Remarks:
    """What is remarkable about these problems."""
    named = (domain_column,) if domain_column else DOMAIN_COLUMNS
    stated = [any(get(problem.row, name) is not None for name in named) for problem in problems]

    def sources(remarkable: Iterable[bool]) -> tuple[str, ...]:
        return tuple(p.place for p, it_is in zip(problems, remarkable, strict=True) if it_is)

    return Remarks(
        missing_domain=sources(any(stated) and not has for has in stated),
        long_answers=sources(len(p.answer) > LONG_ANSWER_CHARACTERS and "\\boxed" not in p.answer for p in problems),
        given_away=sources(map(_is_given_away, problems)),
        weak_tests=sources(p.tests is not None and bool(p.tests.weak_oracle) for p in problems),
    )


def domain_counts(problems: Iterable[Problem]) -> dict[str, int]:
    """How many problems each domain has, the largest first."""
    return dict(Counter(problem.domain for problem in problems).most_common())


_GIVEN = re.compile(r"(?:answer|solution)\s*(?:is|:|=)?\s*[\"'`$(]*", re.IGNORECASE)


def _is_given_away(problem: Problem) -> bool:
    """Whether a question ends in `Answer: ` and the answer, or shows it in a box."""
    question, answer = problem.question, problem.answer
    if not answer:
        return False
    if f"\\boxed{{{answer}}}" in question:
        return True
    end = question.rstrip(" \n\t.\"'`$)")
    if not end.endswith(answer):
        return False
    before = end[: -len(answer)][-40:]
    return any(match.end() == len(before) for match in _GIVEN.finditer(before))
