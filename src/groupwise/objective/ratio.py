"""The policy ratio π_new/π_old, per token or per sequence, as its logarithm on the token axis."""

from typing import Literal, assert_never

from torch import Tensor

from groupwise.objective.segments import segment_mean, segment_sum, sequence_index

RatioLevel = Literal["token", "sequence_geometric_mean", "gspo_token", "sequence_product", "none"]

LOG_RATIO_LIMIT = 20.0
"""Log-ratios are kept within ±20 before exp: e^20 is 5e8, and beyond 88 float32 overflows."""


def clamp_log_ratio(log_ratio: Tensor) -> Tensor:
    """Log-ratio within ±LOG_RATIO_LIMIT.

    An infinite ratio would turn the whole gradient into NaN (inf · 0). Outside of the limits the gradient is 0, which
    only matters for a negative advantage above the upper one: PPO has no bound there, and a token whose probability
    grew 5e8-fold says more about broken numbers than about the policy.
    """
    return log_ratio.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)


def policy_log_ratio(new_logps_N: Tensor, old_logps_N: Tensor, lengths_B: Tensor, level: RatioLevel) -> Tensor:
    """log(π_new/π_old) over N, clamped, with gradient towards `new_logps_N`.

    Sequence levels repeat the sequence's value for each of its tokens, so they need whole sequences in a micro-batch.

    Levels:
        token: the difference of each token (GRPO, DAPO).
        sequence_geometric_mean: (1/L) Σ_t of the differences (GSPO, 2507.18071).
        gspo_token: the same value, but the gradient goes to the token itself (GSPO-token, same paper): per-token
            advantages become possible, and with equal ones it is GSPO.
        sequence_product: Σ_t of the differences, the ratio of whole-sequence probabilities. Its spread grows with the
            length, so a fixed clip range means less and less.
        none: REINFORCE; the ratio has the value 1 and the gradient of the log-probability. `old_logps_N` is not used.
    """
    log_ratio_N = new_logps_N - old_logps_N
    match level:
        case "token":
            pass
        case "sequence_geometric_mean":
            log_ratio_N = segment_mean(log_ratio_N, lengths_B)[sequence_index(lengths_B, log_ratio_N.numel())]
        case "gspo_token":
            mean_B = segment_mean(log_ratio_N.detach(), lengths_B)
            own_N = new_logps_N - new_logps_N.detach()
            log_ratio_N = mean_B[sequence_index(lengths_B, log_ratio_N.numel())] + own_N
        case "sequence_product":
            log_ratio_N = segment_sum(log_ratio_N, lengths_B)[sequence_index(lengths_B, log_ratio_N.numel())]
        case "none":
            log_ratio_N = new_logps_N - new_logps_N.detach()
        case _:
            assert_never(level)
    return clamp_log_ratio(log_ratio_N)
