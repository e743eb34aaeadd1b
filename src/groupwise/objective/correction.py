"""The engine weight π_old/π_sampler: same weights, two programs. Always detached, multiplied onto the policy term.

An inference engine computes the log-probabilities of its samples with other kernels and another precision than the
trainer does. The samples are then drawn from π_sampler, and each token's gradient is owed the weight π_old/π_sampler.
"""

from typing import Literal, assert_never

import torch
from torch import Tensor

from groupwise.objective.ratio import clamp_log_ratio
from groupwise.objective.segments import segment_mean, segment_sum, sequence_index

CorrectionForm = Literal["none", "truncate", "band"]
CorrectionLevel = Literal["token", "sequence_product", "sequence_geometric_mean"]


def engine_weights(old_logps_N: Tensor, sampler_logps_N: Tensor, lengths_B: Tensor, level: CorrectionLevel) -> Tensor:
    """Importance weight π_old/π_sampler over N, detached; sequence levels repeat the sequence's value.

    Levels:
        token: of the token alone (Yao et al. 2025).
        sequence_product: of the whole sequence, exp Σ_t. Exact, with a spread that grows with the length.
        sequence_geometric_mean: exp of the mean over the sequence. Others call either of the two "sequence".
    """
    log_weight_N = old_logps_N.detach() - sampler_logps_N.detach()
    match level:
        case "token":
            pass
        case "sequence_product":
            log_weight_N = segment_sum(log_weight_N, lengths_B)[sequence_index(lengths_B, log_weight_N.numel())]
        case "sequence_geometric_mean":
            log_weight_N = segment_mean(log_weight_N, lengths_B)[sequence_index(lengths_B, log_weight_N.numel())]
        case _:
            assert_never(level)
    return clamp_log_ratio(log_weight_N).exp()


def limit_weights(weights_N: Tensor, form: CorrectionForm, low: float, high: float) -> Tensor:
    """What the policy term is multiplied with.

    Forms:
        none: 1; the weights are only measured.
        truncate: min(weight, high) (TIS, Yao et al. 2025; caps of 2 to 10 are in use). `low` is not used.
        band: the weight inside of [low, high], 0 outside (IcePop 2510.18855: [0.5, 5]; masked importance sampling).
    """
    match form:
        case "none":
            return torch.ones_like(weights_N)
        case "truncate":
            return weights_N.clamp(max=high)
        case "band":
            return weights_N.masked_fill((weights_N < low) | (weights_N > high), 0.0)
        case _:
            assert_never(form)


def effective_sample_fraction(weight_mean: float, weight_square_mean: float) -> float:
    """(Σw)²/(n·Σw²), from 1/n to 1: the share of the samples that the weighted average really uses (Kong 1992).

    Takes the two means rather than the weights, because these merge over micro-batches and ranks and the quotient does
    not.
    """
    return weight_mean * weight_mean / weight_square_mean if weight_square_mean > 0 else 0.0
