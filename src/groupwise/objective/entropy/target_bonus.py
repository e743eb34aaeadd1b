"""The entropy bonus whose coefficient moves until the entropy is at its target."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar, Literal

from groupwise.findings import Finding, error
from groupwise.objective.entropy.bonus import EntropyBonus
from groupwise.options import NonNegativeFloat, PositiveFloat
from groupwise.technique import Card

if TYPE_CHECKING:
    from groupwise.config import TrainConfig


class TargetBonus(EntropyBonus):
    """α moves by one step after every training step (Skywork OR1, 2505.22312)."""

    type: Literal["target"] = "target"

    coefficient: NonNegativeFloat = 0.0
    """α in the first step."""

    target_nats: PositiveFloat = 0.2
    """The coefficient moves towards this entropy after every step."""

    coefficient_step: PositiveFloat = 0.005
    """How far it moves."""

    max_coefficient: PositiveFloat = 1.0
    """It stays between 0 and this."""

    cards: ClassVar[tuple[Card, ...]] = (
        Card(
            name="entropy target",
            source="Skywork OR1 2505.22312",
            what="the coefficient of the bonus moves until the entropy is at its target",
            equation="α ← α ± step, up below the target and down above it",
            values="target 0.2 nats, step 0.005",
            keys=("entropy.bonus.target_nats", "entropy.bonus.coefficient_step", "entropy.bonus.max_coefficient"),
            is_on=lambda c: isinstance(c.entropy.bonus, TargetBonus),
            cost="as the bonus",
            test="objective/test_entropy.py::test_adapted_coefficient",
        ),
    )

    @property
    def start(self) -> float:
        return self.coefficient

    def next_coefficient(self, coefficient: float, observed_nats: float) -> float:
        """One step up where the observed entropy is below the target, down where it is above, within the bounds.

        The paper adds the bonus only where the entropy is not above the target.
        """
        below, above = observed_nats < self.target_nats, observed_nats > self.target_nats
        step = self.coefficient_step if below else -self.coefficient_step if above else 0.0
        return min(max(coefficient + step, 0.0), self.max_coefficient)

    def formula(self) -> str:
        return "+ α·H"

    def terms(self) -> list[tuple[str, str]]:
        moves = f"from {self.coefficient:g} on by {self.coefficient_step:g} a step towards H = {self.target_nats:g}"
        return [("α", f"{moves}, within 0 … {self.max_coefficient:g}"), *super().terms()]

    def findings(self, config: TrainConfig) -> Iterator[Finding]:  # noqa: ARG002
        """A start above the limit."""
        if self.coefficient > self.max_coefficient:
            text = (
                f"entropy.bonus.coefficient={self.coefficient} is above entropy.bonus.max_coefficient="
                f"{self.max_coefficient}: it would fall to the limit after the first step whatever the entropy is; "
                "lower it, or raise the limit"
            )
            yield error(("entropy.bonus.coefficient", "entropy.bonus.max_coefficient"), text)
