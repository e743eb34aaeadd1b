"""From logits to tokens, with one uniform number per token."""

import hashlib
import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from groupwise.config.data import KEPT_LIMIT
from groupwise.rollout.engine import SamplingParams

# Tokens whose probabilities are added up in float32.
BLOCK = 128
LARGEST = 1.0 - 1e-12


def derive_seed(*parts: int | str) -> int:
    """A 64-bit seed from what it is for, for example (run seed, "sample", step, problem, sample)."""
    text = "\x1f".join(f"{type(part).__name__}:{part}" for part in parts)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def uniforms(seeds: Sequence[int], tokens: int) -> Tensor:
    """Uniform numbers in [0, 1) for every sequence and position, each row from its own seed: (B, tokens), float64.

    A sequence draws the same numbers whatever else is in the batch.
    """
    rows = [np.random.Generator(np.random.Philox(seed)).random(tokens) for seed in seeds]
    return torch.from_numpy(np.stack(rows)) if rows else torch.empty(0, tokens, dtype=torch.float64)


def filtered_logits(logits_BV: Tensor, sampling: SamplingParams) -> Tensor:
    """Logits at the sampling temperature, with everything outside top-k, then top-p, then min-p at minus infinity.

    Exactly k tokens pass top-k, also where the logits at its border are equal.
    """
    if sampling.temperature == 0.0:
        return logits_BV
    if sampling.temperature != 1.0:
        logits_BV = logits_BV / sampling.temperature
    top_k = sampling.top_k or logits_BV.shape[1]
    top_k = min(top_k, KEPT_LIMIT) if sampling.record_kept else top_k
    if top_k < logits_BV.shape[1]:
        kept_BK = logits_BV.topk(top_k, dim=-1).indices
        drop_BV = torch.ones_like(logits_BV, dtype=torch.bool).scatter_(1, kept_BK, False)
        logits_BV = logits_BV.masked_fill(drop_BV, -torch.inf)
    if sampling.top_p < 1.0:
        ordered_BV, order_BV = logits_BV.sort(dim=-1, descending=True)
        probabilities_BV = ordered_BV.softmax(dim=-1)
        # A token stays while the mass before it has not reached top_p, so that the most likely one always stays.
        drop_BV = probabilities_BV.cumsum(dim=-1) - probabilities_BV >= sampling.top_p
        logits_BV = logits_BV.masked_fill(torch.zeros_like(drop_BV).scatter(1, order_BV, drop_BV), -torch.inf)
    if sampling.min_p > 0.0:
        smallest_B1 = logits_BV.amax(dim=-1, keepdim=True) + math.log(sampling.min_p)
        logits_BV = logits_BV.masked_fill(logits_BV < smallest_B1, -torch.inf)
    return logits_BV


def draw(logits_BV: Tensor, uniform_B: Tensor, sampling: SamplingParams) -> tuple[Tensor, Tensor, Tensor | None]:
    """One token per row by inversion of the cumulative distribution.

    Returns:
        token_B; logp_B: its log-probability under the distribution that it was drawn from (at temperature 0, under
        the unchanged one); kept_BV: which tokens could be drawn, where that is to be recorded.
    """
    logits_BV = filtered_logits(logits_BV[:, : sampling.vocabulary], sampling)
    highest_B1 = logits_BV.amax(dim=-1, keepdim=True)
    rows, vocabulary = logits_BV.shape
    # Whole blocks, so that only sums of blocks and the tokens of one block need the accuracy of float64.
    blocks = -(-vocabulary // BLOCK)
    mass_BKX = logits_BV.new_empty(rows, blocks, BLOCK)
    mass_BV = mass_BKX.view(rows, blocks * BLOCK)
    mass_BV[:, vocabulary:] = 0.0
    torch.sub(logits_BV, highest_B1, out=mass_BV[:, :vocabulary]).exp_()
    cumulative_BK = mass_BKX.sum(dim=-1).double().cumsum(dim=-1)
    total_B1 = cumulative_BK[:, -1:]
    if sampling.temperature == 0.0:
        token_B1 = logits_BV.argmax(dim=-1, keepdim=True)
    else:
        # Below 1 by more than rounding, the first entry above the target exists and has positive probability.
        target_B1 = uniform_B.unsqueeze(1).clamp(max=LARGEST) * total_B1
        # Logits that are not numbers find no entry; what becomes of them is the trainer's to say.
        block_B1 = torch.searchsorted(cumulative_BK, target_B1, right=True).clamp_(max=blocks - 1)
        ends_B1 = cumulative_BK.gather(1, block_B1)
        before_B1 = torch.where(block_B1 > 0, cumulative_BK.gather(1, (block_B1 - 1).clamp(min=0)), 0.0)
        inside_BX = mass_BKX.gather(1, block_B1.unsqueeze(2).expand(-1, -1, BLOCK)).squeeze(1).double().cumsum(dim=-1)
        share_B1 = ((target_B1 - before_B1) / (ends_B1 - before_B1)).clamp(max=LARGEST)
        inside_B1 = torch.searchsorted(inside_BX, share_B1 * inside_BX[:, -1:], right=True)
        token_B1 = (block_B1 * BLOCK + inside_B1).clamp_(max=vocabulary - 1)
    logp_B1 = logits_BV.gather(1, token_B1) - highest_B1 - total_B1.log().to(logits_BV.dtype)
    kept_BV = logits_BV > -torch.inf if sampling.record_kept else None
    return token_B1.squeeze(1), logp_B1.squeeze(1), kept_BV
