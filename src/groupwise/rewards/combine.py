"""From the rewards by component to the one number that completions of a problem are compared by.

Axes: B completions, K components in the order of `COMPONENTS`.
"""

from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

CORRECTNESS, FORMAT, OVERLONG = "correctness", "format", "overlong"
COMPONENTS = (CORRECTNESS, FORMAT, OVERLONG)


class Terms(Protocol):
    """What a right answer and a kept format are worth, and when the format is paid; the length penalty has weight 1."""

    @property
    def correctness_weight(self) -> float: ...

    @property
    def format_weight(self) -> float: ...

    @property
    def format_when(self) -> Literal["always", "correct"]: ...


def combine(rewards_BK: NDArray[np.float64], terms: Terms) -> NDArray[np.float64]:
    """The total of every completion, in float64: equal rewards give equal totals, to the last bit.

    The NaN of a component that could not judge makes the total NaN, whatever its weight.
    """
    totals_B: NDArray[np.float64] = payments(rewards_BK, terms).sum(axis=1)
    return totals_B


def payments(rewards_BK: NDArray[np.float64], terms: Terms) -> NDArray[np.float64]:
    """What each component adds to the total."""
    return paid(rewards_BK, terms) * weights(terms)


def weights(terms: Terms) -> NDArray[np.float64]:
    """The weight of each component, over K."""
    return np.array([terms.correctness_weight, terms.format_weight, 1.0], dtype=np.float64)


def paid(rewards_BK: NDArray[np.float64], terms: Terms) -> NDArray[np.float64]:
    """The rewards before their weights. `format_when="correct"` pays the format only beside a right answer."""
    paid_BK = np.array(rewards_BK, dtype=np.float64)
    if paid_BK.ndim != 2 or paid_BK.shape[1] != len(COMPONENTS):
        raise ValueError(f"expected one column for each of {', '.join(COMPONENTS)}, found the shape {paid_BK.shape}")
    if terms.format_when == "correct":
        right_B = paid_BK[:, COMPONENTS.index(CORRECTNESS)] == 1.0
        paid_BK[:, COMPONENTS.index(FORMAT)] *= right_B
    return paid_BK
