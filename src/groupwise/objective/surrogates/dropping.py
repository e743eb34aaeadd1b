"""What surrogates have that drop tokens by how far their probability has moved."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from groupwise.findings import Finding, error, unused, warning
from groupwise.objective.corrections.correction import NoCorrection
from groupwise.objective.surrogates.surrogate import KEY, Surrogate, SurrogateInputs, SurrogateOutputs
from groupwise.options import NonNegativeFloat
from groupwise.technique import number

if TYPE_CHECKING:
    from torch import Tensor

    from groupwise.config import TrainConfig


class DroppingSurrogate(Surrogate):
    """-min(r, cap)·A for the tokens that are kept, 0 for the others."""

    compares_old: ClassVar[bool] = True

    cap: NonNegativeFloat = 0.0
    """Upper bound of the ratio as a weight, which leaves the token its gradient; 0 for none."""

    def outputs(self, inputs: SurrogateInputs, low_N: Tensor, high_N: Tensor) -> SurrogateOutputs:
        """The slope by log r is -min(r, cap)·A as well, and exactly 0 for the tokens beyond a bound.

        Their ratio is never exponentiated: it may be infinite, and 0·inf is NaN.
        """
        gone_N = low_N | high_N
        log_weight_N = inputs.log_ratio_N.masked_fill(gone_N, 0.0)
        if self.cap:
            log_weight_N = log_weight_N - (log_weight_N.detach() - math.log(self.cap)).clamp(min=0)
        weight_N = log_weight_N.exp().masked_fill(gone_N, 0.0)
        return SurrogateOutputs(-inputs.advantages_N * weight_N, low_N, high_N)

    def factor(self, ratio_is_one: bool) -> str:
        """What multiplies the condition in the formula."""
        if ratio_is_one:
            return "A·log π"
        return f"min(r, {number(self.cap)})·A" if self.cap else "r·A"

    def without_effect_at_one(self) -> list[str]:
        return [name for name in super().without_effect_at_one() if name != "cap" or self.cap]

    def notes(self, config: TrainConfig) -> Iterator[Finding]:
        """What is compared with an engine of another precision acts in the first update already."""
        if config.engine_is_trainer or not self.compares_sampler:
            yield from super().notes(config)

    def findings(self, config: TrainConfig) -> Iterator[Finding]:
        """A cap without effect or below 1, and a ratio to another policy than the one that is compared."""
        yield from super().findings(config)
        objective, this = config.objective, f"{KEY}={self.type}"
        if objective.ratio.type == "none":
            yield from unused(f"{KEY}.cap", self.cap, 0.0, "objective.ratio=none", "set objective.ratio=token")
        elif 0 < self.cap <= 1:
            text = (
                f"{KEY}.cap={self.cap} is not above 1: it would weigh down the tokens of the very policy that sampled; "
                "a usual value is 5, and 0 is for none"
            )
            yield error((f"{KEY}.cap",), text)
        uncorrected = objective.old_logps == "trainer" and isinstance(config.engine_correction, NoCorrection)
        if self.compares_sampler and objective.ratio.type != "none" and uncorrected:
            text = (
                f"objective.old_logps=trainer with {this}: its ratio is π/π_engine, and here r is π/π_old; set "
                "objective.old_logps=sampler, or engine_correction=tis, whose weight π_old/π_engine makes it that"
            )
            yield warning(("objective.old_logps", KEY), text)
