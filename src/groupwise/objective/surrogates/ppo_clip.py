"""PPO's clip, with two bounds as in DAPO and an optional dual clip; the bounds are a base of other surrogates too."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar, Literal

from groupwise.findings import Finding, error, warning
from groupwise.lazy import torch
from groupwise.objective.surrogates.surrogate import KEY, Surrogate, SurrogateInputs, SurrogateOutputs, bounded
from groupwise.options import NonNegativeFloat
from groupwise.technique import Card, number

if TYPE_CHECKING:
    from torch import Tensor

    from groupwise.config import TrainConfig


class ClipBounds(Surrogate):
    """Base of those that stop where the ratio leaves 1-clip_low to 1+clip_high, with one bound for each sign of A."""

    clip_low: NonNegativeFloat = 0.2
    """The ratio is clipped below at 1 - clip_low, where A < 0."""

    clip_high: NonNegativeFloat = 0.28
    """The ratio is clipped above at 1 + clip_high, where A > 0."""

    def outside(self, inputs: SurrogateInputs) -> tuple[Tensor, Tensor]:
        """Where the lower and where the upper bound acts, both bool over N."""
        ratio_N, advantages_N = inputs.ratio_N, inputs.advantages_N
        low_N = (advantages_N < 0) & (ratio_N < 1 - self.clip_low)
        return low_N, (advantages_N > 0) & (ratio_N > 1 + self.clip_high)

    def widest_bound(self) -> tuple[str, float]:
        return f"{KEY}.clip_high", max(self.clip_low, self.clip_high)

    def findings(self, config: TrainConfig) -> Iterator[Finding]:
        """Bounds that cannot act, are those of another ratio, or let bad tokens move further than good ones."""
        yield from super().findings(config)
        low, high = f"{KEY}.clip_low={self.clip_low}", f"{KEY}.clip_high={self.clip_high}"
        if self.clip_low >= 1:
            text = f"{low} never binds: the ratio is positive, and 1 - clip_low is not; a usual value is 0.2"
            yield warning((f"{KEY}.clip_low",), text)
        elif self.clip_low > self.clip_high and config.objective.ratio.type != "none":
            text = (
                f"{low} is above {high}: bad tokens may fall further than good ones may rise, the reverse of DAPO's "
                "clip-higher, and entropy falls faster; DAPO has 0.2 and 0.28; set clip_high to clip_low or above"
            )
            yield warning((f"{KEY}.clip_low", f"{KEY}.clip_high"), text)
        if config.objective.ratio.type == "token" and (widest := max(self.clip_low, self.clip_high)) < 0.02:
            text = (
                f"{low} and {high} with objective.ratio=token: the ratio of a token moves by tenths, and a bound "
                f"{widest:.3g} away from 1 stops nearly every one that has moved; GSPO and LUSPO have such bounds with "
                "objective.ratio=sequence_geometric_mean"
            )
            yield warning((f"{KEY}.clip_low", f"{KEY}.clip_high"), text)


class DualClip(Surrogate):
    """Base of those whose `dual_clip` c may stop a bad token that has become likelier, r > c."""

    dual_clip: NonNegativeFloat = 0.0
    """Absolute upper bound of the ratio where A < 0; 0 for none. A usual value is 3."""

    def beyond_dual(self, inputs: SurrogateInputs) -> Tensor:
        """Where the dual clip acts, bool over N."""
        return (inputs.advantages_N < 0) & (inputs.ratio_N > (self.dual_clip or math.inf))

    def bounded(self, inputs: SurrogateInputs, low_N: Tensor, high_N: Tensor, bound_N: Tensor) -> SurrogateOutputs:
        """As the function of this name, with the dual clip."""
        dual_N = self.beyond_dual(inputs)
        return bounded(inputs, low_N, high_N | dual_N, torch.where(dual_N, self.dual_clip, bound_N))

    def with_dual(self, clipped: str, factor: str = "A") -> str:
        """The clip as text, with what the ratio is multiplied by."""
        return f"max({clipped}, {number(self.dual_clip)}·{factor} where A < 0)" if self.dual_clip > 0 else clipped

    def findings(self, config: TrainConfig) -> Iterator[Finding]:
        """A dual clip that acts on the policy that sampled."""
        yield from super().findings(config)
        if 0 < self.dual_clip <= 1:
            text = (
                f"{KEY}.dual_clip={self.dual_clip} is not above 1: it is an absolute bound of the ratio for negative "
                "advantages, and would clip the policy that sampled; a usual value is 3, and 0 is for none"
            )
            yield error((f"{KEY}.dual_clip",), text)


class DualClipBounds(DualClip, ClipBounds):
    """Base of those that are PPO's clip with a dual clip."""

    def loss(self, inputs: SurrogateInputs) -> SurrogateOutputs:
        low_N, high_N = self.outside(inputs)
        bound_N = torch.where(low_N, 1 - self.clip_low, torch.full_like(inputs.ratio_N, 1 + self.clip_high))
        return self.bounded(inputs, low_N, high_N, bound_N)

    def clipped(self, factor: str = "A") -> str:
        """The clip as text, with what the ratio is multiplied by."""
        text = f"min(r·{factor}, clip(r, {number(1 - self.clip_low)}, {number(1 + self.clip_high)})·{factor})"
        return self.with_dual(text, factor)


class PpoClip(DualClipBounds):
    """-min(r·A, clip(r, 1-clip_low, 1+clip_high)·A), for both signs of A.

    PPO 1707.06347 eq. 7, with two bounds as in DAPO 2503.14476. The minimum leaves one bound to each sign: A>0 stops
    above 1+clip_high, A<0 stops below 1-clip_low. A bad token whose probability rose keeps its full gradient, r·A,
    without limit; `dual_clip` c > 1 (1912.09729) stops it above c: max(min(r·A, clip(r)·A), c·A).
    """

    type: Literal["ppo_clip"] = "ppo_clip"

    cards: ClassVar[tuple[Card, ...]] = (
        Card(
            number=5,
            name="clip-higher",
            source="DAPO 2503.14476 eq. 10",
            what="the upper bound of the clip is wider than the lower one",
            equation="min(r·A, clip(r, 1-ε_low, 1+ε_high)·A)",
            values="0.2 / 0.28; OLMo 3: 0.2 / 0.272",
            keys=("objective.surrogate.clip_low", "objective.surrogate.clip_high"),
            is_on=lambda c: (
                isinstance(s := c.objective.surrogate, ClipBounds)
                and c.objective.ratio.type != "none"
                and s.clip_high > s.clip_low
            ),
            cost="none",
            test="objective/test_surrogate.py::test_each_bound_acts_on_one_sign",
            differs="The seed gives 10 for ε_high, which is DeepSeek-R1's ε for both sides, and takes max where A < 0, "
            "so that ε_low bounds nothing. Here it is PPO's min for both signs.",
        ),
        Card(
            name="dual clip",
            source="1912.09729",
            what="a bad token whose probability rose far loses its gradient too",
            equation="max(min(r·A, clip(r)·A), c·A) where A < 0",
            values="c 3",
            keys=("objective.surrogate.dual_clip",),
            is_on=lambda c: isinstance(s := c.objective.surrogate, DualClip) and s.dual_clip > 1,
            cost="none",
            test="objective/test_surrogate.py::test_dual_clip_bounds_a_bad_token_from_above",
            differs="verl applies it by default, at 3; TRL's `delta` clamps the ratio itself.",
        ),
    )

    def formula(self, ratio_is_one: bool) -> str:
        return "A·log π" if ratio_is_one else self.clipped()
