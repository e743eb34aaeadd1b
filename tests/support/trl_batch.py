"""One batch of ragged completions, and what both trainers compute from it."""

from dataclasses import dataclass

import torch
from torch import Tensor

PAD, EOS = 0, 1


@dataclass(frozen=True)
class Batch:
    """Completions of P problems with G samples each, with all that a loss may read; over B, N and K rewards."""

    ids_N: Tensor
    lengths_B: Tensor
    rewards_BK: Tensor
    new_N: Tensor
    old_N: Tensor
    ref_N: Tensor
    sampler_N: Tensor
    entropies_N: Tensor
    samples_per_prompt: int
    longest: int


@dataclass(frozen=True)
class Gradients:
    """Loss of one optimizer step, and its gradients towards log-probabilities and entropies."""

    loss: float
    logps_N: Tensor
    entropies_N: Tensor
    advantages_B: Tensor


def make_batch(seed: int = 0) -> Batch:
    """Four problems of four samples: 1 to 9 tokens, some truncated, one group without any signal.

    Ratios to the old policy, to the reference and between engine and trainer all reach well beyond every bound.
    """
    generator = torch.Generator().manual_seed(seed)
    lengths_B = torch.tensor([3, 1, 7, 5, 9, 2, 4, 6, 1, 8, 9, 3, 5, 2, 9, 4])
    tokens, longest = int(lengths_B.sum()), int(lengths_B.max())

    def normal(spread: float) -> Tensor:
        return torch.randn(tokens, generator=generator) * spread

    ids_N = torch.randint(2, 50, (tokens,), generator=generator)
    ends_B = lengths_B.cumsum(0) - 1
    # What did not end by itself is as long as an answer may be.
    ids_N[ends_B[lengths_B < longest]] = EOS
    old_N = -torch.rand(tokens, generator=generator) * 3 - 0.05
    correctness = [1, 0, 1, 0, 0, 0, 1, 0, 1, 1, 0, 1, 0, 0, 0, 0]
    format_kept = [1, 1, 0, 0, 1, 0, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0]
    return Batch(
        ids_N=ids_N,
        lengths_B=lengths_B,
        rewards_BK=torch.tensor([correctness, format_kept], dtype=torch.float64).T,
        new_N=old_N + normal(0.35),
        old_N=old_N,
        ref_N=old_N + normal(0.5),
        sampler_N=old_N + normal(0.3),
        entropies_N=torch.rand(tokens, generator=generator) * 2,
        samples_per_prompt=4,
        longest=longest,
    )


def padded(values_N: Tensor, lengths_B: Tensor) -> Tensor:
    """The token axis as rows, padded with zeros on the right."""
    return torch.nn.utils.rnn.pad_sequence(list(values_N.split(lengths_B.tolist())), batch_first=True)
