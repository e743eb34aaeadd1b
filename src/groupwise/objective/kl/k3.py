"""k3: GRPO's estimate, never negative."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from groupwise.objective.kl.kl_estimator import KlEstimator
from groupwise.objective.ratios.ratio import LOG_RATIO_LIMIT

if TYPE_CHECKING:
    from torch import Tensor


class K3(KlEstimator):
    """e^{-δ} - 1 + δ (GRPO, 2402.03300 eq. 4)."""

    type: Literal["k3"] = "k3"

    def estimate(self, delta: Tensor) -> Tensor:
        """e^{-δ} - 1 + δ.

        Beyond δ = -20 the exponential continues as its tangent: finite in value and gradient, and still pulling towards
        the reference, which a clamp would not do.
        """
        exponent = (-delta).clamp(max=LOG_RATIO_LIMIT)
        beyond = (-delta - LOG_RATIO_LIMIT).relu()
        # expm1: e^{-δ} - 1 + δ is about δ²/2, which float32 loses in exp(-δ) - 1 for small δ.
        return exponent.expm1() + exponent.exp() * beyond + delta

    def formula(self) -> str:
        return "(e^(-δ) - 1 + δ)"

    def trap(self, importance: str) -> str:
        if importance != "none":
            return ""
        return (
            "as GRPO defines it, but its gradient is that of the reverse, KL(reference ‖ policy), whose coefficient "
            "1 - π_ref/π has no bound where the policy becomes unlikely (-19 at 3 nats, -402 at 6); set "
            "kl.importance=token, or kl.estimator=k2"
        )
