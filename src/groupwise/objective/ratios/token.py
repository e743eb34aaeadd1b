"""The ratio of each token."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from groupwise.objective.ratios.ratio import RatioLevel

if TYPE_CHECKING:
    from torch import Tensor


class TokenRatio(RatioLevel):
    """The ratio of each token (GRPO 2402.03300, DAPO 2503.14476)."""

    type: Literal["token"] = "token"

    def unclamped(self, new_logps_N: Tensor, old_logps_N: Tensor, lengths_E: Tensor) -> Tensor:  # noqa: ARG002
        return new_logps_N - old_logps_N

    def meaning(self) -> str:
        return "π/π_old of the token"
