"""VESPO: answers weighted by a smooth function of the ratio of the whole answer."""

from __future__ import annotations

from typing import ClassVar, Literal

from groupwise.objective.surrogates.surrogate import GOLDEN, Surrogate, SurrogateInputs, SurrogateOutputs, unbounded
from groupwise.options import PositiveFloat
from groupwise.technique import Card, number


class Vespo(Surrogate):
    """-sg(W^k·e^{λ(1-W)})·A·log π (VESPO, 2602.10693), W being the ratio of whole-answer probabilities."""

    type: Literal["vespo"] = "vespo"
    needs_ratio: ClassVar[str] = "sequence_product"

    k_positive: PositiveFloat = 2.0
    """k where A > 0."""

    lambda_positive: PositiveFloat = 3.0
    """λ where A > 0."""

    k_negative: PositiveFloat = 3.0
    """k elsewhere."""

    lambda_negative: PositiveFloat = 2.0
    """λ elsewhere."""

    cards: ClassVar[tuple[Card, ...]] = (
        Card(
            name="VESPO",
            source="2602.10693",
            what="answers are weighted by a smooth function of the ratio of the whole answer",
            equation="sg(W^k·e^{λ(1-W)})·A·log π, W = Π_t r_t",
            values="k, λ: 2, 3 for A > 0 and 3, 2 otherwise",
            keys=(
                "objective.surrogate.k_positive",
                "objective.surrogate.lambda_positive",
                "objective.surrogate.k_negative",
                "objective.surrogate.lambda_negative",
                "objective.ratio",
            ),
            is_on=lambda c: isinstance(c.objective.surrogate, Vespo),
            cost="none",
            test=GOLDEN + "[vespo_2_3_3_2.token_mean]",
        ),
    )

    def loss(self, inputs: SurrogateInputs) -> SurrogateOutputs:
        log_W_N = inputs.log_ratio_N.detach()
        k_N = inputs.by_sign(self.k_positive, self.k_negative)
        rate_N = inputs.by_sign(self.lambda_positive, self.lambda_negative)
        weight_N = (k_N * log_W_N + rate_N * (1 - log_W_N.exp())).exp()
        return unbounded(-weight_N * inputs.advantages_N * inputs.new_logps_N)

    def formula(self, ratio_is_one: bool) -> str:  # noqa: ARG002 - it needs a ratio
        return "sg[r^k·e^(λ·(1 - r))]·A·log π"

    def terms(self, ratio_is_one: bool) -> list[tuple[str, str]]:  # noqa: ARG002 - it needs a ratio
        positive = f"{number(self.k_positive)}, {number(self.lambda_positive)}"
        return [("k, λ", f"{positive} where A > 0, else {number(self.k_negative)}, {number(self.lambda_negative)}")]
