"""MaxRL: divided by the success rate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

from groupwise.objective.advantages.estimator import AdvantageEstimator, GroupRewards, StepMoments, finite, has_signal
from groupwise.technique import Card

if TYPE_CHECKING:
    from torch import Tensor


class MaxRl(AdvantageEstimator):
    """(R - mean) / mean of the group (MaxRL, 2602.02710)."""

    type: Literal["max_rl"] = "max_rl"

    cards: ClassVar[tuple[Card, ...]] = (
        Card(
            name="MaxRL",
            source="2602.02710",
            what="advantages are divided by the success rate: rare successes count more",
            equation="A = (R - mean) / mean",
            values="for rewards of 0 and 1",
            keys=("advantage.estimator",),
            is_on=lambda c: isinstance(c.advantage.estimator, MaxRl),
            cost="none",
            test="objective/test_advantage.py::test_max_rl",
        ),
    )

    def advantages(self, parts: Sequence[GroupRewards], over_ranks: StepMoments) -> list[Tensor]:  # noqa: ARG002
        return [self.of(part.totals_PG) for part in parts]

    def of(self, rewards_PG: Tensor) -> Tensor:
        """Advantages over P, G, float64; exactly 0 for a group without signal.

        Raises:
            ValueError: a negative reward: the quotient is defined for success probabilities, whose mean is not below 0.
        """
        rewards_PG = finite(rewards_PG)
        if bool((rewards_PG < 0).any()):
            raise ValueError("MaxRL advantages divide by the mean reward and need rewards that are not negative")
        mean_P1 = rewards_PG.mean(1, keepdim=True)
        signal_P1 = has_signal(rewards_PG).unsqueeze(1)
        # 0/0 happens only in a group of zeros, which has no signal.
        return ((rewards_PG - mean_P1) / mean_P1).masked_fill(~signal_P1, 0.0)

    def formula(self) -> str:
        return "(R - mean(R)) / mean(R)"
