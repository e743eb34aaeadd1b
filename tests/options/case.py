"""One option: the runs to make, the number that it claims to change, and what that number is by hand."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from groupwise.config import TrainConfig

# Of the record of a run.
Number = Callable[[Any], Any]


@dataclass(frozen=True)
class Case:
    """values: of the option, each of which has a run of its own on top of `base`.

    number: what the option claims to change; it has to differ between all values. expected: the same by hand, from
    the configuration and from records of the run that do not depend on the option's own code. same: what the option
    must not change. beside: further options that single values need. name: what stands for NAME in the key.
    """

    values: tuple[str, ...]
    number: Number
    expected: Number | None = None
    base: tuple[str, ...] = ()
    same: Number | None = None
    same_tolerance: float = 0.0
    tolerance: float = 2e-4
    beside: dict[str, tuple[str, ...]] = field(default_factory=dict)
    name: str = ""


@dataclass(frozen=True)
class ByHand:
    """An option that a run is not needed for: what a configuration with each of its values gives, worked out by hand.

    observe: what it gives. slow: where that takes processes.
    """

    by_hand: dict[str, Any]
    observe: Callable[[TrainConfig], Any]
    base: tuple[str, ...] = ()
    beside: dict[str, tuple[str, ...]] = field(default_factory=dict)
    name: str = ""
    slow: bool = False

    @property
    def values(self) -> tuple[str, ...]:
        return tuple(self.by_hand)


def overrides(key: str, case: Case | ByHand, value: str) -> list[str]:
    """The options of the run with this value; `key` names the technique that an option belongs to in brackets."""
    option, _, technique = key.removesuffix(")").replace("NAME", case.name).partition(" (")
    chosen = [f"{option.rpartition('.')[0]}={technique}"] if technique else []
    return [*chosen, *case.base, *case.beside.get(value, ()), f"{option}={value}"]


def equal(one: Any, other: Any, tolerance: float, norm: float = np.inf) -> bool:
    """Whether two observations agree; numbers to a tolerance relative to their norm, all else exactly."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(equal(one[key], other[key], tolerance, norm) for key in one)
    if isinstance(one, float | np.ndarray):
        first, second = (np.atleast_1d(np.asarray(value, dtype=np.float64)).ravel() for value in (one, other))
        if first.shape != second.shape:
            return False
        if not len(first):
            return True
        sizes = [float(np.linalg.norm(values, norm)) for values in (first - second, first, second)]
        return sizes[0] <= tolerance * max(sizes[1:])
    return bool(one == other)
