"""What the sequences of a step are given before it: other log-probabilities, and what is picked out by entropy."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from groupwise.config import EntropyOptions
from groupwise.model.load import Policy
from groupwise.model.score import Scores, Scoring, score
from groupwise.objective.entropy.clip_cov import ClipCov
from groupwise.objective.entropy.covariance import Covariance, token_covariance
from groupwise.objective.entropy.kl_cov import KlCov
from groupwise.objective.entropy.top_entropy import TopEntropy
from groupwise.train.micro_batch import TrainGroup, TrainSequence, cut, to_micro_batch
from groupwise.train.ranks import World


def with_trainer_logps(
    policy: Policy, groups: Sequence[TrainGroup], scoring: Scoring, micro_batch_tokens: int, replace_old: bool
) -> list[TrainGroup]:
    """A pass of the policy that sampled: its entropies and, if `replace_old`, its log-probabilities as `old_logps`."""

    def note(sequence: TrainSequence, logps: Tensor, entropies: Tensor) -> TrainSequence:
        old = logps.numpy() if replace_old else sequence.old_logps
        return replace(sequence, old_logps=old, old_entropies=entropies.numpy())

    return _scored(policy, groups, scoring, micro_batch_tokens, note)


def with_reference_logps(
    reference: Policy, groups: Sequence[TrainGroup], scoring: Scoring, micro_batch_tokens: int
) -> list[TrainGroup]:
    """A pass of the reference, for the groups that have a KL coefficient."""
    penalised = [group for group in groups if group.kl_coefficient > 0]

    def note(sequence: TrainSequence, logps: Tensor, _: Tensor) -> TrainSequence:
        return replace(sequence, ref_logps=logps.numpy())

    scored = iter(_scored(reference, penalised, scoring, micro_batch_tokens, note))
    # A stream is whole or absent within a micro-batch: groups without a penalty get the policy's own values, whose
    # KL is multiplied by 0 anyway.
    return [
        next(scored)
        if group.kl_coefficient > 0
        else replace(group, sequences=tuple(replace(s, ref_logps=s.old_logps) for s in group.sequences))
        for group in groups
    ]


def _scored(
    policy: Policy,
    groups: Sequence[TrainGroup],
    scoring: Scoring,
    micro_batch_tokens: int,
    note: Callable[[TrainSequence, Tensor, Tensor], TrainSequence],
) -> list[TrainGroup]:
    noted: dict[int, TrainSequence] = {}
    trained = [replace(g, sequences=tuple(s for s in g.sequences if s.trained)) for g in groups]
    for part in cut([group for group in trained if group.sequences], micro_batch_tokens):
        micro = to_micro_batch(part, policy.device)
        with torch.no_grad():
            scores: Scores = score(policy, micro.packed, scoring, micro.kept)
        lengths = micro.packed.lengths_B.tolist()
        values = zip(scores.logps_N.cpu().split(lengths), scores.entropies_N.cpu().split(lengths), strict=True)
        # `cut` sorts and divides groups; what comes back are the groups as they were, so that neither minibatches nor
        # the tokens of a group depend on the size of a micro-batch.
        noted |= {id(s): note(s, *next(values)) for g in part for s in g.sequences}
    return [replace(g, sequences=tuple(noted.get(id(s), s) for s in g.sequences)) for g in groups]


def with_selection(groups: Sequence[TrainGroup], options: EntropyOptions, seed: int, world: World) -> list[TrainGroup]:
    """Which tokens of one optimizer step the policy term acts on, by the entropies and covariances of the old policy.

    Picked from all tokens of the optimizer step over all ranks, so that no division changes the choice.
    """
    sequences = [sequence for group in groups for sequence in group.sequences if sequence.trained]
    lengths = [len(sequence.ids) for sequence in sequences]
    own = slice_of(world, sum(lengths))
    keep_N = np.ones(sum(lengths), dtype=bool)
    drift_N = np.zeros(sum(lengths), dtype=np.float32)
    covariance = options.covariance
    if isinstance(options.tokens, TopEntropy):
        entropies = [s.old_entropies for s in sequences if s.old_entropies is not None]
        everywhere_N = gathered(entropies, world)
        threshold = float(options.tokens.threshold(everywhere_N))
        keep_N &= (everywhere_N >= threshold).numpy()[own]
    if isinstance(covariance, Covariance):
        logps_N = gathered([s.old_logps for s in sequences], world)
        advantages_N = gathered([np.full(len(s.ids), s.advantage, dtype=np.float32) for s in sequences], world)
        covariance_N = token_covariance(logps_N.double(), advantages_N.double())
        if isinstance(covariance, ClipCov):
            keep_N &= ~covariance.selected(covariance_N, torch.Generator().manual_seed(seed)).numpy()[own]
        elif isinstance(covariance, KlCov):
            drift_N[covariance.selected(covariance_N).numpy()[own]] = covariance.coefficient
    ends = np.cumsum(lengths, dtype=np.int64)
    picked = {
        id(s): (keep_N[end - len(s.ids) : end], drift_N[end - len(s.ids) : end])
        for s, end in zip(sequences, ends, strict=True)
    }

    def note(sequence: TrainSequence) -> TrainSequence:
        size = len(sequence.ids)
        keep, drift = picked.get(id(sequence), (np.zeros(size, dtype=bool), np.zeros(size, dtype=np.float32)))
        return replace(sequence, policy_mask=keep, drift=drift if isinstance(covariance, KlCov) else None)

    return [replace(group, sequences=tuple(map(note, group.sequences))) for group in groups]


def slice_of(world: World, own_tokens: int) -> slice:
    """Where this rank's tokens are among those of all ranks."""
    counts = [int(count) for count in world.gather(own_tokens)]
    start = sum(counts[: world.rank])
    return slice(start, start + own_tokens)


def gathered(arrays: Sequence[NDArray[np.float32]], world: World) -> Tensor:
    """The values of all ranks end to end, in the order of the ranks."""
    own = np.concatenate(arrays) if arrays else np.empty(0, dtype=np.float32)
    parts = world.gather(own.tolist()) if world.size > 1 else [own]
    return torch.from_numpy(np.concatenate([np.asarray(part, dtype=np.float32) for part in parts]))
