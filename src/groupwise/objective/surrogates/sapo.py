"""SAPO: a soft gate where PPO clips."""

from __future__ import annotations

from typing import ClassVar, Literal

from groupwise.lazy import torch
from groupwise.objective.surrogates.surrogate import GOLDEN, Surrogate, SurrogateInputs, SurrogateOutputs, unbounded
from groupwise.options import PositiveFloat
from groupwise.technique import Card, number


class Sapo(Surrogate):
    """-A·(4/τ)·σ(τ(r-1)): a soft gate (SAPO, 2511.20347), τ by the sign of A.

    The slope at r = 1 is A, as without a gate, and falls smoothly on both sides.
    """

    type: Literal["sapo"] = "sapo"

    temperature_positive: PositiveFloat = 1.0
    """τ where A > 0."""

    temperature_negative: PositiveFloat = 1.05
    """τ elsewhere."""

    cards: ClassVar[tuple[Card, ...]] = (
        Card(
            name="SAPO",
            source="2511.20347",
            what="a smooth gate instead of the clip",
            equation="A·(4/τ)·σ(τ(r-1)), τ by the sign of A",
            values="τ 1 and 1.05",
            keys=("objective.surrogate.temperature_positive", "objective.surrogate.temperature_negative"),
            is_on=lambda c: isinstance(c.objective.surrogate, Sapo),
            cost="none",
            test=GOLDEN + "[sapo_1.0_1.05.seq_mean_token_mean]",
        ),
    )

    def loss(self, inputs: SurrogateInputs) -> SurrogateOutputs:
        temperature_N = inputs.by_sign(self.temperature_positive, self.temperature_negative)
        gate_N = torch.sigmoid(temperature_N * (inputs.ratio_N - 1)) * (4 / temperature_N)
        return unbounded(-inputs.advantages_N * gate_N)

    def formula(self, ratio_is_one: bool) -> str:
        return "A·log π" if ratio_is_one else "A·(4/τ)·σ(τ·(r - 1))"

    def terms(self, ratio_is_one: bool) -> list[tuple[str, str]]:
        text = f"{number(self.temperature_positive)} where A > 0, else {number(self.temperature_negative)}"
        return [] if ratio_is_one else [("τ", text)]
