"""Per-token losses (negated objectives) of a ratio and an advantage.

Every function takes the live ratio r over N and the advantages A over N and returns `Surrogate`. Where a bound takes
effect, the ratio is replaced by the constant bound, so that the gradient there is exactly 0.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from groupwise.objective.ratio import clamp_log_ratio
from groupwise.objective.segments import segment_mean, sequence_index


@dataclass(frozen=True)
class Surrogate:
    """Per-token loss, and where a bound took effect.

    Attributes:
        loss_N: to be weighted and summed.
        low_N: bool, the lower bound replaced the ratio.
        high_N: bool, the upper bound did. In either case the token's gradient is exactly 0, except for `cispo`, whose
            bounds limit the weight and leave the gradient.
    """

    loss_N: Tensor
    low_N: Tensor
    high_N: Tensor


def _bounded(ratio_N: Tensor, advantages_N: Tensor, low_N: Tensor, high_N: Tensor, bound_N: Tensor) -> Surrogate:
    effective_N = torch.where(low_N | high_N, bound_N, ratio_N)
    return Surrogate(-advantages_N * effective_N, low_N, high_N)


def _unbounded(loss_N: Tensor) -> Surrogate:
    nowhere_N = torch.zeros_like(loss_N, dtype=torch.bool)
    return Surrogate(loss_N, nowhere_N, nowhere_N)


def _by_sign(advantages_N: Tensor, positive: float, negative: float) -> Tensor:
    """`positive` where A > 0, else `negative`, in the precision of A."""
    return torch.where(advantages_N > 0, torch.full_like(advantages_N, positive), negative)


def ppo_clip(
    ratio_N: Tensor, advantages_N: Tensor, clip_low: float, clip_high: float, dual_clip: float | None = None
) -> Surrogate:
    """-min(r·A, clip(r, 1-clip_low, 1+clip_high)·A), for both signs of A.

    PPO 1707.06347 eq. 7, with two bounds as in DAPO 2503.14476. The minimum leaves one bound to each sign: A>0 stops
    above 1+clip_high, A<0 stops below 1-clip_low. A bad token whose probability rose keeps its full gradient, r·A,
    without limit; `dual_clip` c > 1 (1912.09729) stops it above c: max(min(r·A, clip(r)·A), c·A).
    """
    low_N = (advantages_N < 0) & (ratio_N < 1 - clip_low)
    high_N = (advantages_N > 0) & (ratio_N > 1 + clip_high)
    bound_N = torch.where(low_N, 1 - clip_low, torch.full_like(ratio_N, 1 + clip_high))
    if dual_clip is not None:
        dual_N = (advantages_N < 0) & (ratio_N > dual_clip)
        high_N = high_N | dual_N
        bound_N = torch.where(dual_N, dual_clip, bound_N)
    return _bounded(ratio_N, advantages_N, low_N, high_N, bound_N)


def cispo(ratio_N: Tensor, new_logps_N: Tensor, advantages_N: Tensor, cap: float, floor: float = 0.0) -> Surrogate:
    """-sg(clip(r, floor, cap))·A·log π (CISPO, MiniMax-M1 2506.13585).

    `cap` and `floor` are absolute values of the detached weight, not distances from 1 as clip bounds are: the same
    number under the same name means different things elsewhere. No token loses its gradient. MiniMax-M1 leaves the
    lower bound off (floor 0) and does not publish its cap; ScaleRL (2510.13786) uses 5. The loss value says nothing;
    its gradient does.
    """
    weight_N = ratio_N.detach().clamp(floor, cap)
    return Surrogate(-weight_N * advantages_N * new_logps_N, ratio_N < floor, ratio_N > cap)


def sapo(ratio_N: Tensor, advantages_N: Tensor, temperature_positive: float, temperature_negative: float) -> Surrogate:
    """-A·(4/τ)·σ(τ(r-1)): a soft gate in the place of a clip (SAPO, 2511.20347), τ by the sign of A.

    The slope at r = 1 is A, as without a gate, and falls smoothly on both sides.
    """
    temperature_N = _by_sign(advantages_N, temperature_positive, temperature_negative)
    gate_N = torch.sigmoid(temperature_N * (ratio_N - 1)) * (4 / temperature_N)
    return _unbounded(-advantages_N * gate_N)


def reinforce(ratio_N: Tensor, advantages_N: Tensor) -> Surrogate:
    """-r·A without any bound. With ratio level `none` this is REINFORCE: the value -A, the gradient -A·∇log π."""
    return _unbounded(-advantages_N * ratio_N)


def seed_clip(ratio_N: Tensor, advantages_N: Tensor, clip_high: float) -> Surrogate:
    """Teaching only: -A·min(r, 1+clip_high), what PPO's clip becomes when max takes the place of min where A < 0.

    The printed forms of it name a lower bound too, and one clamps the ratio from above beforehand. Neither changes
    anything: max(r·A, clip(r)·A) with A<0 is A·min(r, clip(r)), and min(r, clip(r, 1-clip_low, 1+clip_high)) is
    min(r, 1+clip_high) for every clip_low. So a bad token is pushed down without end, and once its probability has
    grown past the upper bound nothing corrects it: the reverse of what a clip is for.
    """
    high_N = (advantages_N != 0) & (ratio_N > 1 + clip_high)
    return _bounded(ratio_N, advantages_N, torch.zeros_like(high_N), high_N, torch.full_like(ratio_N, 1 + clip_high))


def dppo(
    ratio_N: Tensor, new_logps_N: Tensor, old_logps_N: Tensor, advantages_N: Tensor, tv_low: float, tv_high: float
) -> Surrogate:
    """-r·A, dropped where the probability itself has moved too far (DPPO with binary total variation, 2602.04879).

    A>0 is dropped where π_new - π_old > tv_high, A<0 where π_new - π_old < -tv_low. Unlike a ratio bound this leaves
    rare tokens free, whose ratio moves a lot while hardly any probability does.
    """
    moved_N = new_logps_N.detach().exp() - old_logps_N.exp()
    low_N = (advantages_N < 0) & (moved_N < -tv_low)
    high_N = (advantages_N > 0) & (moved_N > tv_high)
    return _bounded(ratio_N, advantages_N, low_N, high_N, torch.zeros_like(ratio_N))


def vespo(
    log_ratio_N: Tensor,
    new_logps_N: Tensor,
    advantages_N: Tensor,
    shape_positive: tuple[float, float],
    shape_negative: tuple[float, float],
) -> Surrogate:
    """-sg(W^k·e^{λ(1-W)})·A·log π (VESPO, 2602.10693), W being the ratio of whole-sequence probabilities.

    Args:
        log_ratio_N: log W, of ratio level `sequence_product`.
        shape_positive: k and λ where A > 0; the paper has (2, 3).
        shape_negative: k and λ where A <= 0; the paper has (3, 2).
    """
    log_W_N = log_ratio_N.detach()
    k_N = _by_sign(advantages_N, shape_positive[0], shape_negative[0])
    rate_N = _by_sign(advantages_N, shape_positive[1], shape_negative[1])
    weight_N = (k_N * log_W_N + rate_N * (1 - log_W_N.exp())).exp()
    return _unbounded(-weight_N * advantages_N * new_logps_N)


def gmpo(
    new_logps_N: Tensor,
    old_logps_N: Tensor,
    advantages_N: Tensor,
    lengths_B: Tensor,
    log_clip_low: float,
    log_clip_high: float,
) -> Surrogate:
    """-s·A with s the geometric mean of clipped token ratios (GMPO, 2507.20673), repeated for each token.

    Each token's log-ratio is bounded before the mean, on the side that PPO bounds for the sign of A: above at
    log_clip_high where A>0, below at -log_clip_low where A<0. The paper has 0.4 for both.
    """
    log_ratio_N = new_logps_N - old_logps_N
    low_N = (advantages_N < 0) & (log_ratio_N < -log_clip_low)
    high_N = (advantages_N > 0) & (log_ratio_N > log_clip_high)
    bound_N = torch.where(low_N, -log_clip_low, torch.full_like(log_ratio_N, log_clip_high))
    clipped_N = torch.where(low_N | high_N, bound_N, log_ratio_N)
    mean_N = segment_mean(clipped_N, lengths_B)[sequence_index(lengths_B, clipped_N.numel())]
    return Surrogate(-advantages_N * clamp_log_ratio(mean_N).exp(), low_N, high_N)
