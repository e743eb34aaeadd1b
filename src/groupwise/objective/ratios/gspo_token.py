"""GSPO-token: the value of the whole answer, the gradient of the token."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from groupwise.objective.ratios.ratio import RatioLevel
from groupwise.objective.segments import segment_index, segment_mean

if TYPE_CHECKING:
    from torch import Tensor


class GspoToken(RatioLevel):
    """GSPO's value with the gradient of the token itself (GSPO-token, 2507.18071).

    Advantages may then differ within an answer, and with equal ones it is GSPO.
    """

    type: Literal["gspo_token"] = "gspo_token"
    small: ClassVar[bool] = True

    def unclamped(self, new_logps_N: Tensor, old_logps_N: Tensor, lengths_E: Tensor) -> Tensor:
        log_ratio_N = new_logps_N - old_logps_N
        mean_E = segment_mean(log_ratio_N.detach(), lengths_E)
        own_N = new_logps_N - new_logps_N.detach()
        return mean_E[segment_index(lengths_E, log_ratio_N.numel())] + own_N

    def meaning(self) -> str:
        return "exp((1/L) Σ_t log π/π_old) in value, its gradient that of the token"
