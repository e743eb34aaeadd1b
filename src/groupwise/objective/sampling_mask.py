"""Scoring over the set of tokens that the sampler kept (keep-sampling mask, DeepSeek-V3.2, 2512.02556 §3.1).

Under top-p, top-k or min-p the engine samples from a renormalised distribution. A scorer that normalises over the whole
vocabulary gives other probabilities, so that a ratio of the two is not 1 even for one and the same policy. Replaying
the recorded set in every scorer repairs that.
"""

import torch
from torch import Tensor


def kept_mask(kept_ids: Tensor, kept_counts_N: Tensor, vocab_size: int) -> Tensor:
    """Bool over N, V from the recorded sets.

    Args:
        kept_ids: token ids of all N sets, end to end, int64.
        kept_counts_N: size of each set.
    """
    num_tokens = kept_counts_N.numel()
    rows = torch.repeat_interleave(
        torch.arange(num_tokens, device=kept_ids.device), kept_counts_N, output_size=kept_ids.numel()
    )
    mask_NV = torch.zeros(num_tokens, vocab_size, dtype=torch.bool, device=kept_ids.device)
    mask_NV[rows, kept_ids] = True
    return mask_NV


def kept_logits(logits_NV: Tensor, kept_NV: Tensor, sampled_ids_N: Tensor) -> Tensor:
    """Logits with -inf outside of the kept sets: log-softmax and `token_entropy` of them are over the sets alone.

    log π^K(v) = log π(v) - log Σ_{u in K} π(u). Log-probabilities of sampled tokens and all gradients stay finite.

    Raises:
        ValueError: a sampled token is outside of its set, so that the sets are not of these samples.
    """
    if not bool(kept_NV.gather(1, sampled_ids_N.unsqueeze(1)).all()):
        raise ValueError("a sampled token is not in its kept set: the recorded sets do not belong to these completions")
    return logits_NV.masked_fill(~kept_NV, float("-inf"))
