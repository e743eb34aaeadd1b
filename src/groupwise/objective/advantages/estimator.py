"""From the rewards of a group to the advantage of each answer: what every estimator has. All arithmetic is float64."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, sqrt
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from groupwise.lazy import torch
from groupwise.technique import Technique

if TYPE_CHECKING:
    from torch import Tensor

Ddof = Literal[0, 1]


@dataclass(frozen=True)
class Moments:
    """Count, sum, sum of squares, smallest and largest of a batch of numbers.

    Parts of a batch that lie on different ranks add up, so that every rank normalises by the same mean and standard
    deviation.
    """

    count: float
    total: float
    squares: float
    least: float
    most: float

    @staticmethod
    def of(values: Tensor, times: Tensor | None = None) -> Moments:
        """Moments of all elements of a tensor, each counted once or `times` times, such as once for each token."""
        values = values.double()
        times = torch.ones_like(values) if times is None else times.double()
        counted = values[times > 0]
        least, most = (float(counted.min()), float(counted.max())) if len(counted) else (inf, -inf)
        weighted = values * times
        return Moments(float(times.sum()), float(weighted.sum()), float((weighted * values).sum()), least, most)

    def __add__(self, other: Moments) -> Moments:
        sums = self.count + other.count, self.total + other.total, self.squares + other.squares
        return Moments(*sums, min(self.least, other.least), max(self.most, other.most))

    @property
    def vary(self) -> bool:
        """Whether there are two different numbers, exactly."""
        return self.least < self.most

    def mean(self) -> float:
        """Their mean."""
        return self.total / self.count

    def std(self, ddof: Ddof) -> float:
        """Standard deviation, the root of `variance`."""
        return sqrt(self.variance(ddof))

    def variance(self, ddof: Ddof) -> float:
        """Mean square of the distances from the mean; `ddof` 1 divides by count-1, 0 by count.

        Raises:
            ValueError: count is not larger than ddof.
        """
        if self.count <= ddof:
            raise ValueError(f"a standard deviation with ddof {ddof} needs more than {ddof} values, got {self.count:g}")
        # Rounding may leave a negative number of the order 1e-16 · mean² where all values are equal.
        return max(self.squares - self.total * self.total / self.count, 0.0) / (self.count - ddof)


@dataclass(frozen=True)
class GroupRewards:
    """The rewards of groups with the same number of graded answers, float64.

    Attributes:
        totals_PG: what answers are compared by.
        right_PG: bool, which are right in full.
        components_PGK: the rewards before their weights, without what is not rewarded.
        weights_PK: the weight of each component; groups of different domains may differ.
        lengths_PG: trained tokens of each answer, int64; 0 for one that is not trained on.
    """

    totals_PG: Tensor
    right_PG: Tensor
    components_PGK: Tensor
    weights_PK: Tensor
    lengths_PG: Tensor


class StepMoments(Protocol):
    """The moments of all elements of these tensors over all ranks, each counted once or as often as `times` says."""

    def __call__(self, parts: Sequence[Tensor], times: Sequence[Tensor] | None = None) -> Moments: ...


class AdvantageEstimator(Technique):
    """Base of the estimators.

    of_token: the tokens of an answer have different advantages, which a pass of the trainer decides; `advantages` gives
    what they are compared with baselines.
    """

    type: Any
    of_token: ClassVar[bool] = False

    @abstractmethod
    def advantages(self, parts: Sequence[GroupRewards], over_ranks: StepMoments) -> list[Tensor]:
        """Advantages over P, G, float64, of each part of this rank's groups; statistics of the step are of all ranks.

        Raises:
            ValueError: for groups or rewards that the estimator is not defined for.
        """

    @property
    def needs_group(self) -> bool:
        """Whether it compares within a group, so that a group of one, or of equal rewards, has the advantage 0."""
        return True

    @abstractmethod
    def formula(self) -> str:
        """A as text, in R."""

    def signal(self, part: GroupRewards) -> Tensor:
        """Which of these groups get an advantage that is not 0: bool over P. The others are no signal to train on."""
        return has_signal(part.totals_PG)

    def without_spans(self) -> str:
        """Why advantages from scores of spans cannot be added to these (`advantage.process`); empty where they can."""
        return ""

    def least_graded(self, samples: int) -> int:
        """How many of the `samples` of a group have to be graded for them to be compared."""
        return min(2, samples)


def finite(rewards: Tensor) -> Tensor:
    """The rewards in float64. Raises ValueError for one that is not finite."""
    rewards = rewards.double()
    if not bool(rewards.isfinite().all()):
        raise ValueError("a reward is not finite: leave groups with a failed grading out before computing advantages")
    return rewards


def has_signal(rewards_PG: Tensor) -> Tensor:
    """Which groups can teach anything: bool over P, True where the largest reward differs from the smallest.

    Exact comparison, not a small standard deviation: in float32 the mean of eight rewards of 1.05 is not 1.05, and
    dividing that rounding error by a standard deviation of the same size makes an advantage out of nothing.
    """
    return rewards_PG.amax(-1) != rewards_PG.amin(-1)


def whiten(values: Tensor, moments: Moments, *, std_ddof: Ddof, std_epsilon: float) -> Tensor:
    """(value - batch mean) / (batch std + epsilon), float64."""
    return (values.double() - moments.mean()) / (moments.std(std_ddof) + std_epsilon)


def clip_advantages(advantages: Tensor, limit: float) -> Tensor:
    """Advantages limited to [-limit, limit], for when a tiny standard deviation has blown them up."""
    return advantages.clamp(-limit, limit)
