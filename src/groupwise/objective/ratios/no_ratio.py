"""No ratio: REINFORCE."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from groupwise.objective.ratios.ratio import RatioLevel

if TYPE_CHECKING:
    from torch import Tensor


class NoRatio(RatioLevel):
    """The ratio has the value 1 and the gradient of the log-probability (REINFORCE); π_old is not used."""

    type: Literal["none"] = "none"

    def unclamped(self, new_logps_N: Tensor, old_logps_N: Tensor, lengths_E: Tensor) -> Tensor:  # noqa: ARG002
        return new_logps_N - new_logps_N.detach()

    def meaning(self) -> str:
        return ""
