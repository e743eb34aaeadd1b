"""The mean over groups of their token means: DAPO as printed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from groupwise.objective.reductions.reduction import Reduction, ReductionInputs

if TYPE_CHECKING:
    from torch import Tensor


class GroupTokenMean(Reduction):
    """1/(Q·M_g), M_g being the tokens of the token's group: DAPO 2503.14476 eq. 12 as printed, averaged over groups."""

    type: Literal["group_token_mean"] = "group_token_mean"

    def weights_of(self, inputs: ReductionInputs) -> Tensor:
        if inputs.group_tokens_E is None or inputs.totals.groups < 1:
            raise ValueError("reduction group_token_mean needs group_tokens_E and totals.groups of the whole step")
        return 1 / (inputs.totals.groups * inputs.group_tokens_E.clamp(min=1).double())

    def formula(self, max_new_tokens: int) -> str:  # noqa: ARG002
        return "(1/Q) Σ_g (1/M_g) Σ_i∈g Σ_t"

    def term(self, answers: int) -> tuple[str, str]:  # noqa: ARG002
        return "Q", "groups of an optimizer step, M_g tokens in the answers of each"
