"""Numbers of tokens as text of one character each, in 91 levels: what colours a token, at a byte."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

# Printable, without the two that JSON escapes; view/data.js knows them too.
ALPHABET = "".join(chr(code) for code in range(35, 127) if chr(code) != "\\")
MISSING = " "
HIGHEST = len(ALPHABET) - 1
MIDDLE = HIGHEST // 2
# Ends of the scales, in nats; what lies beyond is shown as the end.
MOST_NATS, MOST_ENTROPY, MOST_LOG_RATIO = 20.0, 12.0, 3.0

_CHARACTERS = np.frombuffer((ALPHABET + MISSING).encode(), np.uint8)


def above(values_T: ArrayLike, most: float) -> str:
    """Values from 0 to `most`, as cube roots: fine near 0, and 1 % of `most` at a fifth of the levels."""
    values = np.asarray(values_T, np.float64) / most
    return _text(np.round(HIGHEST * np.cbrt(values.clip(0, 1))))


def around(values_T: ArrayLike, most: float) -> str:
    """Values from -`most` to `most`, as cube roots, 0 in the middle."""
    values = np.asarray(values_T, np.float64) / most
    return _text(MIDDLE + np.round(MIDDLE * np.cbrt(values.clip(-1, 1))))


def counts(values_T: Sequence[int]) -> str:
    """Counts, most of them small: the highest level says that the next character is added to it."""
    return "".join(ALPHABET[HIGHEST] * (value // HIGHEST) + ALPHABET[value % HIGHEST] for value in values_T)


def _text(levels_T: NDArray[np.float64]) -> str:
    known = np.isfinite(levels_T)
    indices = np.where(known, levels_T, len(ALPHABET)).astype(np.int64)
    return _CHARACTERS[indices].tobytes().decode()
