"""Which sequences and tokens the policy term is computed on. A mask here leaves the denominator as it is.

Truncated answers that are not to be trained on leave numerator and denominator both: see `kept_B` of
`reduction.token_weights`.
"""

import torch
from torch import Tensor

from groupwise.objective.segments import segment_mean


def off_policy_sequences_kept(
    behaviour_logps_N: Tensor, new_logps_N: Tensor, advantages_B: Tensor, lengths_B: Tensor, threshold: float
) -> Tensor:
    """Bool over B, False where A < 0 and (1/L) Σ_t log(π_behaviour/π_new) > threshold.

    DeepSeek-V3.2, 2512.02556 eq. 9. A bad answer that the policy has left already teaches nothing and can
    destabilise. In the paper the behaviour policy is the engine's, so that staleness and engine mismatch both count,
    and the mask multiplies the policy term only, not the KL; its threshold is unpublished.
    """
    drift_B = segment_mean((behaviour_logps_N - new_logps_N).detach(), lengths_B)
    return (advantages_B >= 0) | (drift_B <= threshold)


def top_entropy_threshold(entropy_N: Tensor, fraction: float) -> Tensor:
    """Entropy (nats) above which the `fraction` most uncertain tokens lie (2506.01939), linearly interpolated.

    Of all tokens of the optimizer step, so that the split into micro-batches does not matter; the tokens at or above it
    are trained on, as in `entropy_N >= threshold`.
    """
    sorted_N = entropy_N.sort().values
    position = (1 - fraction) * (sorted_N.numel() - 1)
    below = int(position)
    above = min(below + 1, sorted_N.numel() - 1)
    return sorted_N[below].lerp(sorted_N[above], position - below)


def token_covariance(logps_N: Tensor, advantages_N: Tensor) -> Tensor:
    """(log π - mean log π)·(A - mean A) of each token, over all tokens of the optimizer step (2505.22617).

    Its mean is how fast the policy's entropy falls. The paper takes the log-probabilities of the current policy;
    those of the old one are the same in the first minibatch, and known before the step is split into micro-batches.
    """
    return (logps_N - logps_N.mean()) * (advantages_N - advantages_N.mean())


def clip_cov_selected(
    covariance_N: Tensor, fraction: float, low: float, high: float, generator: torch.Generator
) -> Tensor:
    """Bool over N, True for tokens whose policy gradient is dropped (Clip-Cov, 2505.22617).

    `fraction` of all tokens, drawn at random from those with a covariance between `low` and `high`, at least one when
    there is any. The paper has 2e-4 between 1 and 5.
    """
    candidates = ((covariance_N > low) & (covariance_N < high)).nonzero().squeeze(1)
    order = torch.randperm(candidates.numel(), generator=generator, device=generator.device).to(candidates.device)
    selected_N = torch.zeros_like(covariance_N, dtype=torch.bool)
    selected_N[candidates[order[: _share(covariance_N.numel(), fraction)]]] = True
    return selected_N


def kl_cov_selected(covariance_N: Tensor, fraction: float) -> Tensor:
    """Bool over N, True for the `fraction` of tokens with the largest covariance, at least one (KL-Cov, 2505.22617).

    They are penalised by a multiple of |log π_new - log π_old|: see `LossInputs.drift_coefficient_N`.
    """
    selected_N = torch.zeros_like(covariance_N, dtype=torch.bool)
    selected_N[covariance_N.topk(min(_share(covariance_N.numel(), fraction), covariance_N.numel())).indices] = True
    return selected_N


def _share(count: int, fraction: float) -> int:
    return max(int(fraction * count), 1)
