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

CORRECTNESS, FORMAT, OVERLONG, LENGTH = "correctness", "format", "overlong", "length"
LANGUAGE, REPETITION = "language", "repetition"
BUILT_IN = (CORRECTNESS, FORMAT, OVERLONG, LENGTH, LANGUAGE, REPETITION)


def component_names(tables: Sequence[RewardOptions]) -> tuple[str, ...]:
    """The components that some table uses: the built-in ones in a fixed order, then functions as first mentioned.

    `correctness` and `format` are always judged. A function that grades correctness is that component and none of its
    own.
    """
    functions = dict.fromkeys(name for options in tables for name in options.functions if is_used(options, name))
    built_in = [name for name in BUILT_IN if name in (CORRECTNESS, FORMAT) or any(is_used(o, name) for o in tables)]
    return (*built_in, *functions)


def is_used(options: RewardOptions, name: str) -> bool:
    """Whether a component is judged under these options: it is paid, or a condition for what is paid."""
    if name in (CORRECTNESS, FORMAT):
        return True
    if name == OVERLONG:
        return options.overlong.buffer_tokens > 0
    if name in BUILT_IN:
        return weight_of(options, name) > 0 or name in conditions(options).values() or name == options.gate
    return name in options.functions and name != options.correctness.grader


def weights(options: RewardOptions, names: Sequence[str]) -> NDArray[np.float64]:
    """The weight of each component, over K; 0 where these options do not use it."""
    return np.array([weight_of(options, name) if is_used(options, name) else 0.0 for name in names], dtype=np.float64)


def paid(rewards_BK: NDArray[np.float64], options: RewardOptions, names: Sequence[str]) -> NDArray[np.float64]:
    """The rewards before their weights, without what is not paid.

    A component with a condition is paid where the named component was judged full, at exactly 1. Where the gate is not
    full, what would add to the total is not paid, and what takes from it still is. NaN stays NaN; a column of a
    component that is not used is 0. Raises ValueError unless there is one column for each name.
    """
    paid_BK = np.array(rewards_BK, dtype=np.float64)
    if paid_BK.ndim != 2 or paid_BK.shape[1] != len(names):
        raise ValueError(f"expected one column for each of {', '.join(names)}, found the shape {paid_BK.shape}")
    for k, name in enumerate(names):
        if not is_used(options, name):
            paid_BK[:, k] = 0.0
    full_BK = paid_BK == 1.0
    unknown_BK = np.isnan(paid_BK)
    for name, condition in conditions(options).items():
        if name in names:
            k = names.index(name)
            paid_BK[:, k] = np.where(full_BK[:, names.index(condition)] | unknown_BK[:, k], paid_BK[:, k], 0.0)
    if options.gate:
        open_B1 = full_BK[:, [names.index(options.gate)]]
        paid_BK = np.where(open_B1 | unknown_BK | (paid_BK * weights(options, names) <= 0.0), paid_BK, 0.0)
    return paid_BK


def payments(rewards_BK: NDArray[np.float64], options: RewardOptions, names: Sequence[str]) -> NDArray[np.float64]:
    """What each component adds to the total."""
    return paid(rewards_BK, options, names) * weights(options, names)


def combine(rewards_BK: NDArray[np.float64], options: RewardOptions, names: Sequence[str]) -> NDArray[np.float64]:
    """The total of every completion, in float64: equal rewards give equal totals, to the last bit.

    The NaN of a used component that could not judge makes the total NaN, whatever its weight.
    """
    payments_BK = payments(rewards_BK, options, names)
    totals_B = np.zeros(len(payments_BK), dtype=np.float64)
    for k in range(len(names)):
        totals_B += payments_BK[:, k]
    return totals_B


def conditions(options: RewardOptions) -> dict[str, str]:
    """The components that are paid only where another one is full, each with that other one."""
    stated = {
        **{name: function.requires for name, function in options.functions.items()},
        FORMAT: options.format.requires,
    }
    return {name: needed for name, needed in stated.items() if needed and name != options.correctness.grader}


def weight_of(options: RewardOptions, name: str) -> float:
    """The weight that the options state for one of their components, used or not."""
    return float((options.functions[name] if name not in BUILT_IN else getattr(options, name)).weight)


def weights_of(options: RewardOptions) -> dict[str, float]:
    """The weight of every component that a table uses; 0 where one is measured alone."""
    names = component_names([options])
    return dict(zip(names, weights(options, names).tolist(), strict=True))


def weight_key(name: str) -> str:
    """The option below a table of rewards that says how much a component is paid."""
    return f"{name}.weight" if name in BUILT_IN else f"functions.{name}.weight"
