"""Sums and means over the sequences of a flat token axis."""

import torch
from torch import Tensor


def sequence_index(lengths_B: Tensor, num_tokens: int) -> Tensor:
    """Index of the sequence that each token belongs to.

    Args:
        lengths_B: tokens of each sequence, int64; 0 is allowed.
        num_tokens: N, the sum of the lengths.

    Raises:
        ValueError: the lengths do not add up to N.
    """
    if int(lengths_B.sum()) != num_tokens:
        raise ValueError(f"lengths_B adds up to {int(lengths_B.sum())} tokens, but the token axis has {num_tokens}")
    indices_B = torch.arange(lengths_B.numel(), device=lengths_B.device)
    return torch.repeat_interleave(indices_B, lengths_B, output_size=num_tokens)


def segment_sum(values_N: Tensor, lengths_B: Tensor) -> Tensor:
    """Sum over each sequence; 0 for an empty one. Differentiable.

    The order of summation is fixed by the lengths, on every device: a scatter-add would be free to vary on a GPU.
    """
    if lengths_B.numel() == 0:
        return values_N.new_zeros(0)
    return torch.segment_reduce(values_N, "sum", lengths=lengths_B, axis=0)


def segment_mean(values_N: Tensor, lengths_B: Tensor) -> Tensor:
    """Mean over each sequence; 0 for an empty one. Differentiable."""
    return segment_sum(values_N, lengths_B) / lengths_B.clamp(min=1)


def segment_reverse_cumsum(values_N: Tensor, lengths_B: Tensor) -> Tensor:
    """For each token, the sum from it to the end of its sequence."""
    sequence_N = sequence_index(lengths_B, values_N.numel())
    # One running sum over the whole axis loses digits that float32 does not have to spare.
    running_N = values_N.double().cumsum(0)
    until_end_B = torch.cat([running_N.new_zeros(1), running_N])[lengths_B.cumsum(0)]
    return (until_end_B[sequence_N] - running_N).to(values_N.dtype) + values_N
