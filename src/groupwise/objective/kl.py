"""KL divergence between the policy and the reference, from samples.

With δ = log π_new - log π_ref of a sampled token, three estimates of KL(π_new ‖ π_ref) (Schulman 2020):

    k1 = δ            k2 = δ²/2            k3 = e^{-δ} - 1 + δ

Their values are close. Their gradients as a loss, in expectation over samples of π_new, are not (2506.09477,
2510.01555, 2512.21852; the tests enumerate a small policy):

    k1                        0: the score function has mean 0, the reference drops out
    k2                        ∇KL(π_new ‖ π_ref): of the visited states per token, exact on whole-sequence δ
    k3                        ∇KL(π_ref ‖ π_new), the other divergence
    r·k1, r·k3 with live r    ∇KL(π_new ‖ π_ref), also when the samples are of π_old
    sg(r)·k2                  the same
    sg(r)·k1                  0 again
    k1 in the reward          ∇KL(π_new ‖ π_ref), with the future of each token counted (`kl_to_go`)
"""

from typing import Literal, assert_never

from torch import Tensor

from groupwise.objective.ratio import LOG_RATIO_LIMIT, policy_log_ratio
from groupwise.objective.segments import segment_reverse_cumsum

KlEstimator = Literal["k1", "k2", "k3"]
KlImportance = Literal["none", "token", "token_detached", "sequence_product"]


def kl_estimate(delta: Tensor, estimator: KlEstimator) -> Tensor:
    """k1, k2 or k3 of each element; token differences give token estimates, sequence sums give sequence estimates.

    Beyond δ = -20 the exponential of k3 goes on as its tangent: finite in value and gradient, and still pulling towards
    the reference, which a clamp would not do.
    """
    match estimator:
        case "k1":
            return delta
        case "k2":
            return delta.square() / 2
        case "k3":
            exponent = (-delta).clamp(max=LOG_RATIO_LIMIT)
            beyond = (-delta - LOG_RATIO_LIMIT).relu()
            # expm1: e^{-δ} - 1 + δ is about δ²/2, which float32 loses in exp(-δ) - 1 for small δ.
            return exponent.expm1() + exponent.exp() * beyond + delta
        case _:
            assert_never(estimator)


def kl_per_token(
    new_logps_N: Tensor,
    old_logps_N: Tensor,
    ref_logps_N: Tensor,
    lengths_B: Tensor,
    estimator: KlEstimator,
    importance: KlImportance,
) -> Tensor:
    """KL estimate of each token over N, with gradient towards `new_logps_N`.

    Importance, for samples of π_old:
        none: the estimate alone (GRPO with k3, 2402.03300 eq. 4).
        token: times the live ratio π_new/π_old of the token; gradient through both (DeepSeek-V3.2 2512.02556 eq. 7
            with k3).
        token_detached: times that ratio as a constant.
        sequence_product: times the live ratio of the whole sequence. Exact for sums over a sequence, and with the
            spread of a product of ratios.
    """
    estimate_N = kl_estimate(new_logps_N - ref_logps_N, estimator)
    match importance:
        case "none":
            return estimate_N
        case "token":
            return policy_log_ratio(new_logps_N, old_logps_N, lengths_B, "token").exp() * estimate_N
        case "token_detached":
            return policy_log_ratio(new_logps_N.detach(), old_logps_N, lengths_B, "token").exp() * estimate_N
        case "sequence_product":
            return policy_log_ratio(new_logps_N, old_logps_N, lengths_B, "sequence_product").exp() * estimate_N
        case _:
            assert_never(importance)


def kl_to_go(logps_N: Tensor, ref_logps_N: Tensor, lengths_B: Tensor) -> Tensor:
    """Σ of k1 from each token to the end of its sequence, detached: the cost of a KL penalty in the reward.

    The advantage of token t becomes A - β·kl_to_go_t. `logps_N` is the policy that sampled.
    """
    return segment_reverse_cumsum((logps_N - ref_logps_N).detach(), lengths_B)
