"""Sums and means over the segments (episodes, sequences) of a flat token axis."""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupwise.lazy import torch

if TYPE_CHECKING:
    from torch import Tensor


def segment_index(lengths_E: Tensor, num_tokens: int) -> Tensor:
    """Index of the segment that each token belongs to.

    Args:
        lengths_E: tokens of each segment, int64; 0 is allowed.
        num_tokens: N, the sum of the lengths.

    Raises:
        ValueError: the lengths do not add up to N.
    """
    # On a device the process would have to wait for the answer; what is there was checked on the CPU.
    if lengths_E.device.type == "cpu" and int(lengths_E.sum()) != num_tokens:
        raise ValueError(f"lengths_E adds up to {int(lengths_E.sum())} tokens, but the token axis has {num_tokens}")
    indices_E = torch.arange(lengths_E.numel(), device=lengths_E.device)
    return torch.repeat_interleave(indices_E, lengths_E, output_size=num_tokens)


def segment_sum(values_N: Tensor, lengths_E: Tensor) -> Tensor:
    """Sum over each segment; 0 for an empty one. Differentiable.

    The order of summation is fixed by the lengths, on every device: a scatter-add would be free to vary on a GPU.
    """
    if lengths_E.numel() == 0:
        return values_N.new_zeros(0)
    return torch.segment_reduce(values_N, "sum", lengths=lengths_E, axis=0)


def segment_mean(values_N: Tensor, lengths_E: Tensor) -> Tensor:
    """Mean over each segment; 0 for an empty one. Differentiable."""
    return segment_sum(values_N, lengths_E) / lengths_E.clamp(min=1)


def segment_reverse_cumsum(values_N: Tensor, lengths_E: Tensor) -> Tensor:
    """For each token, the sum from it to the end of its segment."""
    segment_N = segment_index(lengths_E, values_N.numel())
    # One running sum over the whole axis loses digits that float32 does not have to spare.
    running_N = values_N.double().cumsum(0)
    until_end_E = torch.cat([running_N.new_zeros(1), running_N])[lengths_E.cumsum(0)]
    return (until_end_E[segment_N] - running_N).to(values_N.dtype) + values_N


def segment_discounted_to_go(values_N: Tensor, lengths_E: Tensor, discount: float) -> Tensor:
    """For each token t, Σ_{k≥t} discount^(k-t)·values_k over its segment: by doubling, in log2(longest) passes."""
    segment_N, sums_N = segment_index(lengths_E, values_N.numel()), values_N
    shift, longest = 1, int(lengths_E.max()) if lengths_E.numel() else 0
    while shift < longest:
        same_N = segment_N[shift:] == segment_N[:-shift]
        further_N = (discount**shift * sums_N[shift:]).where(same_N, 0.0)
        sums_N = sums_N + torch.cat([further_N, further_N.new_zeros(shift)])
        shift *= 2
    return sums_N
