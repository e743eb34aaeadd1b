"""Masked importance sampling: engine weights outside a band are 0."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar, Literal

from groupwise.findings import Finding, error
from groupwise.objective.corrections.correction import SYMBOLS, EngineCorrection
from groupwise.options import NonNegativeFloat, PositiveFloat
from groupwise.technique import Card, number

if TYPE_CHECKING:
    from torch import Tensor

    from groupwise.config import TrainConfig


class Mis(EngineCorrection):
    """The weight inside of [low, high], 0 outside (IcePop 2510.18855: [0.5, 5]; masked importance sampling)."""

    type: Literal["mis"] = "mis"

    low: NonNegativeFloat = 0.5
    """Engine weights below are 0."""

    high: PositiveFloat = 2.0
    """Engine weights above are 0."""

    cards: ClassVar[tuple[Card, ...]] = (
        Card(
            name="masked importance sampling",
            source="IcePop 2510.18855",
            what="tokens or answers whose engine weight is outside of a band are left out",
            equation="w = ρ where low ≤ ρ ≤ high, else 0; ρ = π_old/π_engine",
            values="0.5 and 5",
            keys=("engine_correction.low", "engine_correction.high", "engine_correction.level", "objective.old_logps"),
            is_on=lambda c: isinstance(c.engine_correction, Mis),
            cost="as 6",
            test="objective/test_golden_loss.py::test_loss_and_gradient[grpo_icepop.token_mean]",
            differs="For whole answers: `level=sequence_product` or `sequence_geometric_mean`.",
        ),
    )

    def limited(self, weights_N: Tensor) -> Tensor:
        return weights_N.masked_fill((weights_N < self.low) | (weights_N > self.high), 0.0)

    def formula(self) -> str:
        return f"{SYMBOLS[self.level]}, 0 outside of {number(self.low)} … {number(self.high)}"

    def findings(self, config: TrainConfig) -> Iterator[Finding]:
        """An empty band, and one that drops what engine and trainer agree on."""
        if self.low >= self.high:
            text = (
                f"engine_correction.low={self.low} is not below engine_correction.high={self.high}: no weight lies "
                "between them, and nothing would be trained; IcePop has 0.5 and 5"
            )
            yield error(("engine_correction.low", "engine_correction.high"), text)
        elif not self.low <= 1 <= self.high:
            name, value = ("low", self.low) if self.low > 1 else ("high", self.high)
            text = (
                f"engine_correction.{name}={value} is an absolute bound of the weight, not a distance from 1: where "
                "engine and trainer agree the weight is 1 and the token would be dropped; IcePop has 0.5 and 5"
            )
            yield error((f"engine_correction.{name}",), text)
        yield from super().findings(config)
