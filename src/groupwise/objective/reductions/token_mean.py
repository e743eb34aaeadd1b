"""The mean over the tokens of the optimizer step: DAPO."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from groupwise.objective.reductions.reduction import Reduction, ReductionInputs
from groupwise.technique import Card

if TYPE_CHECKING:
    from torch import Tensor


class TokenMean(Reduction):
    """1/M (DAPO, 2503.14476, over the step instead of the group)."""

    type: Literal["token_mean"] = "token_mean"

    cards: ClassVar[tuple[Card, ...]] = (
        Card(
            number=3,
            name="token-level loss",
            source="DAPO 2503.14476 eq. 12",
            what="every token of the optimizer step weighs the same, so long answers weigh more",
            equation="(1/M) Σ_i Σ_t ℓ_it, M the tokens of all answers",
            values="M of the group as printed, of the batch as run",
            keys=("objective.reduction",),
            is_on=lambda c: c.objective.reduction.type in ("token_mean", "group_token_mean"),
            cost="none",
            test="objective/test_golden_loss.py::test_loss_and_gradient[dapo_0.2_0.28.token_mean]",
            differs="The seed calls a token ratio token-level; GRPO has that already. What DAPO changes is the "
            "denominator. `group_token_mean` is the printed form, `token_mean` that over the optimizer step.",
        ),
    )

    def weights_of(self, inputs: ReductionInputs) -> Tensor:
        return inputs.alike(1 / max(inputs.totals.tokens, 1))

    def formula(self, max_new_tokens: int) -> str:  # noqa: ARG002
        return "(1/M) Σ_i Σ_t"

    def term(self, answers: int) -> tuple[str, str]:
        return "M", f"tokens of all {answers} answers of an optimizer step"
