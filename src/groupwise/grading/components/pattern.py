"""Regular expressions of the user's own, matched against completions within a bound of time."""

import functools

import regex

# Texts with nothing in common: who matches all of them matches about everything.
_PROBES = ("x", "42", "The answer is 42.", "<think>a</think>b", "一二\n\nтри!?", "\\boxed{1}\n" * 3)


def matches(pattern: str, text: str, milliseconds: int) -> str:
    """Empty where the pattern matches the whole text, otherwise the reason why it does not count as matching.

    A dot matches line ends too. What takes longer than `milliseconds` of wall time counts as not matching, so that a
    text close to the bound may be judged otherwise the next time. Raises ValueError for a pattern that
    `pattern_fault` refuses.
    """
    try:
        found = _compiled(pattern).fullmatch(text, timeout=milliseconds / 1000)
    except (TimeoutError, MemoryError):
        return f"the pattern took more than {milliseconds} ms and counts as not matching"
    return "" if found else "the pattern does not match"


def pattern_fault(pattern: str) -> str:
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
        return f"the pattern {pattern!r} matches any text: every completion is paid, so that it teaches nothing"
    if matches(pattern, "", milliseconds) == "":
        return f"the pattern {pattern!r} matches the empty completion: saying nothing at all is paid"
    return ""


@functools.lru_cache(maxsize=64)
def _compiled(pattern: str) -> "regex.Pattern[str]":
    try:
        return regex.compile(pattern, regex.DOTALL)
    except (regex.error, ValueError, OverflowError, RecursionError, KeyError, TypeError) as error:
        raise ValueError(f"the pattern {pattern!r} is not a regular expression: {error}") from error
