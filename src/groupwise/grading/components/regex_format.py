"""The format reward of a regular expression of the user's own, matched within a bound of time."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

import regex

from groupwise.grading.components.component import Answers
from groupwise.grading.components.tagged_format import THINK, FormatReward
from groupwise.grading.records import SPECIAL_TOKEN, Response, Score
from groupwise.options import PositiveInt

if TYPE_CHECKING:
    from groupwise.config.checks.table import Table
    from groupwise.findings import Finding

# Texts with nothing in common: who matches all of them matches about everything.
_PROBES = ("x", "42", "The answer is 42.", "<think>a</think>b", "一二\n\nтри!?", "\\boxed{1}\n" * 3)


class RegexFormat(FormatReward):
    """`pattern` matches the whole completion."""

    type: Literal["regex"] = "regex"

    pattern: str = ""
    """Regular expression. A dot matches line ends too. A <think> that the prompt ends with is part of what is matched,
    special tokens are not."""

    pattern_milliseconds: PositiveInt = 50
    """Matching stops after so long, and the pattern then counts as not matching."""

    def score(self, answers: Answers) -> list[Score]:
        """See `score_pattern`."""
        return list(map(self.score_pattern, answers.responses_G))

    def score_pattern(self, response: Response) -> Score:
        """1 or 0, with the reason. Raises ValueError for a pattern that `pattern_error` refuses."""
        # The beginning that the prompt already holds belongs to the format.
        text = (THINK if response.opened else "") + SPECIAL_TOKEN.sub("", response.text)
        mismatch = matches(self.pattern, text, self.pattern_milliseconds)
        return Score(0.0 if mismatch else 1.0, "scored", mismatch)

    def findings_in(self, table: Table) -> Iterator[Finding]:
        """A pattern that is missing, broken, or matches anything."""
        key = table.key("format.pattern")
        if not self.pattern:
            text = f"{table.key('format')}=regex without {key}: state the pattern to match"
            yield table.error(("format.pattern", "format"), text)
        elif problem := pattern_error(self.pattern):
            yield table.error(("format.pattern", "format"), f"{key}: {problem}")
        elif weakness := pattern_warning(self.pattern, self.pattern_milliseconds):
            yield table.warning(("format.pattern", "format"), f"{key}: {weakness}")


def matches(pattern: str, text: str, milliseconds: int) -> str:
    """Empty where the pattern matches the whole text, otherwise the reason why it does not count as matching.

    A dot matches line ends too. What takes longer than `milliseconds` of wall time counts as not matching, so that a
    text close to the bound may be judged otherwise the next time. Raises ValueError for a pattern that
    `pattern_error` refuses.
    """
    try:
        found = _compiled(pattern).fullmatch(text, timeout=milliseconds / 1000)
    except (TimeoutError, MemoryError):
        return f"the pattern took more than {milliseconds} ms and counts as not matching"
    return "" if found else "the pattern does not match"


def pattern_error(pattern: str) -> str:
    """Why a pattern cannot be used; empty where it can."""
    if not pattern:
        return "the pattern is empty"
    try:
        _compiled(pattern)
    except ValueError as error:
        return str(error)
    return ""


def pattern_warning(pattern: str, milliseconds: int = 50) -> str:
    """What makes a valid pattern useless as a reward; empty where nothing is seen."""
    if all(matches(pattern, text, milliseconds) == "" for text in ("", *_PROBES)):
        return f"the pattern {pattern!r} matches any text: every completion is rewarded, so that it teaches nothing"
    if matches(pattern, "", milliseconds) == "":
        return f"the pattern {pattern!r} matches the empty completion: saying nothing at all is rewarded"
    return ""


@functools.lru_cache(maxsize=64)
def _compiled(pattern: str) -> regex.Pattern[str]:
    try:
        return regex.compile(pattern, regex.DOTALL)
    except (regex.error, ValueError, OverflowError, RecursionError, KeyError, TypeError) as error:
        raise ValueError(f"the pattern {pattern!r} is not a regular expression: {error}") from error
