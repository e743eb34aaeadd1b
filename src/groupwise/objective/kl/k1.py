"""k1: the log-ratio itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from groupwise.objective.kl.kl_estimator import KlEstimator

if TYPE_CHECKING:
    from torch import Tensor


class K1(KlEstimator):
    """δ."""

    type: Literal["k1"] = "k1"

    def estimate(self, delta: Tensor) -> Tensor:
        return delta

    def formula(self) -> str:
        return "δ"

    def trap(self, importance: str) -> str:
        if importance != "none":
            return ""
        return (
            "as a loss its expected gradient is 0 on policy, the reference drops out of it, and what is left is noise; "
            "set kl.importance=token, or kl.in_reward=true"
        )
