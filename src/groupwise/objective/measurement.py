"""What a loss pass tells about itself, token by token, as metrics that merge exactly."""

from dataclasses import dataclass

import torch
from torch import Tensor

from groupwise.objective.kl.k3 import K3
from groupwise.objective.metric import Metric, MetricReduction


@dataclass(frozen=True)
class TokenMeasure:
    """Measures tensors over N on the trained tokens alone, in float64 and without a transfer from the device.

    Attributes:
        trained_N: bool; the tokens that the numbers describe.
    """

    trained_N: Tensor

    def mean(self, values_N: Tensor) -> Metric:
        total = values_N.detach().double().masked_fill(~self.trained_N, 0.0).sum()
        count = self.trained_N.sum()
        return Metric(total / count.clamp(min=1), "mean", count)

    def max(self, values_N: Tensor) -> Metric:
        return self._extreme(values_N, "max")

    def min(self, values_N: Tensor) -> Metric:
        return self._extreme(values_N, "min")

    def _extreme(self, values_N: Tensor, reduction: MetricReduction) -> Metric:
        sign = 1.0 if reduction == "max" else -1.0
        signed_N = (sign * values_N.detach().double()).masked_fill(~self.trained_N, float("-inf"))
        # The -inf in front is what an empty micro-batch leaves; its weight of 0 drops it.
        largest = torch.cat([signed_N.new_full((1,), float("-inf")), signed_N]).amax()
        return Metric(sign * largest, reduction, self.trained_N.sum())


def ratio_metrics(measure: TokenMeasure, log_ratio_N: Tensor, token_log_ratio_N: Tensor) -> dict[str, Metric]:
    """The policy ratio at the objective's level, and KL(π_old ‖ π_new) from tokens by two estimates.

    `approx_kl_k1` is mean(log π_old - log π_new), `approx_kl_k3` mean(r - 1 - log r): both unbiased, the second never
    negative.
    """
    ratio_N = log_ratio_N.exp()
    return {
        "policy/ratio_mean": measure.mean(ratio_N),
        "policy/ratio_min": measure.min(ratio_N),
        "policy/ratio_max": measure.max(ratio_N),
        "policy/approx_kl_k1": measure.mean(-token_log_ratio_N),
        "policy/approx_kl_k3": measure.mean(K3().estimate(-token_log_ratio_N)),
    }


def clip_metrics(measure: TokenMeasure, low_N: Tensor, high_N: Tensor, advantages_N: Tensor) -> dict[str, Metric]:
    """Fraction of trained tokens at which a bound took effect, by bound and by sign of the advantage.

    Not the fraction whose ratio is outside of the bounds: PPO's lower bound does nothing to a good token.
    """
    return {
        f"policy/clip_fraction_{bound}_{sign}": measure.mean(bound_N & sign_N)
        for bound, bound_N in (("low", low_N), ("high", high_N))
        for sign, sign_N in (("positive", advantages_N > 0), ("negative", advantages_N < 0))
    }


def reference_metrics(measure: TokenMeasure, new_logps_N: Tensor, ref_logps_N: Tensor) -> dict[str, Metric]:
    """KL(π_new ‖ π_ref) by two estimates, in nats per token and not weighted by any coefficient."""
    delta_N = new_logps_N.detach() - ref_logps_N
    return {
        "policy/kl_ref_k1": measure.mean(delta_N),
        "policy/kl_ref_k3": measure.mean(K3().estimate(delta_N)),
    }


def engine_metrics(measure: TokenMeasure, weights_N: Tensor) -> dict[str, Metric]:
    """Engine weights; after the merge their two means give the effective sample size, `engine/ess`.

    Args:
        weights_N: engine weights before any limit, at the level of the correction.
    """
    return {
        "engine/weight_mean": measure.mean(weights_N),
        "engine/weight_square_mean": measure.mean(weights_N.double().square()),
        "engine/weight_max": measure.max(weights_N),
    }
