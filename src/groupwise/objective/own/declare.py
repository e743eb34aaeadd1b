"""What a function says of itself where its signature does not: its formula, and what it claims.

The functions here are decorators. They leave the function as it is, so that it can be called and tested alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])
_ATTRIBUTE = "__groupwise__"


@dataclass(frozen=True)
class Declaration:
    """kind: `surrogate`, `advantage estimator` or `mask`. formula: as text. claims: attributes of such a class."""

    kind: str = ""
    formula: str = ""
    claims: Mapping[str, Any] = field(default_factory=dict)


def surrogate(
    *,
    formula: str,
    bounds_ratio: bool = False,
    bounds_stop_gradient: bool = True,
    compares_old: bool = False,
    needs_ratio: str = "",
    needs_reduction: str = "",
    needs_advantage: bool = True,
) -> Callable[[Function], Function]:
    """Declare a function of `SurrogateInputs` that returns a loss over N, or `SurrogateOutputs`.

    Args:
        formula: what is maximised for each token, in r, A, π and π_old. `{cap}` is filled with the option `cap`.
        bounds_ratio: it limits how far the policy moves, so that several optimizer steps on the same answers are sound.
        bounds_stop_gradient: where `SurrogateOutputs` says that a bound took effect, the gradient is exactly 0.
        compares_old: it compares π with π_old itself, whatever the ratio level.
        needs_ratio, needs_reduction: the only ratio level and reduction that it is defined on; empty for any.
        needs_advantage: a token with advantage 0 has no gradient.
    """
    claims = {
        "bounds_ratio": bounds_ratio,
        "keeps_near": bounds_ratio,
        "bounds_stop_gradient": bounds_stop_gradient,
        "compares_old": compares_old,
        "needs_ratio": needs_ratio,
        "needs_reduction": needs_reduction,
        "needs_advantage": needs_advantage,
    }
    return _declare(Declaration("surrogate", formula, claims))


def advantage(*, formula: str, needs_group: bool = True) -> Callable[[Function], Function]:
    """Declare a function of rewards over P, G, and of the step's `moments` if it has such a parameter, that returns
    advantages over P, G in float64.

    Args:
        formula: A as text, in R.
        needs_group: it compares within a group, so that equal rewards have the advantage 0.
    """
    return _declare(Declaration("advantage estimator", formula, {"needs_group": needs_group}))


def mask(*, formula: str) -> Callable[[Function], Function]:
    """Declare a function of `MaskInputs` that returns bool over N, False for tokens whose policy term is left out."""
    return _declare(Declaration("mask", formula))


def declaration_of(function: Callable[..., Any]) -> Declaration:
    """What the function declares; nothing without a decorator."""
    found = getattr(function, _ATTRIBUTE, None)
    return found if isinstance(found, Declaration) else Declaration()


def _declare(declaration: Declaration) -> Callable[[Function], Function]:
    def declared(function: Function) -> Function:
        setattr(function, _ATTRIBUTE, declaration)
        return function

    return declared
