"""Token sums over a constant: Dr. GRPO as its code has it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from groupwise.objective.reductions.reduction import Reduction, ReductionInputs
from groupwise.options import NonNegativeInt
from groupwise.technique import Card

if TYPE_CHECKING:
    from torch import Tensor


class ConstantLength(Reduction):
    """1/(S·C) with C tokens, the generation budget (Dr. GRPO's code, 2503.20783)."""

    type: Literal["constant_length"] = "constant_length"

    tokens: NonNegativeInt = 0
    """The constant C; 0 for sampling.max_new_tokens."""

    cards: ClassVar[tuple[Card, ...]] = (
        Card(
            name="constant length",
            source="Dr. GRPO 2503.20783",
            what="sums over answers are divided by a constant, so that the length of an answer does not weigh it",
            equation="(1/(S·C)) Σ_i Σ_t ℓ_it, C the generation budget",
            values="C 3000",
            keys=("objective.reduction.tokens",),
            is_on=lambda c: isinstance(c.objective.reduction, ConstantLength),
            cost="none",
            test="objective/test_golden_loss.py::test_loss_and_gradient[drgrpo_0.2_const8.seq_mean_token_sum_const]",
            differs="The paper prints no constant, its code has one. verl divides by C and not by the answers.",
        ),
    )

    def weights_of(self, inputs: ReductionInputs) -> Tensor:
        constant = self.tokens or inputs.max_new_tokens
        if constant < 1:
            raise ValueError(f"reduction constant_length needs a length of at least 1 token, got {constant}")
        return inputs.alike(1 / (inputs.sequences * constant))

    def formula(self, max_new_tokens: int) -> str:
        return f"1/(S·{self.tokens or max_new_tokens}) Σ_i Σ_t"
