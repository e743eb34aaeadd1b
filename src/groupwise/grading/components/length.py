"""Rewards that depend on the length of an answer, alone or beside those of its group. Lengths are in tokens."""

import math
from collections.abc import Sequence

from groupwise.grading.records import Score


def score_overlong(tokens: int, longest: int, buffer: int) -> Score:
    """The soft overlong penalty (DAPO, 2503.14476 eq. 13), from 0 to -1.

    With the longest answer L_max and the buffer C, all in tokens: 0 up to L_max - C, then falling linearly to -1 at
    L_max, and -1 beyond. A buffer of 0 penalises nothing.
    """
    if buffer == 0 or tokens <= longest - buffer:
        return Score(0.0, "scored")
    value = (longest - buffer - tokens) / buffer if tokens <= longest else -1.0
    return Score(value, "scored", f"{tokens} tokens of {longest}")


def score_linear(tokens: int, longest: int, free: int) -> Score:
    """A linear price on length, from 0 to -1: nothing for `free` tokens, -1 at `longest` and beyond.

    Raises ValueError unless 0 <= free < longest.
    """
    if not 0 <= free < longest:
        raise ValueError(f"expected 0 <= free < longest, found free={free} and longest={longest} tokens")
    if tokens <= free:
        return Score(0.0, "scored")
    return Score(-min(1.0, (tokens - free) / (longest - free)), "scored", f"{tokens} tokens of {longest}")


def score_group_relative(tokens_G: Sequence[int], correctness_G: Sequence[float]) -> list[Score]:
    """The length reward within a group, from 0.5 to -0.5 (Kimi k1.5, 2501.12599 section 2.3.3).

    λ = 0.5 - (length - shortest) / (longest - shortest) over all completions of the problem. A right one, of
    correctness 1, gets λ; any other one min(0, λ). Where all are of one length, all get 0. Where the correctness is
    NaN nobody knows which of the two it is, and the score is an error.
    """
    shortest, longest = min(tokens_G, default=0), max(tokens_G, default=0)
    scores = []
    for tokens, correctness in zip(tokens_G, correctness_G, strict=True):
        if math.isnan(correctness):
            scores.append(Score(math.nan, "error", "whether the answer is right is not known"))
            continue
        value = 0.5 - (tokens - shortest) / (longest - shortest) if longest > shortest else 0.0
        detail = f"{tokens} tokens, of {shortest} to {longest} in the group"
        scores.append(Score(value if correctness == 1.0 else min(0.0, value), "scored", detail))
    return scores
