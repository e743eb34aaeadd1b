"""CISPO: the ratio as a detached, capped weight."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar, Literal

from groupwise.findings import Finding, error, warning
from groupwise.objective.surrogates.surrogate import GOLDEN, KEY, Surrogate, SurrogateInputs, SurrogateOutputs
from groupwise.options import NonNegativeFloat, PositiveFloat
from groupwise.technique import Card, number

if TYPE_CHECKING:
    from groupwise.config import TrainConfig


class Cispo(Surrogate):
    """-sg(clip(r, floor, cap))·A·log π (CISPO, MiniMax-M1 2506.13585).

    `cap` and `floor` are absolute values of the detached weight, not distances from 1 as clip bounds are: the same
    number under the same name means different things elsewhere. No token loses its gradient. MiniMax-M1 leaves the
    lower bound off (floor 0) and does not publish its cap; ScaleRL (2510.13786) uses 5. The loss value says nothing;
    its gradient does.
    """

    type: Literal["cispo"] = "cispo"
    bounds_stop_gradient: ClassVar[bool] = False

    cap: PositiveFloat = 5.0
    """Absolute upper bound of the detached weight π_new/π_old."""

    floor: NonNegativeFloat = 0.0
    """Absolute lower bound of it; 0 for none."""

    cards: ClassVar[tuple[Card, ...]] = (
        Card(
            number=15,
            name="clipped importance weights",
            source="CISPO, MiniMax-M1 2506.13585",
            what="the ratio is a detached, capped weight, and no token loses its gradient",
            equation="sg(min(r, cap))·A·log π",
            values="cap not published, no lower bound; ScaleRL 2510.13786: 5",
            keys=("objective.surrogate.cap", "objective.surrogate.floor"),
            is_on=lambda c: isinstance(c.objective.surrogate, Cispo),
            cost="none",
            test=GOLDEN + "[cispo_max5.token_mean]",
            differs="`cap` is absolute. Elsewhere the number under this name is absolute too (TRL), 1 + it "
            "(open-instruct), or both bounds 1 ± it (verl): 0.2 in the wrong place weights every token by 0.2. It has "
            "no trust region; the seed's 'closer to PPO' is the reverse.",
        ),
    )

    def loss(self, inputs: SurrogateInputs) -> SurrogateOutputs:
        ratio_N = inputs.ratio_N
        weight_N = ratio_N.detach().clamp(self.floor, self.cap)
        loss_N = -weight_N * inputs.advantages_N * inputs.new_logps_N
        return SurrogateOutputs(loss_N, ratio_N < self.floor, ratio_N > self.cap)

    def formula(self, ratio_is_one: bool) -> str:
        cap, floor = number(self.cap), number(self.floor)
        weight = f"min(r, {cap})" if self.floor == 0 else f"clip(r, {floor}, {cap})"
        return "A·log π" if ratio_is_one else f"sg[{weight}]·A·log π"

    def widest_bound(self) -> tuple[str, float]:
        return f"{KEY}.cap", self.cap - 1

    def without_effect_at_one(self) -> list[str]:
        return ["cap", "floor"] if self.floor <= 1 <= self.cap else []

    def findings(self, config: TrainConfig) -> Iterator[Finding]:
        """A floor above the cap, and bounds that weigh the very policy that sampled."""
        yield from super().findings(config)
        if self.floor >= self.cap:
            text = (
                f"{KEY}.floor={self.floor} is not below {KEY}.cap={self.cap}: both are absolute bounds of one weight; "
                "lower the floor, 0 is for none"
            )
            yield error((f"{KEY}.floor", f"{KEY}.cap"), text)
        elif not self.floor <= 1 <= self.cap:
            name, value = ("cap", self.cap) if self.cap < 1 else ("floor", self.floor)
            text = (
                f"{KEY}.{name}={value} is an absolute bound of the weight, not a distance from 1: the policy that "
                f"sampled has ratio 1, and every token of it is weighted {value:g}; usual are a cap of 5 and no "
                "floor, which is 0"
            )
            yield warning((f"{KEY}.{name}",), text)
