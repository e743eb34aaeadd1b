"""The mean over answers of their token sums: Dr. GRPO as printed, RLOO."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from groupwise.objective.reductions.reduction import Reduction, ReductionInputs

if TYPE_CHECKING:
    from torch import Tensor


class SequenceMeanTokenSum(Reduction):
    """1/S (Dr. GRPO 2503.20783 as printed, RLOO 2402.14740)."""

    type: Literal["sequence_mean_token_sum"] = "sequence_mean_token_sum"

    def weights_of(self, inputs: ReductionInputs) -> Tensor:
        return inputs.alike(1 / inputs.sequences)

    def formula(self, max_new_tokens: int) -> str:  # noqa: ARG002
        return "(1/S) Σ_i Σ_t"
