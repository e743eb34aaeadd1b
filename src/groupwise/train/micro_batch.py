"""Groups cut into micro-batches by their tokens."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from groupwise.policy.packing import Ids, PackedBatch, SequenceGroup, pack, packed_tokens


@dataclass(frozen=True)
class TrainGroup:
    """Completions of one prompt, with what the loss needs of each.

    advantages_G: one for each completion, float64. old_logps: of each completion's tokens, under the policy that
    sampled it as the trainer is to believe it. sampler_logps: as the engine recorded them.
    """

    prompt_ids: Ids
    completion_ids: tuple[Ids, ...]
    advantages_G: NDArray[np.float64]
    old_logps: tuple[NDArray[np.float32], ...]
    sampler_logps: tuple[NDArray[np.float32], ...]

    def take(self, samples: Sequence[int]) -> "TrainGroup":
        """Only these completions, in this order."""
        return TrainGroup(
            self.prompt_ids,
            tuple(self.completion_ids[g] for g in samples),
            self.advantages_G[list(samples)],
            tuple(self.old_logps[g] for g in samples),
            tuple(self.sampler_logps[g] for g in samples),
        )


@dataclass(frozen=True)
class MicroBatch:
    """Packed sequences with the values of the loss, all in the same order."""

    packed: PackedBatch
    advantages_B: Tensor
    old_logps_N: Tensor
    sampler_logps_N: Tensor


def lengths_of(groups: Iterable[TrainGroup]) -> Tensor:
    """Tokens of every completion, in the order of the groups."""
    return torch.tensor([len(ids) for group in groups for ids in group.completion_ids], dtype=torch.int64)


def cut(groups: Sequence[TrainGroup], micro_batch_tokens: int) -> list[list[TrainGroup]]:
    """Divide groups into lists of at most `micro_batch_tokens` packed tokens.

    Groups of similar length come together, since a padded block inside of the attention is as wide as its longest
    completion. A group that is too large is divided; a sequence that is too large by itself stands alone.
    """
    ordered = sorted(groups, key=lambda group: max(len(ids) for ids in group.completion_ids))
    parts = [part for group in ordered for part in _divide(group, micro_batch_tokens)]
    batches: list[list[TrainGroup]] = []
    room = 0
    for part in parts:
        size = packed_tokens(len(part.prompt_ids), [len(ids) for ids in part.completion_ids])
        if not batches or size > room:
            batches.append([])
            room = micro_batch_tokens
        batches[-1].append(part)
        room -= size
    return batches


def _divide(group: TrainGroup, micro_batch_tokens: int) -> list[TrainGroup]:
    lengths = [len(ids) for ids in group.completion_ids]
    if packed_tokens(len(group.prompt_ids), lengths) <= micro_batch_tokens:
        return [group]
    parts: list[list[int]] = []
    room = 0
    for sample in sorted(range(len(lengths)), key=lambda g: lengths[g]):
        if not parts or lengths[sample] - 1 > room:
            parts.append([])
            room = micro_batch_tokens - len(group.prompt_ids)
        parts[-1].append(sample)
        room -= lengths[sample] - 1
    return [group.take(part) for part in parts]


def to_micro_batch(groups: Sequence[TrainGroup], device: torch.device) -> MicroBatch:
    """Pack groups with their values."""

    def joined(arrays: Iterable[NDArray[np.float32]]) -> Tensor:
        return torch.from_numpy(np.concatenate(list(arrays))).to(device)

    return MicroBatch(
        packed=pack([SequenceGroup(group.prompt_ids, group.completion_ids) for group in groups], device),
        advantages_B=torch.from_numpy(np.concatenate([group.advantages_G for group in groups])).float().to(device),
        old_logps_N=joined(logps for group in groups for logps in group.old_logps),
        sampler_logps_N=joined(logps for group in groups for logps in group.sampler_logps),
    )
