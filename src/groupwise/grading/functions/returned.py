"""What a reward function may return: a number, or spans of the answer with a score each."""

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, Literal

Returns = Literal["number", "character_spans", "token_spans"]
CALLED: dict[Returns, str] = {
    "number": "a finite number",
    "character_spans": "a list of (start, end, score) in characters of text",
    "token_spans": "a list of (start, end, score) in ids",
}


class ReturnError(Exception):
    """The function returned something else than it should."""

    def __init__(self, kind: str, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.failure_kind = kind
        self.failure_data = data


def a_number(value: Any) -> float:
    """A finite number, NumPy's and others included. Raises ReturnError with the kind `bad_type` or `not_finite`."""
    if isinstance(value, str | bytes | bytearray) or not hasattr(type(value), "__float__"):
        hint = "; return 0.0 for a completion without an answer" if value is None else ""
        raise ReturnError("bad_type", f"returned {_shown(value)}, where a number was expected{hint}")
    try:
        result = float(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise ReturnError("bad_type", f"returned {_shown(value)}, where a number was expected: {error}") from None
    if not math.isfinite(result):
        raise ReturnError("not_finite", f"returned {result}, where a finite number was expected")
    return result


def spans(value: Any, length: int, returns: Returns) -> list[list[Any]]:
    """Spans [start, end, score] of something so long, the end not in them, in their order; none is a list of none.

    Raises ReturnError, with the kind `bad_span` for what is empty, overlaps the one before, or leaves the answer.
    """
    if isinstance(value, str | bytes | dict | set | frozenset) or not hasattr(value, "__len__"):
        raise ReturnError("bad_type", f"returned {_shown(value)}, where {CALLED[returns]} was expected")
    found: list[list[Any]] = []
    unit = "characters" if returns == "character_spans" else "tokens"
    before = 0
    for number, item in enumerate(_items(value), start=1):
        name = f"span {number}, {_shown(item)},"
        try:
            start, end, score = item
            # Not int(), to which 1.5 is 1.
            start, end = operator.index(start), operator.index(end)
        except (TypeError, ValueError):
            raise ReturnError("bad_type", f"{name} is not (start, end, score) with whole start and end") from None
        if not 0 <= start < end:
            raise ReturnError("bad_span", f"{name} is empty or begins before 0: expected 0 <= start < end")
        if end > length:
            raise ReturnError("bad_span", f"{name} leaves the answer, which has {length} {unit}")
        if start < before:
            raise ReturnError(
                "bad_span", f"{name} begins before {before}, where the one before ends: spans are in order"
            )
        before = end
        try:
            found.append([start, end, a_number(score)])
        except ReturnError as error:
            raise ReturnError(error.failure_kind, f"the score of {name} is wrong: {error}") from None
    return found


def listed(
    value: Any,
    samples: Sequence[dict[str, Any]],
    returns: Returns,
    read: Callable[[Any, dict[str, Any]], Any],
) -> list[Any]:
    """Something for each sample; an exception in the list, as asyncio.gather leaves it there, fails that one alone.

    Raises ReturnError.

    Where only some of them are wrong, its data lists for each one what it is, or its kind of failure and the message.
    """
    count, what = len(samples), "numbers" if returns == "number" else "lists of spans"
    if isinstance(value, str | bytes | dict | set | frozenset) or not hasattr(value, "__len__"):
        raise ReturnError("bad_type", f"returned {_shown(value)}, where a list of {count} {what} was expected")
    items = _items(value)
    if len(items) != count:
        raise ReturnError("wrong_length", f"returned {len(items)} {what} for {count} completions")
    results: list[Any] = []
    for item, sample in zip(items, samples, strict=True):
        if isinstance(item, Exception):
            results.append(["raised", f"{type(item).__name__}: {str(item)[:2000]}"])
            continue
        try:
            results.append(read(item, sample))
        except ReturnError as error:
            results.append([error.failure_kind, str(error)])
    for place, result in enumerate(results):
        if isinstance(result, list):
            raise ReturnError(result[0], f"at place {place} of {count}, {result[1]}", results)
    return results


def _items(value: Any) -> list[Any]:
    try:
        return list(value)
    except TypeError:
        raise ReturnError("bad_type", f"returned {_shown(value)}, where a list was expected") from None


def _shown(value: Any) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 80 else text[:77] + '...'}"
