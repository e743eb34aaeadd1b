"""REINFORCE++: advantages whitened over the whole step, with or without the mean of the group as baseline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import sqrt
from typing import TYPE_CHECKING, ClassVar, Literal

from groupwise.findings import Finding, warning
from groupwise.lazy import torch
from groupwise.objective.advantages.estimator import (
    AdvantageEstimator,
    Ddof,
    GroupRewards,
    Moments,
    StepMoments,
    finite,
    has_signal,
)
from groupwise.objective.advantages.group import KEY, Group
from groupwise.options import PositiveFloat
from groupwise.technique import Card, number

if TYPE_CHECKING:
    from torch import Tensor

    from groupwise.config import TrainConfig


class ReinforcePlusPlus(AdvantageEstimator):
    """(Z - mean) / deviation over the step, Z = R - mean of the group (REINFORCE++, 2501.03262 eq. 6-8), or Z = R (eq.
    4, 5). The defaults are those of the authors' trainer, OpenRLHF."""

    type: Literal["reinforce_plus_plus"] = "reinforce_plus_plus"

    baseline: Literal["group_mean", "none"] = "group_mean"
    """What a reward is compared with before it is whitened: the mean of its group, or nothing, which needs no group."""

    unit: Literal["token", "answer"] = "token"
    """What mean and deviation are of: trained tokens, so that long answers count more and the advantages of all tokens
    have the mean 0; or answers (ms-swift, ROLL), so that a group of equal rewards keeps the advantage 0."""

    std_ddof: Ddof = 0
    """1 divides the squares by count-1 (Bessel; verl, slime, ms-swift, ROLL), 0 by count."""

    epsilon: PositiveFloat = 1e-8
    """Keeps the deviation away from 0."""

    epsilon_in: Literal["floor", "variance", "std"] = "floor"
    """Where it acts: the variance is at least epsilon (OpenRLHF), epsilon is added to the variance (verl, slime), or to
    the deviation (ms-swift with 1e-4, ROLL with 1e-6)."""

    cards: ClassVar[tuple[Card, ...]] = (
        Card(
            name="REINFORCE++",
            source="2501.03262 eq. 4-8",
            what="advantages are whitened over the whole step, with or without the group's mean as baseline",
            equation="A = (Z - mean_batch Z)/std_batch Z, Z = R - mean_group R or Z = R",
            values="clip 0.2; no group in the plain form",
            keys=tuple(f"{KEY}.{name}" for name in ("baseline", "unit", "std_ddof", "epsilon", "epsilon_in")),
            is_on=lambda c: isinstance(c.advantage.estimator, ReinforcePlusPlus),
            cost="none; one sum over the ranks",
            test="objective/test_reinforce_plus_plus.py::test_golden",
            differs="OpenRLHF: tokens, squares over N. verl, slime: tokens, N-1. ms-swift, ROLL: answers, N-1. Over "
            "tokens the mean of centred rewards is not 0, and taking it out gives a group of equal rewards an "
            "advantage; any `active_sampling.filter` leaves such groups out, `unit=answer` has none. With a KL in "
            "the reward others whiten reward and KL together; here the KL is taken off the whitened advantage.",
        ),
    )

    @property
    def needs_group(self) -> bool:
        return self.baseline != "none"

    def advantages(self, parts: Sequence[GroupRewards], over_ranks: StepMoments) -> list[Tensor]:
        centred = [self.centred(part.totals_PG) for part in parts]
        tokens = [part.lengths_PG for part in parts] if self.unit == "token" else None
        moments = over_ranks(centred, tokens)
        return [self.whitened(centred_PG, moments) for centred_PG in centred]

    def signal(self, part: GroupRewards) -> Tensor:
        return has_signal(part.totals_PG) if self.needs_group else torch.ones(len(part.totals_PG), dtype=torch.bool)

    def centred(self, rewards_PG: Tensor) -> Tensor:
        """Rewards less their baseline, P, G float64; exactly 0 with a baseline where all of a group are equal.

        Raises:
            ValueError: as `Group.of`.
        """
        return finite(rewards_PG) if self.baseline == "none" else Group().of(rewards_PG)

    def whitened(self, centred_PG: Tensor, moments: Moments) -> Tensor:
        """P, G float64, by the moments of the whole step; exactly 0 where nothing in the step varies."""
        if not moments.vary:
            return torch.zeros_like(centred_PG)
        variance = moments.variance(self.std_ddof)
        deviation = {
            "floor": sqrt(max(variance, self.epsilon)),
            "variance": sqrt(variance + self.epsilon),
            "std": sqrt(variance) + self.epsilon,
        }[self.epsilon_in]
        # Rewards that are centred in their groups have the mean 0 over answers, and only rounding would say otherwise.
        mean = 0.0 if self.needs_group and self.unit == "answer" else moments.mean()
        return (centred_PG - mean) / deviation

    def without_spans(self) -> str:
        return "it whitens over the step, and what is added behind that has another scale in every step"

    def formula(self) -> str:
        over = f"the {self.unit}s of the step"
        centred, where = ("R - mean(R)", ", Z = R - mean(R) in the group") if self.needs_group else ("R", "")
        symbol, count = ("Z" if self.needs_group else centred), "N-1" if self.std_ddof == 1 else "N"
        epsilon = number(self.epsilon)
        deviation = {
            "floor": f"√max(var({symbol}), {epsilon})",
            "variance": f"√(var({symbol}) + {epsilon})",
            "std": f"(std({symbol}) + {epsilon})",
        }[self.epsilon_in]
        return f"({symbol} - mean({symbol})) / {deviation} over {over}, squares over {count}{where}"

    def findings(self, config: TrainConfig) -> Iterator[Finding]:
        """Groups without signal that get an advantage."""
        if self.baseline == "group_mean" and self.unit == "token" and config.active_sampling.filter == "none":
            text = (
                f"{KEY}.unit=token with active_sampling.filter=none: a group of equal rewards is trained on, and the "
                "mean over tokens, which is not 0 where lengths differ, gives all its answers the same advantage "
                f"although nothing was learned; set {KEY}.unit=answer, or active_sampling.filter=total"
            )
            yield warning((f"{KEY}.unit", "active_sampling.filter"), text)
