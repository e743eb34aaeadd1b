"""From spans of an answer's text to spans of its tokens."""

from bisect import bisect_left
from collections.abc import Callable, Sequence

from groupwise.grading.records import Span


def in_tokens(
    spans: Sequence[Span], ids: Sequence[int], text: str | None, tokens: int, decode: Callable[[Sequence[int]], str]
) -> tuple[Span, ...]:
    """Spans of `text` as spans of the tokens that hold its characters; of `ids` already where text is None.

    A character is held by the first token with which the answer reads as `text` does up to and with it: of a character
    that several tokens spell, the last of them. A token that a border cuts is then in both spans, and the first one
    ends with it. A span that reaches the end of what the function was given also has what comes after, such as the
    token that stopped the answer, up to `tokens`, the length of the completion.

    ids: of the answer, without what stopped it. decode: as `text` was made. It is called about log2(len(ids)) times
    for each border.
    """
    whole = len(ids) if text is None else len(text)
    found: list[Span] = []
    low = 0
    for span in spans:
        start, end = span.start, span.end
        if text is not None:
            start = low = _holder(span.start, low, ids, text, decode)
            low = _holder(span.end - 1, low, ids, text, decode)
            end = low + 1
        found.append(Span(start, tokens if span.end == whole else end, span.score))
    return tuple(found)


def _holder(character: int, low: int, ids: Sequence[int], text: str, decode: Callable[[Sequence[int]], str]) -> int:
    """The index of the token that holds a character, which is not before `low`."""
    read = text[: character + 1]
    among = range(low, len(ids) - 1)
    # The last token holds what no other does.
    return low + bisect_left(among, True, key=lambda t: decode(ids[: t + 1]).startswith(read))
