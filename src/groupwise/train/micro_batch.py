"""The sequences of an optimizer step, and their division into micro-batches by tokens."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from groupwise.completion import KeptSets
from groupwise.model.packing import Ids, PackedBatch, SequenceGroup, pack, packed_tokens
from groupwise.model.score import SamplingMask
from groupwise.objective.reductions.reduction import StepTotals
from groupwise.train.ranks import World

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class TrainSequence:
    """One completion with what the loss needs of it; arrays have one entry for each of its tokens.

    advantage: compared within its group. trained: False leaves it out of numerator and denominator both.
    old_logps: under the policy that sampled, as the trainer is to believe it; sampler_logps: as the engine recorded
    them; ref_logps: under the reference. kept: the sets that were sampled from. old_entropies: of the policy that
    sampled. policy_mask: False leaves a token out of the policy term. drift: coefficient of KL-Cov's penalty.
    """

    ids: Ids
    advantage: float
    old_logps: Floats
    sampler_logps: Floats
    trained: bool = True
    ref_logps: Floats | None = None
    kept: KeptSets | None = None
    old_entropies: Floats | None = None
    policy_mask: NDArray[np.bool_] | None = None
    drift: Floats | None = None


@dataclass(frozen=True)
class TrainGroup:
    """Sequences that share a prompt, and the KL coefficient of their domain."""

    prompt_ids: Ids
    sequences: tuple[TrainSequence, ...]
    kl_coefficient: float = 0.0
    domain: str = ""


@dataclass(frozen=True)
class MicroBatch:
    """Packed sequences with the values of the loss, all in the same order."""

    packed: PackedBatch
    advantages_B: Tensor
    trained_B: Tensor
    kl_coefficient_B: Tensor
    old_logps_N: Tensor
    sampler_logps_N: Tensor
    ref_logps_N: Tensor | None
    kept: SamplingMask | None
    policy_mask_N: Tensor | None
    drift_N: Tensor | None


def cut(groups: Sequence[TrainGroup], micro_batch_tokens: int) -> list[list[TrainGroup]]:
    """Divide groups into lists of at most `micro_batch_tokens` packed tokens beside their longest prompt.

    That prompt does not count, so that a group with a long one is not divided into many that each repeat it. Groups of
    similar length come together, since a padded block inside of the attention is as wide as its longest completion,
    the longest first, so that later ones fit into the memory that these leave. A group whose completions are too large
    is divided; a sequence that is too large by itself stands alone.
    """
    ordered = sorted(groups, key=lambda group: -max(len(sequence.ids) for sequence in group.sequences))
    parts = [part for group in ordered for part in _divide(group, micro_batch_tokens)]
    batches: list[list[TrainGroup]] = []
    tokens = longest = 0
    for part in parts:
        prompt = len(part.prompt_ids)
        size = packed_tokens(prompt, [len(sequence.ids) for sequence in part.sequences])
        if not batches or tokens + size - max(longest, prompt) > micro_batch_tokens:
            batches.append([])
            tokens = longest = 0
        batches[-1].append(part)
        tokens, longest = tokens + size, max(longest, prompt)
    return batches


def _divide(group: TrainGroup, micro_batch_tokens: int) -> list[TrainGroup]:
    if packed_tokens(0, [len(sequence.ids) for sequence in group.sequences]) <= micro_batch_tokens:
        return [group]
    parts: list[list[TrainSequence]] = []
    room = 0
    for sequence in sorted(group.sequences, key=lambda sequence: len(sequence.ids)):
        if not parts or len(sequence.ids) - 1 > room:
            parts.append([])
            room = micro_batch_tokens
        parts[-1].append(sequence)
        room -= len(sequence.ids) - 1
    return [replace(group, sequences=tuple(part)) for part in parts]


def count_step(groups: Sequence[TrainGroup], world: World) -> StepTotals:
    """Trained sequences, their tokens, and groups that have any, over all ranks."""
    trained = [[len(sequence.ids) for sequence in group.sequences if sequence.trained] for group in groups]
    own = [float(sum(map(len, trained))), float(sum(map(sum, trained))), float(sum(map(bool, trained)))]
    sequences, tokens, with_tokens = world.sum(own)
    return StepTotals(sequences=int(sequences), tokens=int(tokens), groups=int(with_tokens))


def to_micro_batch(groups: Sequence[TrainGroup], device: torch.device) -> MicroBatch:
    """Pack groups with their values."""
    sequences = [sequence for group in groups for sequence in group.sequences]

    def joined(arrays: Iterable[NDArray[np.generic]]) -> Tensor:
        return torch.from_numpy(np.concatenate(list(arrays))).to(device)

    def stream(of: Callable[[TrainSequence], NDArray[np.generic] | None]) -> Tensor | None:
        found = [array for sequence in sequences if (array := of(sequence)) is not None]
        return joined(found) if found else None

    kept = [sequence.kept for sequence in sequences if sequence.kept is not None]
    return MicroBatch(
        packed=pack([SequenceGroup(g.prompt_ids, tuple(s.ids for s in g.sequences)) for g in groups], device),
        advantages_B=torch.tensor([s.advantage for s in sequences], dtype=torch.float32, device=device),
        trained_B=torch.tensor([s.trained for s in sequences], device=device),
        kl_coefficient_B=torch.tensor([g.kl_coefficient for g in groups for _ in g.sequences], device=device),
        old_logps_N=joined(s.old_logps for s in sequences),
        sampler_logps_N=joined(s.sampler_logps for s in sequences),
        ref_logps_N=stream(lambda s: s.ref_logps),
        kept=SamplingMask(joined(k.ids for k in kept).long(), joined(k.counts_T for k in kept).long())
        if kept
        else None,
        policy_mask_N=stream(lambda s: s.policy_mask),
        drift_N=stream(lambda s: s.drift),
    )
