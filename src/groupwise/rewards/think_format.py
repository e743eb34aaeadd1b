"""The format reward: one non-empty `<think>…</think>`, then a non-empty answer.

On token ids it is exact, because the tags are single tokens. The same rule on text is for models whose tags are
several tokens; it also sees a tag that was spelled out in pieces.
"""

import re
from collections.abc import Sequence
from typing import Literal, Protocol

from groupwise.rewards.types import SPECIAL_TOKEN, Response, Score

Piece = Literal["open", "close", "content"]

_TAG = re.compile(r"(</?think>)")


class Decoder(Protocol):
    """The one thing that is needed of a tokenizer."""

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool) -> str:
        """The text of these tokens."""
        ...


def score_think_ids(response: Response, open_id: int, close_id: int, decoder: Decoder) -> Score:
    """1 where the token ids keep the format, otherwise 0, with the reason. Special tokens are no content."""
    pieces: list[Piece] = []
    run: list[int] = []
    for token in (*response.ids, None):
        if token is not None and token not in (open_id, close_id):
            run.append(token)
            continue
        if run and decoder.decode(run, skip_special_tokens=True).strip():
            pieces.append("content")
        run = []
        if token is not None:
            pieces.append("open" if token == open_id else "close")
    return _score(pieces, response.opened)


def score_think_text(response: Response) -> Score:
    """1 where the text keeps the format, otherwise 0, with the reason.

    Special tokens are no content here either, as far as their look tells: `<|name|>`, `<s>`, `</s>`, `<pad>`.
    """
    pieces: list[Piece] = []
    for part in _TAG.split(response.text):
        if part in ("<think>", "</think>"):
            pieces.append("open" if part == "<think>" else "close")
        elif SPECIAL_TOKEN.sub("", part).strip():
            pieces.append("content")
    return _score(pieces, response.opened)


def _score(pieces: Sequence[Piece], opened: bool) -> Score:
    before: list[Piece] = ["open"] if opened else []
    fault = _fault([*before, *pieces])
    return Score(0.0 if fault else 1.0, "scored", fault)


def _fault(pieces: list[Piece]) -> str:
    """What is wrong with the order of the pieces; empty where nothing is."""
    for tag, count in (("<think>", pieces.count("open")), ("</think>", pieces.count("close"))):
        if count != 1:
            return f"no {tag}" if count == 0 else f"{count} times {tag}"
    start, end = pieces.index("open"), pieces.index("close")
    if end < start:
        return "</think> before <think>"
    if start > 0:
        return "text before <think>"
    if end == start + 1:
        return "nothing between <think> and </think>"
    if end == len(pieces) - 1:
        return "no answer after </think>"
    return ""
