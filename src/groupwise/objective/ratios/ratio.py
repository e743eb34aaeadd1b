"""What every ratio level has: π_new/π_old as its logarithm on the token axis."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from groupwise.findings import Finding, warning
from groupwise.technique import Technique

if TYPE_CHECKING:
    from torch import Tensor

    from groupwise.config import TrainConfig

LOG_RATIO_LIMIT = 20.0
"""Log-ratios are kept within ±20 before exp: e^20 is 5e8, and beyond 88 float32 overflows."""


def clamp_log_ratio(log_ratio: Tensor) -> Tensor:
    """Log-ratio within ±LOG_RATIO_LIMIT.

    An infinite ratio would turn the whole gradient into NaN (inf · 0). Outside of the limits the gradient is 0, which
    only matters for a negative advantage above the upper one: PPO has no bound there, and a token whose probability
    grew 5e8-fold says more about broken numbers than about the policy.
    """
    return log_ratio.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)


class RatioLevel(Technique):
    """Base of the ratio levels.

    of_episode: its value belongs to the whole answer, so that an answer may not be divided. small: it hardly moves from
    1, so that bounds made for token ratios never bind.
    """

    type: Any
    of_episode: ClassVar[bool] = False
    small: ClassVar[bool] = False

    @abstractmethod
    def unclamped(self, new_logps_N: Tensor, old_logps_N: Tensor, lengths_E: Tensor) -> Tensor:
        """log(π_new/π_old) over N, with gradient towards `new_logps_N`."""

    @abstractmethod
    def meaning(self) -> str:
        """What r is, as text; empty where there is none."""

    def log_ratio(self, new_logps_N: Tensor, old_logps_N: Tensor, lengths_E: Tensor) -> Tensor:
        """log(π_new/π_old) over N, clamped, with gradient towards `new_logps_N`.

        Levels of a whole answer repeat its value for each of its tokens, so they need whole answers in a micro-batch.
        """
        return clamp_log_ratio(self.unclamped(new_logps_N, old_logps_N, lengths_E))

    def findings(self, config: TrainConfig) -> Iterator[Finding]:
        """Bounds at the scale of token ratios, and weights that are neither GSPO's nor LUSPO's."""
        objective, this = config.objective, f"objective.ratio={self.type}"
        bound = objective.surrogate.widest_bound()
        # Token ratios need bounds of this size; the geometric mean over an answer moves by a hundredth of it.
        if self.small and bound and bound[1] > 0.05:
            text = (
                f"{bound[0]} is at the scale of token ratios with {this}: the mean over an answer hardly moves, and a "
                f"bound {bound[1]:.3g} away from 1 never binds; GSPO has clip_low=3e-4 and clip_high=4e-4, "
                "LUSPO 2e-3 and 2.5e-3"
            )
            yield warning((bound[0], "objective.ratio"), text)
        reduction = objective.reduction.type
        if self.small and reduction not in ("sequence_mean_token_mean", "sequence_mean_token_sum"):
            text = (
                f"objective.reduction={reduction} with {this}: GSPO weights every answer alike, LUSPO by its length; "
                "set objective.reduction=sequence_mean_token_mean, or sequence_mean_token_sum"
            )
            yield warning(("objective.reduction", "objective.ratio"), text)
