"""From the rewards by component to the one number that completions of a problem are compared by.

Axes: B completions, K components in the order of `component_names`. One run has one list of components; a domain whose
table of options does not use one has zeros in its column.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from groupwise.grading.reward_options import RewardOptions
from groupwise.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def weights(options: RewardOptions, names: Sequence[str]) -> NDArray[np.float64]:
    """The weight of each component, over K; 0 where these options do not use it."""
    return np.array([options.weight_of(name) for name in names], dtype=np.float64)


def rewarded(rewards_BK: NDArray[np.float64], options: RewardOptions, names: Sequence[str]) -> NDArray[np.float64]:
    """The rewards before their weights, 0 where a condition or the gate withholds them.

    A component with a condition is rewarded where the named component was scored full, at exactly 1. Where the gate is
    not full, what would add to the total is 0, and what takes from it still counts. NaN stays NaN; a column of a
    component that is not used is 0. Raises ValueError unless there is one column for each name.
    """
    rewarded_BK = np.array(rewards_BK, dtype=np.float64)
    if rewarded_BK.ndim != 2 or rewarded_BK.shape[1] != len(names):
        raise ValueError(f"expected one column for each of {', '.join(names)}, found the shape {rewarded_BK.shape}")
    for k, name in enumerate(names):
        if not options.is_used(name):
            rewarded_BK[:, k] = 0.0
    full_BK = rewarded_BK == 1.0
    unknown_BK = np.isnan(rewarded_BK)
    for name, condition in options.conditions.items():
        if name in names:
            k = names.index(name)
            counts_B = full_BK[:, names.index(condition)] | unknown_BK[:, k]
            rewarded_BK[:, k] = np.where(counts_B, rewarded_BK[:, k], 0.0)
    if options.gate:
        open_B1 = full_BK[:, [names.index(options.gate)]]
        counts_BK = open_B1 | unknown_BK | (rewarded_BK * weights(options, names) <= 0.0)
        rewarded_BK = np.where(counts_BK, rewarded_BK, 0.0)
    return rewarded_BK


def weighted_rewards(
    rewards_BK: NDArray[np.float64], options: RewardOptions, names: Sequence[str]
) -> NDArray[np.float64]:
    """What each component adds to the total."""
    return rewarded(rewards_BK, options, names) * weights(options, names)


def combine(rewards_BK: NDArray[np.float64], options: RewardOptions, names: Sequence[str]) -> NDArray[np.float64]:
    """The total of every completion, in float64: equal rewards give equal totals, to the last bit.

    The NaN of a used component that could not judge makes the total NaN, whatever its weight.
    """
    weighted_BK = weighted_rewards(rewards_BK, options, names)
    totals_B = np.zeros(len(weighted_BK), dtype=np.float64)
    for k in range(len(names)):
        totals_B += weighted_BK[:, k]
    return totals_B
