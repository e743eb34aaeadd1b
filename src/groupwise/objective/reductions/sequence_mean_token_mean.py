"""The mean over answers of their token means: GRPO."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from groupwise.objective.reductions.reduction import Reduction, ReductionInputs

if TYPE_CHECKING:
    from torch import Tensor


class SequenceMeanTokenMean(Reduction):
    """1/(S·L) for an answer of L tokens (GRPO, 2402.03300 eq. 3)."""

    type: Literal["sequence_mean_token_mean"] = "sequence_mean_token_mean"

    def weights_of(self, inputs: ReductionInputs) -> Tensor:
        return 1 / (inputs.sequences * inputs.lengths_E.clamp(min=1).double())

    def formula(self, max_new_tokens: int) -> str:  # noqa: ARG002
        return "(1/S) Σ_i (1/L_i) Σ_t"
