"""From the rewards of a group to the advantage of each completion. All arithmetic is float64."""

from dataclasses import dataclass
from math import comb, sqrt
from typing import Literal, assert_never

import torch
from torch import Tensor

Baseline = Literal["group_mean", "leave_one_out", "none"]
Scale = Literal["none", "group_std", "batch_std"]
Ddof = Literal[0, 1]


@dataclass(frozen=True)
class Moments:
    """Count, sum and sum of squares of a batch of numbers.

    Parts of a batch that lie on different ranks add up (`+`, or an all-reduce of the three numbers), so that every rank
    normalises by the same mean and standard deviation.
    """

    count: float
    total: float
    squares: float

    @staticmethod
    def of(values: Tensor) -> "Moments":
        """Moments of all elements of a tensor."""
        values = values.double()
        return Moments(float(values.numel()), float(values.sum()), float(values.square().sum()))

    def __add__(self, other: "Moments") -> "Moments":
        return Moments(self.count + other.count, self.total + other.total, self.squares + other.squares)

    def mean(self) -> float:
        return self.total / self.count

    def std(self, ddof: Ddof) -> float:
        """Standard deviation; `ddof` 1 divides by count-1, 0 by count.

        Raises:
            ValueError: count is not larger than ddof.
        """
        if self.count <= ddof:
            raise ValueError(f"a standard deviation with ddof {ddof} needs more than {ddof} values, got {self.count:g}")
        # Rounding may leave a negative number of the order 1e-16 · mean² where all values are equal.
        return sqrt(max(self.squares - self.total * self.total / self.count, 0.0) / (self.count - ddof))


def _rewards(rewards: Tensor) -> Tensor:
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


def group_advantages(
    rewards_PG: Tensor,
    *,
    baseline: Baseline,
    scale: Scale,
    std_ddof: Ddof,
    std_epsilon: float,
    batch_moments: Moments | None = None,
) -> Tensor:
    """Advantages over P, G as float64: (reward - baseline) / scale.

    A group without signal gets exactly 0 wherever a group baseline is used; with baseline `none` its rewards are its
    advantages, as in REINFORCE, and stay.

    Args:
        rewards_PG: one reward per completion.
        baseline: `group_mean` (GRPO, 2402.03300 §4.1.2), `leave_one_out`, the mean of the other G-1 (RLOO, 2402.14740),
            or `none`.
        scale: `none` (Dr. GRPO, 2503.20783), `group_std` (GRPO), or `batch_std`, the deviation of all rewards of the
            batch (LitePPO, 2508.08221).
        std_ddof: 1 divides the squares by n-1 (Bessel), 0 by n. The GRPO paper does not say which.
        std_epsilon: added to the standard deviation.
        batch_moments: of the rewards of the whole batch, for `batch_std` when other ranks hold parts of it. Without
            it the batch is `rewards_PG`.

    Raises:
        ValueError: a group of one with a group baseline, a scale without a baseline, a reward that is not finite.
    """
    rewards_PG = _rewards(rewards_PG)
    group_size = rewards_PG.shape[1]
    if group_size == 1 and baseline != "none":
        raise ValueError(
            f"baseline {baseline} needs at least 2 samples of each problem: the mean of a group of one is its own "
            "reward, so that every advantage is 0"
        )
    if scale != "none" and baseline == "none":
        raise ValueError(f"scale {scale} needs a group baseline: without one equal rewards are divided by 0")
    from_mean_PG = rewards_PG - rewards_PG.mean(1, keepdim=True)
    match baseline:
        case "group_mean":
            centred_PG = from_mean_PG
        case "leave_one_out":
            # R_i - mean of the others = G/(G-1) · (R_i - mean)
            centred_PG = from_mean_PG * (group_size / (group_size - 1))
        case "none":
            centred_PG = rewards_PG
        case _:
            assert_never(baseline)
    match scale:
        case "none":
            advantages_PG = centred_PG
        case "group_std":
            variance_P1 = from_mean_PG.square().sum(1, keepdim=True) / (group_size - std_ddof)
            advantages_PG = centred_PG / (variance_P1.sqrt() + std_epsilon)
        case "batch_std":
            moments = batch_moments or Moments.of(rewards_PG)
            advantages_PG = centred_PG / (moments.std(std_ddof) + std_epsilon)
        case _:
            assert_never(scale)
    if baseline == "none":
        return advantages_PG
    return advantages_PG.masked_fill(~has_signal(rewards_PG).unsqueeze(1), 0.0)


def whiten(values: Tensor, moments: Moments, *, std_ddof: Ddof, std_epsilon: float) -> Tensor:
    """(value - batch mean) / (batch std + epsilon), float64."""
    return (values.double() - moments.mean()) / (moments.std(std_ddof) + std_epsilon)


def decoupled_advantages(rewards_PGK: Tensor, weights_K: Tensor, *, std_ddof: Ddof, std_epsilon: float) -> Tensor:
    """First half of GDPO (2601.05242): each reward normalised within its group, then weighted and summed. P, G float64.

    The second half is `whiten` over the whole batch, with the moments of these sums over all ranks; the paper needs
    both. Whitening within the group instead would inflate weak groups to the size of strong ones. A reward that does
    not vary within a group adds exactly 0 there.

    Raises:
        ValueError: as `group_advantages`; one weight per component is required.
    """
    if weights_K.shape != rewards_PGK.shape[2:]:
        raise ValueError(f"{rewards_PGK.shape[2]} reward components, but {weights_K.numel()} weights")
    normalised = [
        weight
        * group_advantages(
            rewards_PG, baseline="group_mean", scale="group_std", std_ddof=std_ddof, std_epsilon=std_epsilon
        )
        for rewards_PG, weight in zip(rewards_PGK.unbind(-1), weights_K.double().tolist(), strict=True)
    ]
    return torch.stack(normalised).sum(0)


def clip_advantages(advantages: Tensor, limit: float) -> Tensor:
    """Advantages limited to [-limit, limit], for when a tiny standard deviation has blown them up."""
    return advantages.clamp(-limit, limit)


def max_rl_advantages(rewards_PG: Tensor) -> Tensor:
    """(R - mean) / mean of the group (MaxRL, 2602.02710), P, G float64; exactly 0 for a group without signal.

    Raises:
        ValueError: a negative reward: the quotient is defined for success probabilities, whose mean is not below 0.
    """
    rewards_PG = _rewards(rewards_PG)
    if bool((rewards_PG < 0).any()):
        raise ValueError("MaxRL advantages divide by the mean reward and need rewards that are not negative")
    mean_P1 = rewards_PG.mean(1, keepdim=True)
    signal_P1 = has_signal(rewards_PG).unsqueeze(1)
    # 0/0 happens only in a group of zeros, which has no signal.
    return ((rewards_PG - mean_P1) / mean_P1).masked_fill(~signal_P1, 0.0)


def pass_at_k_advantages(correct_PG: Tensor, k: int) -> Tensor:
    """Analytic advantages of pass@k training (2508.10751), P, G float64, for right and wrong answers.

    With N samples, N₋ of them wrong: R̄ = 1 - C(N₋,k)/C(N,k), σ = √(R̄(1-R̄)); a right answer gets (1-R̄)/σ, a wrong
    one (1 - R̄ - C(N₋-1,k-1)/C(N-1,k-1))/σ. Exactly 0 where σ is 0: no right answer, or too few wrong ones to fill k.

    Args:
        correct_PG: bool.
        k: samples of which one has to be right, from 1 to G.

    Raises:
        ValueError: k outside 1..G, or `correct_PG` is not bool.
    """
    group_size = correct_PG.shape[1]
    if correct_PG.dtype != torch.bool:
        raise ValueError("pass@k advantages are defined for right and wrong answers: correct_PG must be bool")
    if not 1 <= k <= group_size:
        raise ValueError(f"pass@k needs 1 <= k <= samples per problem, got k {k} with {group_size} samples")
    pair_by_wrong = torch.tensor(
        [_pass_at_k_pair(group_size, wrong, k) for wrong in range(group_size + 1)],
        dtype=torch.float64,
        device=correct_PG.device,
    )
    right_P, wrong_P = pair_by_wrong[(~correct_PG).sum(1)].unbind(1)
    return torch.where(correct_PG, right_P.unsqueeze(1), wrong_P.unsqueeze(1))


def _pass_at_k_pair(group_size: int, wrong: int, k: int) -> tuple[float, float]:
    """Advantage of a right and of a wrong answer in a group with `wrong` wrong answers."""
    mean = 1 - comb(wrong, k) / comb(group_size, k)
    sigma = sqrt(mean * (1 - mean))
    if sigma == 0:
        return 0.0, 0.0
    # The wrong answer is drawn already: k-1 more out of the other wrong ones make a failure.
    failure_with_it = comb(wrong - 1, k - 1) / comb(group_size - 1, k - 1)
    return (1 - mean) / sigma, (1 - mean - failure_with_it) / sigma
