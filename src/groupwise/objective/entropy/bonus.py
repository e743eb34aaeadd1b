"""The entropy bonus: + α·H in the objective."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from groupwise.options import PositiveFloat
from groupwise.technique import Card, Technique


class EntropyBonus(Technique):
    """Base of the bonuses."""

    type: Any

    @property
    def start(self) -> float:
        """α in the first step."""
        return 0.0

    def next_coefficient(self, coefficient: float, observed_nats: float) -> float:  # noqa: ARG002 - where it does not move
        """α in the next step, after a step with this α and this mean entropy."""
        return coefficient

    def formula(self) -> str:
        """The term of the objective as text; empty for none."""
        return ""

    def terms(self) -> list[tuple[str, str]]:
        """The symbols of the term."""
        return [("H", "entropy of π at the token, nats")]


class NoBonus(EntropyBonus):
    """No entropy bonus."""

    type: Literal["none"] = "none"

    def terms(self) -> list[tuple[str, str]]:
        """No symbols."""
        return []


class FixedBonus(EntropyBonus):
    """A coefficient that stays (A3C, 1602.01783)."""

    type: Literal["fixed"] = "fixed"

    coefficient: PositiveFloat = 1e-3
    """α."""

    cards: ClassVar[tuple[Card, ...]] = (
        Card(
            name="entropy bonus",
            source="A3C 1602.01783",
            what="the entropy of the policy is rewarded",
            equation="+ α·H",
            values="1e-3 in use",
            keys=("entropy.bonus.coefficient",),
            is_on=lambda c: not isinstance(c.entropy.bonus, NoBonus),
            cost="logits are kept for the gradient of the entropy, chunk by chunk",
            test="objective/test_loss.py::test_entropy_bonus_raises_entropy",
        ),
    )

    @property
    def start(self) -> float:
        """α."""
        return self.coefficient

    def formula(self) -> str:
        """With its number."""
        return f"+ {self.coefficient:g}·H"
