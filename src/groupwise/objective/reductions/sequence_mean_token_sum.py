"""The mean over answers of their token sums: Dr. GRPO as printed, RLOO, LUSPO."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from groupwise.objective.reductions.reduction import Reduction, ReductionInputs
from groupwise.technique import Card

if TYPE_CHECKING:
    from torch import Tensor


class SequenceMeanTokenSum(Reduction):
    """1/S (Dr. GRPO 2503.20783 as printed, RLOO 2402.14740).

    Under GSPO's ratio, where all tokens of an answer have one loss, this is that loss times the length: LUSPO. With
    token ratios or advantages of single tokens it is a sum of different losses, and LUSPO is not defined.
    """

    type: Literal["sequence_mean_token_sum"] = "sequence_mean_token_sum"

    cards: ClassVar[tuple[Card, ...]] = (
        Card(
            name="LUSPO",
            source="2602.05261 eq. 7",
            what="GSPO with every answer weighted by its length, so that all tokens count alike",
            equation="(1/G) Σ_i L_i·min(s_i·A_i, clip(s_i, 1-ε_low, 1+ε_high)·A_i), s_i = exp((1/L_i) Σ_t log r_t)",
            values="ε 2e-3 / 2.5e-3, 8 minibatches, advantages with the group's deviation",
            keys=(
                "objective.reduction",
                "objective.ratio",
                "objective.surrogate.clip_low",
                "objective.surrogate.clip_high",
            ),
            is_on=lambda c: (
                c.objective.ratio.small
                and isinstance(c.objective.reduction, SequenceMeanTokenSum)
                and c.objective.surrogate.type == "ppo_clip"
            ),
            cost="none; answers are never divided between micro-batches",
            test="objective/test_luspo.py::test_golden",
            differs="TRL's `loss_type: luspo` has token ratios by default, under which it is no LUSPO; before #6654 "
            "(August 2026) it then weighted an answer by L². verl has it only in the authors' copy. Under `token_mean` "
            "the gradient is the same up to a factor, answers over tokens.",
        ),
    )

    def weights_of(self, inputs: ReductionInputs) -> Tensor:
        return inputs.alike(1 / inputs.sequences)

    def formula(self, max_new_tokens: int) -> str:  # noqa: ARG002
        return "(1/S) Σ_i Σ_t"
