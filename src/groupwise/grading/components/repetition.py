"""A penalty of repeated n-grams of tokens."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from groupwise.grading.records import Score


def score_repetition(ids: Sequence[int], ngram_tokens: int, free_fraction: float = 0.0) -> Score:
    """0 where no n-gram occurs twice, down to -1 where only one kind is left of infinitely many.

    With the share of repeated n-grams r = 1 - (different n-grams) / (all n-grams) and the free share f:
    -max(0, r - f) / (1 - f). Fewer than n + 1 tokens hold no two n-grams and cost nothing, nor does f = 1.
    """
    share = repeated_share(ids, ngram_tokens)
    if share <= free_fraction:
        return Score(0.0, "scored")
    detail = f"{100 * share:.0f} % of the {ngram_tokens}-grams occurred before"
    return Score(-(share - free_fraction) / (1.0 - free_fraction), "scored", detail)


def repeated_share(ids: Sequence[int], ngram_tokens: int) -> float:
    """The share of n-grams that occurred before, from 0 to less than 1. Raises ValueError for n below 1."""
    if ngram_tokens < 1:
        raise ValueError(f"an n-gram has at least one token, not {ngram_tokens}")
    count = len(ids) - ngram_tokens + 1
    if count < 2:
        return 0.0
    return 1.0 - len(np.unique(_ngram_classes(np.asarray(ids, dtype=np.int64), ngram_tokens))) / count


def _ngram_classes(ids_T: NDArray[np.int64], ngram_tokens: int) -> NDArray[np.int64]:
    """A number for the n-gram at each position, the same for the same n-grams.

    Two runs of length m joined at a distance d make one of length m + d, so that long n-grams cost no more than the
    logarithm of their length.
    """
    classes_T = _ranks(ids_T)
    length = 1
    while length < ngram_tokens:
        step = min(length, ngram_tokens - length)
        # Ranks are below the number of positions, so that a pair fits into 64 bits.
        classes_T = _ranks(classes_T[:-step] * np.int64(len(ids_T)) + classes_T[step:])
        length += step
    return classes_T


def _ranks(values_T: NDArray[np.int64]) -> NDArray[np.int64]:
    ranks_T: NDArray[np.int64] = np.unique(values_T, return_inverse=True)[1].astype(np.int64)
    return ranks_T
