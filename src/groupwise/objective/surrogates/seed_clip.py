"""The clip as the tutorial prints it, which is wrong for negative advantages: for teaching."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar, Literal

from groupwise.findings import Finding, warning
from groupwise.lazy import torch
from groupwise.objective.surrogates.surrogate import KEY, Surrogate, SurrogateInputs, SurrogateOutputs, bounded
from groupwise.options import NonNegativeFloat
from groupwise.technique import Card, number

if TYPE_CHECKING:
    from groupwise.config import TrainConfig


class SeedClip(Surrogate):
    """For teaching: -A·min(r, 1+clip_high), what PPO's clip becomes when max replaces min where A < 0.

    The printed forms of it name a lower bound too, and one clamps the ratio from above beforehand. Neither changes
    anything: max(r·A, clip(r)·A) with A<0 is A·min(r, clip(r)), and min(r, clip(r, 1-clip_low, 1+clip_high)) is
    min(r, 1+clip_high) for every clip_low. So a bad token is pushed down without end, and once its probability has
    grown past the upper bound nothing corrects it: the reverse of what a clip is for.
    """

    type: Literal["seed_clip"] = "seed_clip"

    clip_high: NonNegativeFloat = 0.28
    """The ratio is clipped above at 1 + clip_high, for both signs of A."""

    cards: ClassVar[tuple[Card, ...]] = (
        Card(
            name="printed clip",
            source="the seed",
            what="for teaching: PPO's clip with max where A < 0",
            equation="A·min(r, 1+ε_high), whatever ε_low is",
            values="10",
            keys=("objective.surrogate.clip_high",),
            is_on=lambda c: isinstance(c.objective.surrogate, SeedClip),
            cost="none",
            test="objective/test_surrogate.py::test_where_the_printed_maximum_differs_from_ppo",
            differs="With A < 0 PPO stops below 1-ε_low and continues above 1+ε_high; this does the reverse.",
        ),
    )

    def loss(self, inputs: SurrogateInputs) -> SurrogateOutputs:
        ratio_N = inputs.ratio_N
        high_N = (inputs.advantages_N != 0) & (ratio_N > 1 + self.clip_high)
        return bounded(inputs, torch.zeros_like(high_N), high_N, torch.full_like(ratio_N, 1 + self.clip_high))

    def formula(self, ratio_is_one: bool) -> str:
        return "A·log π" if ratio_is_one else f"A·min(r, {number(1 + self.clip_high)})"

    def widest_bound(self) -> tuple[str, float]:
        return f"{KEY}.clip_high", self.clip_high

    def findings(self, config: TrainConfig) -> Iterator[Finding]:
        """That it is for teaching."""
        yield from super().findings(config)
        text = (
            f"{KEY}=seed_clip is for teaching: with max instead of PPO's min, a bad answer is pushed down without end, "
            f"and one whose ratio is beyond {1 + self.clip_high:g} is never corrected; set {KEY}=ppo_clip"
        )
        yield warning((KEY,), text)
