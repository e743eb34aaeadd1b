"""(reward - baseline) / scale: GRPO, Dr. GRPO, RLOO, LitePPO."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

from groupwise.findings import Finding, error, unused
from groupwise.objective.advantages.estimator import (
    AdvantageEstimator,
    Ddof,
    GroupRewards,
    Moments,
    StepMoments,
    finite,
    has_signal,
)
from groupwise.options import PositiveFloat
from groupwise.technique import Card, number

if TYPE_CHECKING:
    from torch import Tensor

    from groupwise.config import TrainConfig

KEY = "advantage.estimator"


class Group(AdvantageEstimator):
    """(reward - baseline) / scale of the group's total rewards."""

    type: Literal["group"] = "group"

    baseline: Literal["group_mean", "leave_one_out", "none"] = "group_mean"
    """What a reward is compared with: the mean of its group (GRPO, 2402.03300 §4.1.2), the mean of the other G-1 (RLOO,
    2402.14740), or nothing (REINFORCE)."""

    scale: Literal["none", "group_std", "batch_std"] = "none"
    """`none` (Dr. GRPO, 2503.20783), the standard deviation of the group (GRPO), or that of all rewards of the step's
    groups (LitePPO, 2508.08221)."""

    std_ddof: Ddof = 1
    """1 divides the squares by G-1 (Bessel), 0 by G (population). The GRPO paper does not say which."""

    std_epsilon: PositiveFloat = 1e-4
    """Added to the standard deviation."""

    cards: ClassVar[tuple[Card, ...]] = (
        Card(
            number=7,
            name="no division by the deviation",
            source="Dr. GRPO 2503.20783",
            what="advantages are differences of rewards, so that easy and hard problems are not magnified",
            equation="A = R - baseline",
            values="together with a constant instead of the length",
            keys=(f"{KEY}.scale",),
            is_on=lambda c: c.uses_advantages and isinstance(e := c.advantage.estimator, Group) and e.scale == "none",
            cost="none",
            test="objective/test_advantage.py::test_golden",
            differs="The seed's reason is noise at small deviations; the paper's is that 1/std weighs problems by how "
            "easy or hard they are. The other half of Dr. GRPO is `reduction=constant_length`.",
        ),
        Card(
            number=12,
            name="standard GRPO normalisation",
            source="DeepSeekMath 2402.03300 §4.1.2",
            what="advantages are divided by the standard deviation of their group",
            equation="A = (R - mean) / (std + ε)",
            values="neither divisor nor ε stated",
            keys=(f"{KEY}.scale", f"{KEY}.std_ddof", f"{KEY}.std_epsilon"),
            is_on=lambda c: (
                isinstance(e := c.advantage.estimator, Group) and e.scale == "group_std" and e.baseline == "group_mean"
            ),
            cost="none",
            test="objective/test_advantage.py::test_golden",
            differs="The seed's table attributes it to DeepSeek-V3.2, which subtracts the mean and does not divide. "
            "Divisors differ: G-1 in most trainers, G in some; 1.155 apart at G = 4. ε is 1e-4 to 1e-9.",
        ),
        Card(
            name="leave-one-out baseline",
            source="RLOO 2402.14740",
            what="a reward is compared with the mean of the other answers",
            equation="A = R_i - mean_{j≠i} R = G/(G-1)·(R_i - mean)",
            values="no scale, no clip",
            keys=(f"{KEY}.baseline",),
            is_on=lambda c: isinstance(e := c.advantage.estimator, Group) and e.baseline == "leave_one_out",
            cost="none",
            test="objective/test_advantage.py::test_golden",
        ),
        Card(
            name="batch deviation",
            source="LitePPO 2508.08221",
            what="advantages are divided by one deviation, of all rewards of the step",
            equation="A = (R - mean of the group) / (std of the step + ε)",
            values="with the token mean",
            keys=(f"{KEY}.scale",),
            is_on=lambda c: isinstance(e := c.advantage.estimator, Group) and e.scale == "batch_std",
            cost="none; one sum over the ranks",
            test="objective/test_advantage.py::test_golden",
            differs="The deviation is of the rewards of the admitted groups, over all ranks.",
        ),
    )

    def advantages(self, parts: Sequence[GroupRewards], over_ranks: StepMoments) -> list[Tensor]:
        totals = [part.totals_PG for part in parts]
        moments = over_ranks(totals) if self.scale == "batch_std" else None
        return [self.of(totals_PG, moments) for totals_PG in totals]

    @property
    def needs_group(self) -> bool:
        return self.baseline != "none"

    def of(self, rewards_PG: Tensor, batch_moments: Moments | None = None) -> Tensor:
        """Advantages over P, G as float64.

        A group without signal gets exactly 0 wherever a group baseline is used; with baseline `none` its rewards are
        its advantages, as in REINFORCE, and stay.

        Args:
            rewards_PG: one reward per answer.
            batch_moments: of the rewards of the whole step, for `batch_std`; without it the batch is `rewards_PG`.

        Raises:
            ValueError: a group of one with a group baseline, a scale without a baseline, a reward that is not finite.
        """
        rewards_PG = finite(rewards_PG)
        group_size = rewards_PG.shape[1]
        if group_size == 1 and self.baseline != "none":
            raise ValueError(
                f"baseline {self.baseline} needs at least 2 samples of each problem: the mean of a group of one is its "
                "own reward, so that every advantage is 0"
            )
        if self.scale != "none" and self.baseline == "none":
            raise ValueError(f"scale {self.scale} needs a group baseline: without one equal rewards are divided by 0")
        from_mean_PG = rewards_PG - rewards_PG.mean(1, keepdim=True)
        centred_PG = from_mean_PG
        if self.baseline == "leave_one_out":
            # R_i - mean of the others = G/(G-1) · (R_i - mean)
            centred_PG = from_mean_PG * (group_size / (group_size - 1))
        if self.baseline == "none":
            return rewards_PG
        if self.scale == "group_std":
            variance_P1 = from_mean_PG.square().sum(1, keepdim=True) / (group_size - self.std_ddof)
            centred_PG = centred_PG / (variance_P1.sqrt() + self.std_epsilon)
        elif self.scale == "batch_std":
            moments = batch_moments or Moments.of(rewards_PG)
            centred_PG = centred_PG / (moments.std(self.std_ddof) + self.std_epsilon)
        return centred_PG.masked_fill(~has_signal(rewards_PG).unsqueeze(1), 0.0)

    def signal(self, part: GroupRewards) -> Tensor:
        return (part.totals_PG != 0).any(1) if self.baseline == "none" else has_signal(part.totals_PG)

    def without_spans(self) -> str:
        alone = "with baseline=none answers are compared with nothing, and spans always with those of their group"
        return alone if self.baseline == "none" else ""

    def formula(self) -> str:
        baseline = {"group_mean": "mean(R)", "leave_one_out": "mean of the others", "none": ""}[self.baseline]
        centred, epsilon = f"R - {baseline}" if baseline else "R", number(self.std_epsilon)
        divisor = "G-1" if self.std_ddof == 1 else "G"
        return {
            "none": centred,
            "group_std": f"({centred}) / (std(R) + {epsilon}), squares over {divisor}",
            "batch_std": f"({centred}) / (std of the step's R + {epsilon})",
        }[self.scale]

    def findings(self, config: TrainConfig) -> Iterator[Finding]:
        """A scale without a baseline, and options that the scale does not read."""
        if self.baseline == "none" and self.scale != "none":
            text = (
                f"{KEY}.scale={self.scale} with {KEY}.baseline=none: a group of equal rewards would be divided by 0; "
                f"take a baseline, or set {KEY}.scale=none"
            )
            yield error((f"{KEY}.scale", f"{KEY}.baseline"), text)
        if self.scale == "none":
            for name in ("std_ddof", "std_epsilon"):
                default, remedy = type(self).model_fields[name].default, f"set {KEY}.scale=group_std"
                yield from unused(f"{KEY}.{name}", getattr(self, name), default, f"{KEY}.scale=none", remedy)
        else:
            yield from single_sample(self.std_ddof, config)


def single_sample(std_ddof: int, config: TrainConfig) -> Iterator[Finding]:
    """A deviation of one sample."""
    if std_ddof == 1 and config.batch.samples_per_prompt == 1:
        text = (
            f"{KEY}.std_ddof=1 with batch.samples_per_prompt=1: the deviation divides by G-1, which is 0; take at "
            f"least 2 samples, or set {KEY}.std_ddof=0"
        )
        yield error((f"{KEY}.std_ddof", "batch.samples_per_prompt"), text)
