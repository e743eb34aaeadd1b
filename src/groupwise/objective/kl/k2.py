"""k2: half the square of the log-ratio."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from groupwise.objective.kl.kl_estimator import KlEstimator

if TYPE_CHECKING:
    from torch import Tensor


class K2(KlEstimator):
    """δ²/2."""

    type: Literal["k2"] = "k2"

    def estimate(self, delta: Tensor) -> Tensor:
        return delta.square() / 2

    def formula(self) -> str:
        return "δ²/2"

    def trap(self, importance: str) -> str:
        if importance == "none":
            return ""
        return (
            "the live weight adds its own gradient to that of the estimate, which alone is the right one already; set "
            "kl.importance=none, or kl.estimator=k3"
        )
