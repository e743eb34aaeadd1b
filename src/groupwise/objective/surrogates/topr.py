"""TOPR: REINFORCE whose weight is tapered for bad answers alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar, Literal

from groupwise.findings import Finding, error
from groupwise.objective.surrogates.surrogate import KEY, Surrogate, SurrogateInputs, SurrogateOutputs
from groupwise.options import NonNegativeFloat, PositiveFloat
from groupwise.technique import Card, number

if TYPE_CHECKING:
    from groupwise.config import TrainConfig


class Topr(Surrogate):
    """-w·A·log π with a detached weight w (Tapered Off-Policy REINFORCE, 2503.14286).

    w is 1 where A > 0: good answers are imitated however unlikely they have become. Elsewhere w is the ratio within
    [floor, cap]: a bad answer that the policy has left is hardly pushed down any further, and one that it has become
    fonder of weighs no more than when it was sampled. The loss value says nothing; its gradient does.
    """

    type: Literal["topr"] = "topr"
    bounds_stop_gradient: ClassVar[bool] = False

    floor: NonNegativeFloat = 0.0
    """Lower bound of the weight where A <= 0. The paper has 0."""

    cap: PositiveFloat = 1.0
    """Upper bound of the weight where A <= 0. The paper has 1."""

    cards: ClassVar[tuple[Card, ...]] = (
        Card(
            name="TOPR",
            source="2503.14286",
            what="good answers keep the weight 1, bad ones are weighted by their ratio, at most 1",
            equation="sg(w)·A·log π, w = 1 where A > 0, else clip(r, 0, 1)",
            values="0 and 1, ratios of whole answers",
            keys=(f"{KEY}.floor", f"{KEY}.cap"),
            is_on=lambda c: isinstance(c.objective.surrogate, Topr),
            cost="none",
            test="objective/test_topr.py::test_golden",
            differs="The paper takes the ratio of whole answers: `ratio=sequence_product`. With one optimizer step on "
            "each batch of answers every weight is 1, and this is REINFORCE.",
        ),
    )

    def loss(self, inputs: SurrogateInputs) -> SurrogateOutputs:
        ratio_N, bad_N = inputs.ratio_N.detach(), inputs.advantages_N <= 0
        weight_N = ratio_N.clamp(self.floor, self.cap).where(bad_N, 1.0)
        loss_N = -weight_N * inputs.advantages_N * inputs.new_logps_N
        return SurrogateOutputs(loss_N, bad_N & (ratio_N < self.floor), bad_N & (ratio_N > self.cap))

    def formula(self, ratio_is_one: bool) -> str:
        return "A·log π" if ratio_is_one else "sg[ω]·A·log π"

    def terms(self, ratio_is_one: bool) -> list[tuple[str, str]]:
        text = f"1 where A > 0, else r within {number(self.floor)} … {number(self.cap)}"
        return [] if ratio_is_one else [("ω", text)]

    def without_effect_at_one(self) -> list[str]:
        return ["cap", "floor"] if self.floor <= 1 <= self.cap else []

    def findings(self, config: TrainConfig) -> Iterator[Finding]:
        """A floor above the cap."""
        yield from super().findings(config)
        if self.floor >= self.cap:
            text = (
                f"{KEY}.floor={self.floor} is not below {KEY}.cap={self.cap}: both are absolute bounds of one weight; "
                "lower the floor, 0 is for none"
            )
            yield error((f"{KEY}.floor", f"{KEY}.cap"), text)
