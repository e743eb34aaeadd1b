"""Episodes of a training step written out one by one, as tests vary them, and the StepBatch that they make."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedModel

from groupwise.completion import KeptSets
from groupwise.config import TrainConfig
from groupwise.model.load import Policy
from groupwise.model.packing import PackedBatch
from groupwise.model.score import Scores, score
from groupwise.objective.reductions.reduction import group_token_totals
from groupwise.ranks import Ranks
from groupwise.training import streams
from groupwise.training import update as updating
from groupwise.training.step_batch import StepBatch, count_step
from groupwise.training.streams import with_step_values
from groupwise.training.update import accumulate_gradient
from tests.support.tiny import gradients, plain_scores, policy_of, random_ids

Ids = NDArray[np.int64]
Floats = NDArray[np.float32]


REDUCTIONS = (
    "token_mean",
    "sequence_mean_token_mean",
    "sequence_mean_token_sum",
    "constant_length",
    "group_token_mean",
)
TEMPERATURE = 0.9
CONSTANT_LENGTH = 19

# 16 sequences in four ragged groups.
SHAPES = [(7, (5, 1, 9, 3, 12)), (1, (4,)), (12, (1, 1, 8)), (3, (6, 2, 2, 11, 1, 7, 15))]


@dataclass(frozen=True)
class TrainSequence:
    """One episode, or a further sequence of the one before; arrays have one entry for each of its sampled tokens.

    sampled: which of `ids` were sampled, where some are context. continues: it belongs to the episode before.
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
    sampled: NDArray[np.bool_] | None = None
    continues: bool = False
    reward: float = 0.0


@dataclass(frozen=True)
class TrainGroup:
    """Episodes that share a prompt, and the KL coefficient of their domain."""

    prompt_ids: Ids
    sequences: tuple[TrainSequence, ...]
    kl_coefficient: float = 0.0
    domain: str = ""


def sequences_of(groups: Sequence[TrainGroup]) -> list[TrainSequence]:
    return [sequence for group in groups for sequence in group.sequences]


def changed(groups: Sequence[TrainGroup], change: Callable[[TrainSequence], TrainSequence]) -> list[TrainGroup]:
    return [replace(group, sequences=tuple(map(change, group.sequences))) for group in groups]


def silenced(groups: Sequence[TrainGroup]) -> list[TrainGroup]:
    """Without any advantage, so that the policy term is 0."""
    return changed(groups, lambda sequence: replace(sequence, advantage=0.0))


def labelled(groups: Sequence[TrainGroup]) -> list[TrainGroup]:
    """With the reward 1 for a positive advantage, else 0."""
    return changed(groups, lambda sequence: replace(sequence, reward=float(sequence.advantage > 0)))


def turns_of(sampled_T: NDArray[np.bool_]) -> list[int]:
    """The sampled span that each sampled token lies in."""
    begins_T = sampled_T & ~np.concatenate([[False], sampled_T[:-1]])
    return [int(turn) for turn in np.cumsum(begins_T)[sampled_T] - 1]


def batch_of(groups: Sequence[TrainGroup]) -> StepBatch:
    """The groups as one flat record. A stream is whole or absent."""
    sequences = sequences_of(groups)

    def stream(of: Callable[[TrainSequence], NDArray[np.generic] | None]) -> Tensor | None:
        found = [array for sequence in sequences if (array := of(sequence)) is not None]
        return torch.from_numpy(np.concatenate(found)) if found else None

    def floats(of: Callable[[TrainSequence], Floats]) -> Tensor:
        return torch.from_numpy(np.concatenate([*map(of, sequences), np.empty(0, np.float32)]))

    pairs = [(p, sequence) for p, group in enumerate(groups) for sequence in group.sequences if not sequence.continues]
    lengths_B = torch.tensor([len(s.sampler_logps) for s in sequences], dtype=torch.int64)
    episode_B = torch.tensor([not s.continues for s in sequences], dtype=torch.int64).cumsum(0) - 1
    lengths_E = torch.zeros(len(pairs), dtype=torch.int64).index_add(0, episode_B, lengths_B)
    group_E = torch.tensor([p for p, _ in pairs], dtype=torch.int64)
    trained_E = torch.tensor([s.trained for _, s in pairs], dtype=torch.bool)
    sampled = tuple(np.ones(len(s.ids), dtype=bool) if s.sampled is None else s.sampled for s in sequences)
    turns: list[int] = []
    for sequence, sampled_T in zip(sequences, sampled, strict=True):
        first = turns[-1] + 1 if sequence.continues else 0
        turns += [first + turn for turn in turns_of(sampled_T)]
    kept = tuple(s.kept for s in sequences if s.kept is not None)
    advantages_B = torch.tensor([s.advantage for s in sequences], dtype=torch.float32)
    return StepBatch(
        prompt_ids_P=tuple(group.prompt_ids for group in groups),
        domain_P=tuple(group.domain for group in groups),
        group_E=group_E,
        episode_B=episode_B,
        token_ids_B=tuple(s.ids for s in sequences),
        sampled_B=sampled if any(s.sampled is not None for s in sequences) else None,
        kept_E=kept or None,
        lengths_E=lengths_E,
        group_tokens_E=group_token_totals(lengths_E, group_E, len(groups), trained_E)[group_E],
        trained_E=trained_E,
        kl_coefficient_E=torch.tensor([groups[p].kl_coefficient for p, _ in pairs], dtype=torch.float32),
        rewards_E=torch.tensor([s.reward for _, s in pairs], dtype=torch.float64),
        turn_N=torch.tensor(turns, dtype=torch.int64),
        advantages_N=advantages_B.repeat_interleave(lengths_B),
        sampler_logps_N=floats(lambda s: s.sampler_logps),
        old_logps_N=floats(lambda s: s.old_logps),
        ref_logps_N=stream(lambda s: s.ref_logps),
        old_entropies_N=stream(lambda s: s.old_entropies),
        policy_mask_N=stream(lambda s: s.policy_mask),
        drift_N=stream(lambda s: s.drift),
    )


def config_with(**sections: dict[str, Any]) -> TrainConfig:
    sections.setdefault("sampling", {"max_new_tokens": CONSTANT_LENGTH, "temperature": TEMPERATURE})
    return TrainConfig.model_validate(sections)


def config_of(micro_batch_tokens: int, reduction: str = "token_mean", **batch: Any) -> TrainConfig:
    return config_with(
        batch={"micro_batch_tokens": micro_batch_tokens, **batch},
        objective={"reduction": reduction},
        optimizer={"max_grad_norm": 1e9},
    )


def train_groups(model: PreTrainedModel, seed: int = 0, moved: float = 0.4) -> list[TrainGroup]:
    """Random groups whose old log-probabilities are up to `moved` nats away, so that both bounds of the clip bind."""
    generator = np.random.default_rng(seed)
    groups = []
    for prompt_length, lengths in SHAPES:
        prompt = random_ids(generator, prompt_length)
        completions = tuple(random_ids(generator, length) for length in lengths)
        with torch.no_grad():
            new = [plain_scores(model, prompt, ids, TEMPERATURE)[0].numpy() for ids in completions]
        old = [(row + generator.uniform(-moved, moved, len(row))).astype(np.float32) for row in new]
        sequences = (
            TrainSequence(ids, float(generator.normal()), before, row.astype(np.float32))
            for ids, before, row in zip(completions, old, new, strict=True)
        )
        groups.append(TrainGroup(prompt, tuple(sequences)))
    return groups


def reference_weights(groups: Sequence[TrainGroup], reduction: str) -> list[NDArray[np.float64]]:
    """The weight of every token, from the definitions of the reductions over the whole step."""
    weights = []
    sequences, tokens = len(sequences_of(groups)), sum(len(s.ids) for s in sequences_of(groups))
    for group in groups:
        of_group = sum(len(sequence.ids) for sequence in group.sequences)
        for length in (len(sequence.ids) for sequence in group.sequences):
            weight = {
                "token_mean": 1 / tokens,
                "sequence_mean_token_mean": 1 / (sequences * length),
                "sequence_mean_token_sum": 1 / sequences,
                "constant_length": 1 / (sequences * CONSTANT_LENGTH),
                "group_token_mean": 1 / (len(groups) * of_group),
            }[reduction]
            weights.append(np.full(length, weight))
    return weights


def reference_loss(model: PreTrainedModel, groups: Sequence[TrainGroup], reduction: str) -> Tensor:
    """PPO's clipped loss, written out sequence by sequence on the plain model."""
    weights = iter(reference_weights(groups, reduction))
    loss = torch.zeros((), dtype=torch.float64)
    for group in groups:
        for sequence in group.sequences:
            new_T, _ = plain_scores(model, group.prompt_ids, sequence.ids, TEMPERATURE)
            ratio_T = (new_T - torch.from_numpy(sequence.old_logps).double()).exp()
            clipped_T = ratio_T.clamp(1 - 0.2, 1 + 0.28)
            objective_T = torch.minimum(ratio_T * sequence.advantage, clipped_T * sequence.advantage)
            loss = loss - (torch.from_numpy(next(weights)) * objective_T).sum()
    return loss


def gradient_of(model: PreTrainedModel, groups: Sequence[TrainGroup], config: TrainConfig) -> dict[str, Tensor]:
    policy, batch = policy_of(model), batch_of(groups)
    if config.has_step_values:
        batch, _ = with_step_values(policy, batch, config, Ranks())
    accumulate_gradient(policy, batch, count_step(batch, Ranks()), config)
    return gradients(policy.model)


def lengths_scored(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The lengths of all sequences that are scored from here on."""
    seen: list[int] = []

    def noted(policy: Policy, batch: PackedBatch, *arguments: Any) -> Scores:
        seen.extend(batch.lengths_B.tolist())
        return score(policy, batch, *arguments)

    for module in (updating, streams):
        monkeypatch.setattr(module, "score", noted)
    return seen
