"""Truncated importance sampling."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar, Literal

from groupwise.findings import Finding, warning
from groupwise.objective.corrections.correction import SYMBOLS, EngineCorrection
from groupwise.options import PositiveFloat
from groupwise.technique import Card, number

if TYPE_CHECKING:
    from torch import Tensor

    from groupwise.config import TrainConfig


class Tis(EngineCorrection):
    """min(weight, cap) (TIS, Yao et al. 2025; caps of 2 to 10 are in use)."""

    type: Literal["tis"] = "tis"

    cap: PositiveFloat = 2.0
    """Largest engine weight."""

    cards: ClassVar[tuple[Card, ...]] = (
        Card(
            number=6,
            name="truncated importance sampling",
            source="Yao et al. 2025 (TIS)",
            what="the policy term is weighted for what the engine computes differently from the trainer, up to a cap",
            equation="w = min(π_old/π_engine, C), detached, times the policy term",
            values="C 2 to 10 in use; OLMo 3: 2",
            keys=("engine_correction.cap", "engine_correction.level", "objective.old_logps"),
            is_on=lambda c: isinstance(c.engine_correction, Tis),
            cost="old log-probabilities of the trainer: one more forward pass with several optimizer steps",
            test="objective/test_golden_loss.py::test_loss_and_gradient[grpo_tis_C2.token_mean]",
            differs="The seed caps the live ratio π_new/π_old under this name, which cuts gradients instead of "
            "weighting them. With float32 the built-in engine is the trainer, and the weight is 1. Others call both "
            "the product and the geometric mean over an answer 'sequence'.",
        ),
    )

    def limited(self, weights_N: Tensor) -> Tensor:
        return weights_N.clamp(max=self.cap)

    def formula(self) -> str:
        return f"min({SYMBOLS[self.level]}, {number(self.cap)})"

    def findings(self, config: TrainConfig) -> Iterator[Finding]:
        """A cap that weighs what engine and trainer agree on."""
        if self.cap < 1:
            text = (
                f"engine_correction.cap={self.cap} is an absolute bound of the weight, not a distance from 1: where "
                f"engine and trainer agree a token is weighted {self.cap:g} instead of 1; a usual cap is 2"
            )
            yield warning(("engine_correction.cap",), text)
        yield from super().findings(config)
