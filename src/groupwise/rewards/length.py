"""Rewards that depend on the length of an answer alone."""

from groupwise.rewards.types import Score


def score_overlong(tokens: int, longest: int, buffer: int) -> Score:
    """The soft overlong penalty (DAPO, 2503.14476 eq. 13), from 0 to -1.

    With the longest answer L_max and the buffer C, all in tokens: 0 up to L_max - C, then falling linearly to -1 at
    L_max, and -1 beyond. A buffer of 0 penalises nothing.
    """
    if buffer == 0 or tokens <= longest - buffer:
        return Score(0.0, "scored")
    value = (longest - buffer - tokens) / buffer if tokens <= longest else -1.0
    return Score(value, "scored", f"{tokens} tokens of {longest}")
