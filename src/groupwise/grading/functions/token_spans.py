"""From spans of an answer's text to spans of its tokens."""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import takewhile

from groupwise.grading.records import Span

Decode = Callable[[Sequence[int]], str]

# Tokens that spell a character together, at most. One that reads otherwise by itself than behind others needs more.
_MOST_TOGETHER = 8


def in_tokens(
    spans: Sequence[Span], ids: Sequence[int], text: str | None, tokens: int, decode: Decode
) -> tuple[Span, ...]:
    """Spans of `text` as spans of the tokens that hold its characters; of `ids` already where text is None.

    A character is held by the first token with which the answer reads as `text` does up to and with it: of a character
    that several tokens spell, the last of them. A token that a border cuts is then in both spans, and the first one
    ends with it. A span that reaches the end of what the function was given also has what comes after, such as the
    token that stopped the answer, up to `tokens`, the length of the completion.

    ids: of the answer, without what stopped it. decode: as `text` was made.
    """
    if text is None:
        return tuple(span._replace(end=tokens) if span.end == len(ids) else span for span in spans)
    token_of = _by_pieces(ids, text, decode) if spans else {}
    if token_of is None:
        token_of = _by_beginnings(spans, ids, text, decode)
    return tuple(
        Span(token_of[span.start], tokens if span.end == len(text) else token_of[span.end - 1] + 1, span.score)
        for span in spans
    )


def _by_pieces(ids: Sequence[int], text: str, decode: Decode) -> dict[int, int] | None:
    """The token that holds each character, token by token; None where the tokens by themselves do not read as `text`.

    Only tokens that spell a character together are decoded together.
    """
    token_of: dict[int, int] = {}
    first, before = 0, 0
    for t in range(len(ids)):
        piece = decode(ids[first : t + 1])
        same = zip(piece, text[before : before + len(piece)], strict=False)
        read = len(list(takewhile(lambda pair: pair[0] == pair[1], same)))
        token_of |= dict.fromkeys(range(len(token_of), before + read), t)
        if read == len(piece):
            first, before = t + 1, before + read
        elif t - first == _MOST_TOGETHER:
            break
    # Behind a text that stops the answer, the last token may read on.
    return token_of if len(token_of) == len(text) else None


def _by_beginnings(spans: Sequence[Span], ids: Sequence[int], text: str, decode: Decode) -> dict[int, int]:
    """The tokens that hold the first and last characters of spans, by decoding about log2(len(ids)) beginnings each."""
    token_of: dict[int, int] = {}
    low = 0
    for character in sorted({place for span in spans for place in (span.start, span.end - 1)}):
        read = text[: character + 1]
        # The last token holds what no other does.
        among = range(low, len(ids) - 1)
        low += bisect_left(among, True, key=lambda t: decode(ids[: t + 1]).startswith(read))
        token_of[character] = low
    return token_of
