"""The ratio of whole-answer probabilities."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar, Literal

from groupwise.findings import Finding, warning
from groupwise.objective.ratios.ratio import RatioLevel
from groupwise.objective.segments import segment_index, segment_sum
from groupwise.technique import Card

if TYPE_CHECKING:
    from torch import Tensor

    from groupwise.config import TrainConfig


class SequenceProduct(RatioLevel):
    """Σ_t of the log-ratios: the ratio of whole-answer probabilities.

    Its spread grows with the length, so a fixed clip range means less and less.
    """

    type: Literal["sequence_product"] = "sequence_product"
    of_episode: ClassVar[bool] = True

    cards: ClassVar[tuple[Card, ...]] = (
        Card(
            name="product of token ratios",
            source="the seed; VESPO",
            what="the ratio of whole-answer probabilities, whose spread grows with the length",
            equation="r_i = Π_t π_new/π_old",
            values="none",
            keys=("objective.ratio",),
            is_on=lambda c: isinstance(c.objective.ratio, SequenceProduct),
            cost="none; answers are never divided between micro-batches",
            test="objective/test_surrogate.py::test_ratio_levels",
        ),
    )

    def unclamped(self, new_logps_N: Tensor, old_logps_N: Tensor, lengths_E: Tensor) -> Tensor:
        log_ratio_N = new_logps_N - old_logps_N
        return segment_sum(log_ratio_N, lengths_E)[segment_index(lengths_E, log_ratio_N.numel())]

    def meaning(self) -> str:
        return "Π_t π/π_old of the answer"

    def findings(self, config: TrainConfig) -> Iterator[Finding]:
        """How little drift its bounds allow."""
        surrogate, tokens = config.objective.surrogate, config.sampling.max_new_tokens
        if surrogate.needs_ratio == self.type:
            return
        bound = surrogate.widest_bound()
        drift = math.log1p(max(bound[1] if bound else 0.0, 0.01)) / tokens
        text = (
            f"objective.ratio=sequence_product multiplies the ratios of up to {tokens} tokens: a mean drift of "
            f"{drift:.2g} nats a token is beyond the bound already, and the spread grows with the length; set "
            "objective.ratio=sequence_geometric_mean, or token"
        )
        yield warning(("objective.ratio", "sampling.max_new_tokens"), text)
