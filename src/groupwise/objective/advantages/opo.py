"""OPO: the group's mean reward, weighted by the lengths of its answers, as baseline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

from groupwise.findings import Finding, warning
from groupwise.objective.advantages.estimator import AdvantageEstimator, GroupRewards, StepMoments, finite, has_signal
from groupwise.technique import Card

if TYPE_CHECKING:
    from torch import Tensor

    from groupwise.config import TrainConfig


class Opo(AdvantageEstimator):
    """R - Σ L_i R_i / Σ L_i (OPO, 2505.23585): of least variance where |∇ log π|² grows with the length."""

    type: Literal["opo"] = "opo"

    cards: ClassVar[tuple[Card, ...]] = (
        Card(
            name="OPO",
            source="2505.23585",
            what="a reward is compared with the mean of its group weighted by length, so that Σ L_i A_i = 0",
            equation="A_i = R_i - Σ_j L_j R_j / Σ_j L_j",
            values="exactly on-policy: one update per step; no deviation, KL or entropy bonus",
            keys=("advantage.estimator",),
            is_on=lambda c: isinstance(c.advantage.estimator, Opo),
            test="objective/test_opo.py::test_golden",
            differs="L counts trained tokens, so that a truncated answer that is masked has no weight. In a group of "
            "one A is 0, as in the authors' code: the equation compares the answer with itself. verl has no baseline "
            "there, and A is the raw reward.",
        ),
    )

    def advantages(self, parts: Sequence[GroupRewards], over_ranks: StepMoments) -> list[Tensor]:  # noqa: ARG002
        return [self.of(part.totals_PG, part.lengths_PG) for part in parts]

    def of(self, rewards_PG: Tensor, lengths_PG: Tensor) -> Tensor:
        """Advantages over P, G, float64; exactly 0 for a group without signal, and so for a group of one.

        Without any trained token the baseline is 0.

        Args:
            rewards_PG: one reward per answer. lengths_PG: its trained tokens.

        Raises:
            ValueError: a reward is not finite.
        """
        rewards_PG, lengths_PG = finite(rewards_PG), lengths_PG.double()
        baseline_P1 = (lengths_PG * rewards_PG).sum(1, keepdim=True) / lengths_PG.sum(1, keepdim=True).clamp(min=1)
        return (rewards_PG - baseline_P1).masked_fill(~has_signal(rewards_PG).unsqueeze(1), 0.0)

    def formula(self) -> str:
        return "R - Σ_j L_j R_j / Σ_j L_j of the group, L the trained tokens of an answer"

    def findings(self, config: TrainConfig) -> Iterator[Finding]:
        """Several updates on the same answers."""
        if config.updates_per_step > 1:
            text = (
                f"advantage.estimator=opo with {config.updates_per_step} optimizer steps on the same answers: its "
                "baseline is derived for the policy that sampled, and the paper takes one step on all answers; set "
                "batch.minibatches_per_step=1 and batch.epochs_per_step=1"
            )
            yield warning(("advantage.estimator", "batch.minibatches_per_step", "batch.epochs_per_step"), text)
