"""GSPO's ratio: the geometric mean of an answer's token ratios."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from groupwise.objective.ratios.ratio import RatioLevel
from groupwise.objective.segments import segment_index, segment_mean
from groupwise.technique import Card

if TYPE_CHECKING:
    from torch import Tensor


class SequenceGeometricMean(RatioLevel):
    """(1/L) Σ_t of the log-ratios of an answer's tokens (GSPO, 2507.18071)."""

    type: Literal["sequence_geometric_mean"] = "sequence_geometric_mean"
    of_episode: ClassVar[bool] = True
    small: ClassVar[bool] = True

    cards: ClassVar[tuple[Card, ...]] = (
        Card(
            number=14,
            name="sequence-level importance sampling",
            source="GSPO 2507.18071",
            what="ratio and clip belong to the whole answer: the geometric mean of its token ratios",
            equation="s_i = exp((1/L_i) Σ_t log(π_new/π_old)); min(s·A, clip(s)·A)",
            values="3e-4 / 4e-4, 4 minibatches, no KL",
            keys=("objective.ratio", "objective.surrogate", "objective.reduction"),
            is_on=lambda c: c.objective.ratio.small,
            cost="none; answers are never divided between micro-batches",
            test="objective/test_golden_loss.py::test_loss_and_gradient[gspo_3e-4_4e-4.seq_mean_token_mean]",
            differs="The seed's own sequence ratio is the product (`ratio=sequence_product`), and it places GSPO "
            "between GRPO and DAPO by calling GRPO free of ratios. `gspo_token` has the same value and, with "
            "equal advantages, the same gradient.",
        ),
    )

    def unclamped(self, new_logps_N: Tensor, old_logps_N: Tensor, lengths_E: Tensor) -> Tensor:
        log_ratio_N = new_logps_N - old_logps_N
        return segment_mean(log_ratio_N, lengths_E)[segment_index(lengths_E, log_ratio_N.numel())]

    def meaning(self) -> str:
        return "exp((1/L) Σ_t log π/π_old) of the answer"
