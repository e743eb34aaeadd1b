"""Pass@k training: the analytic advantages of the chance that one of k answers is right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import comb, sqrt
from typing import TYPE_CHECKING, ClassVar, Literal

from groupwise.findings import Finding, error
from groupwise.lazy import torch
from groupwise.objective.advantages.estimator import AdvantageEstimator, GroupRewards, StepMoments
from groupwise.options import PositiveInt
from groupwise.technique import Card

if TYPE_CHECKING:
    from torch import Tensor

    from groupwise.config import TrainConfig

KEY = "advantage.estimator"


class PassAtK(AdvantageEstimator):
    """Analytic advantages of pass@k training (2508.10751), for right and wrong answers."""

    type: Literal["pass_at_k"] = "pass_at_k"

    k: PositiveInt = 4
    """Answers of which one has to be right, from 1 to G-1."""

    cards: ClassVar[tuple[Card, ...]] = (
        Card(
            name="pass@k training",
            source="2508.10751",
            what="the analytic advantages of the chance that one of k answers is right",
            equation="A₊ = (1-R̄)/σ, A₋ = (1-R̄-C(N₋-1,k-1)/C(N-1,k-1))/σ, R̄ = 1-C(N₋,k)/C(N,k), σ = √(R̄(1-R̄))",
            values="k 4 among others",
            keys=(f"{KEY}.k",),
            is_on=lambda c: isinstance(c.advantage.estimator, PassAtK),
            cost="none",
            test="objective/test_advantage.py::test_pass_at_k_golden",
            differs="verl has another estimator of pass@k (2503.19595). Only correctness is rewarded. A group with "
            "fewer than k wrong answers has advantages of 0 and is no signal to active sampling.",
        ),
    )

    def advantages(self, parts: Sequence[GroupRewards], over_ranks: StepMoments) -> list[Tensor]:  # noqa: ARG002
        return [self.of(part.right_PG) for part in parts]

    def signal(self, part: GroupRewards) -> Tensor:
        return (self.of(part.right_PG) != 0).any(1)

    def of(self, correct_PG: Tensor) -> Tensor:
        """Advantages over P, G, float64.

        With N samples, N₋ of them wrong: R̄ = 1 - C(N₋,k)/C(N,k), σ = √(R̄(1-R̄)); a right answer gets (1-R̄)/σ, a
        wrong one (1 - R̄ - C(N₋-1,k-1)/C(N-1,k-1))/σ. Exactly 0 where σ is 0: no right answer, or too few wrong ones to
        fill k.

        Raises:
            ValueError: k above G, or `correct_PG` is not bool.
        """
        group_size = correct_PG.shape[1]
        if correct_PG.dtype != torch.bool:
            raise ValueError("pass@k advantages are defined for right and wrong answers: correct_PG must be bool")
        if self.k > group_size:
            raise ValueError(f"pass@k needs 1 <= k <= samples per problem, got k {self.k} with {group_size} samples")
        pair_by_wrong = torch.tensor(
            [self._pair(group_size, wrong) for wrong in range(group_size + 1)],
            dtype=torch.float64,
            device=correct_PG.device,
        )
        right_P, wrong_P = pair_by_wrong[(~correct_PG).sum(1)].unbind(1)
        return torch.where(correct_PG, right_P.unsqueeze(1), wrong_P.unsqueeze(1))

    def _pair(self, group_size: int, wrong: int) -> tuple[float, float]:
        """Advantage of a right and of a wrong answer in a group with `wrong` wrong answers."""
        mean = 1 - comb(wrong, self.k) / comb(group_size, self.k)
        sigma = sqrt(mean * (1 - mean))
        if sigma == 0:
            return 0.0, 0.0
        # The wrong answer is drawn already: k-1 more out of the other wrong ones make a failure.
        failure_with_it = comb(wrong - 1, self.k - 1) / comb(group_size - 1, self.k - 1)
        return (1 - mean) / sigma, (1 - mean - failure_with_it) / sigma

    def least_graded(self, samples: int) -> int:  # noqa: ARG002 - it needs k of them
        """k + 1: any k answers out of k are the group itself, which leaves nothing to compare."""
        return self.k + 1

    def without_spans(self) -> str:
        return "it counts sets of answers of which one is right, and a span of one of them is in no set"

    def formula(self) -> str:
        return f"pass@{self.k}: (1 - R̄)/σ if right, (1 - R̄ - C(N₋-1, k-1)/C(N-1, k-1))/σ if wrong"

    def findings(self, config: TrainConfig) -> Iterator[Finding]:
        """Advantages that are always 0."""
        samples = config.batch.samples_per_prompt
        if self.k >= samples > 1:
            text = (
                f"{KEY}.k={self.k} is not less than batch.samples_per_prompt={samples}: k answers drawn from a group "
                f"are then all of it, every advantage is 0 and nothing is learned; take at most {samples - 1}"
            )
            yield error((f"{KEY}.k", "batch.samples_per_prompt"), text)
