"""GDPO: each reward normalised within its group, weighted, summed, and whitened over the step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

from groupwise.findings import Finding
from groupwise.lazy import torch
from groupwise.objective.advantages.estimator import (
    AdvantageEstimator,
    Ddof,
    GroupRewards,
    StepMoments,
    has_signal,
    whiten,
)
from groupwise.objective.advantages.group import KEY, Group, single_sample
from groupwise.options import PositiveFloat
from groupwise.technique import Card, number

if TYPE_CHECKING:
    from torch import Tensor

    from groupwise.config import TrainConfig


class Gdpo(AdvantageEstimator):
    """Decoupled normalisation of rewards (GDPO, 2601.05242)."""

    type: Literal["gdpo"] = "gdpo"

    std_ddof: Ddof = 1
    """1 divides the squares by G-1 (Bessel), 0 by G (population)."""

    std_epsilon: PositiveFloat = 1e-4
    """Added to the standard deviations."""

    cards: ClassVar[tuple[Card, ...]] = (
        Card(
            number=13,
            name="decoupled reward normalisation",
            source="GDPO 2601.05242",
            what="each reward is normalised in its group, weighted, summed, and the sum whitened over the batch",
            equation="S = Σ_k w_k (R_k - mean)/(std + ε); A = (S - mean_batch S)/(std_batch S + ε)",
            values="weights by task",
            keys=(f"{KEY}.std_ddof", f"{KEY}.std_epsilon", "rewards.format.weight", "rewards.overlong.buffer_tokens"),
            is_on=lambda c: isinstance(c.advantage.estimator, Gdpo),
            cost="none",
            test="objective/test_advantage.py::test_gdpo_golden",
            differs="The seed leaves the last step out, and the code it follows does it per group, which inflates weak "
            "groups again. Some whiten over tokens, so that long answers count more; here over answers.",
        ),
    )

    def advantages(self, parts: Sequence[GroupRewards], over_ranks: StepMoments) -> list[Tensor]:
        values = [self.normalised(part.components_PGK, part.weights_PK) for part in parts]
        moments = over_ranks(values)
        # Fewer than two samples in the whole step have no spread to divide by.
        if moments.count <= 1:
            return values
        ddof, epsilon = self.std_ddof, self.std_epsilon
        return [whiten(summed_PG, moments, std_ddof=ddof, std_epsilon=epsilon) for summed_PG in values]

    def signal(self, part: GroupRewards) -> Tensor:
        return has_signal(self.normalised(part.components_PGK, part.weights_PK))

    def normalised(self, rewards_PGK: Tensor, weights_PK: Tensor) -> Tensor:
        """First half: each reward normalised within its group, then weighted and summed. P, G float64.

        The second half is `whiten` over the whole step, with the moments of these sums over all ranks; the paper needs
        both. Whitening within the group instead would inflate weak groups to the size of strong ones. A reward that
        does not vary within a group adds exactly 0 there.

        Raises:
            ValueError: as `Group.of`; one weight per group and component is required.
        """
        if weights_PK.shape != (rewards_PGK.shape[0], rewards_PGK.shape[2]):
            raise ValueError(
                f"{rewards_PGK.shape[0]} groups with {rewards_PGK.shape[2]} reward components, but weights of the "
                f"shape {tuple(weights_PK.shape)}"
            )
        within = Group(scale="group_std", std_ddof=self.std_ddof, std_epsilon=self.std_epsilon)
        normalised = [
            weights_P.double().unsqueeze(1) * within.of(rewards_PG)
            for rewards_PG, weights_P in zip(rewards_PGK.unbind(-1), weights_PK.unbind(-1), strict=True)
        ]
        return torch.stack(normalised).sum(0)

    def without_spans(self) -> str:
        return "it whitens its sums over the step, and what is added behind that has another scale in every step"

    def formula(self) -> str:
        divisor, epsilon = "G-1" if self.std_ddof == 1 else "G", number(self.std_epsilon)
        return (
            f"(Z - mean(Z)) / (std(Z) + {epsilon}) over the step, Z = Σ_k w_k·(R_k - mean(R_k)) / (std(R_k) + "
            f"{epsilon}) in the group, squares over {divisor}"
        )

    def findings(self, config: TrainConfig) -> Iterator[Finding]:
        """A deviation of one sample."""
        yield from single_sample(self.std_ddof, config)
