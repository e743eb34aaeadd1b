"""The one record of a training step: flat arrays over its sampled tokens, built once and sliced from there on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from itertools import groupby
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from groupwise.completion import KeptSets
from groupwise.config import TrainConfig
from groupwise.grading.graded_group import GradedGroup
from groupwise.model.device import CPU, sent
from groupwise.model.packing import Ids, PackedBatch, SequenceGroup, pack
from groupwise.model.score import SamplingMask
from groupwise.objective.reductions.reduction import StepTotals, group_token_totals
from groupwise.ranks import Ranks
from groupwise.rollout.sampling import derive_seed

Episodes = NDArray[np.int64]
"""Indices of episodes of a StepBatch, in the order in which they are taken."""


@dataclass(frozen=True)
class StepBatch:
    """The episodes of this rank's groups.

    An episode is what followed a prompt: one sequence of tokens, or several where the context was rewritten between two
    turns. Its sampled tokens lie on N, episode after episode. Whatever stands between them, such as a tool's answer or
    the next question, is context: the model reads it, and no ratio, KL, entropy or engine gap sees it. Groups,
    baselines and sequence reductions count episodes, however many turns and sequences they have.

    Attributes:
        prompt_ids_P: what every sequence of a group begins with. domain_P: the group's domain.
        group_E: int64, the group of each episode; episodes of a group follow one another.
        episode_B: int64, the episode of each sequence; sequences of an episode follow one another.
        token_ids_B: what follows the prompt, sampled tokens and context; it ends with a sampled token.
        sampled_B: bool for each of these tokens; None where all of them were sampled.
        kept_E: the sets that were sampled from; None if they were not recorded.
        lengths_E: int64, sampled tokens. group_tokens_E: int64, trained tokens of the episode's group.
        trained_E: bool, False leaves an episode out of numerator and denominator both.
        kl_coefficient_E: of its domain.
        rewards_E: float64, the total reward of each, NaN where it was not judged.
        turn_N: int64, which sampled span of its episode a token belongs to.
        advantages_N: compared within the group, the same for all tokens of an episode unless each has a
            baseline or spans were scored.
        sampler_logps_N: as the engine recorded them. old_logps_N: under the policy that sampled, as the loss compares
            with them; None for those of the same pass, see `streams.with_old_logps`.
        ref_logps_N: under the reference. trainer_logps_N, old_entropies_N, square_sums_N: log π, entropy in nats and
            Σ_v π(v)² of the policy that sampled, as a pass of the trainer says; 0 for tokens that are not trained on.
        policy_mask_N: False leaves a token out of the policy term. drift_N: coefficient of KL-Cov's penalty.
        surrogate_step_N, mask_step_N: what surrogate and mask computed from the whole optimizer step, a number for
            each token or a row of them.
        position_P: of the group's problem in the stream, which orders the groups of all ranks. sample_E: int64, number
            of the episode's sample in its group.
    """

    prompt_ids_P: tuple[Ids, ...]
    domain_P: tuple[str, ...]
    group_E: Tensor
    episode_B: Tensor
    token_ids_B: tuple[Ids, ...]
    sampled_B: tuple[NDArray[np.bool_], ...] | None
    kept_E: tuple[KeptSets, ...] | None
    lengths_E: Tensor
    group_tokens_E: Tensor
    trained_E: Tensor
    kl_coefficient_E: Tensor
    rewards_E: Tensor
    turn_N: Tensor
    advantages_N: Tensor
    sampler_logps_N: Tensor
    old_logps_N: Tensor | None
    ref_logps_N: Tensor | None = None
    trainer_logps_N: Tensor | None = None
    old_entropies_N: Tensor | None = None
    square_sums_N: Tensor | None = None
    policy_mask_N: Tensor | None = None
    drift_N: Tensor | None = None
    surrogate_step_N: Tensor | None = None
    mask_step_N: Tensor | None = None
    position_P: tuple[int, ...] = ()
    sample_E: Tensor | None = None

    @property
    def behaviour_logps_N(self) -> Tensor:
        """Log-probabilities under the policy that sampled, before any pass of the trainer if there is none yet."""
        return self.sampler_logps_N if self.old_logps_N is None else self.old_logps_N

    def groups(self) -> list[Episodes]:
        """The episodes of each group that has any, in order."""
        group_E = self.group_E.tolist()
        return [np.array(list(run)) for _, run in groupby(range(len(group_E)), key=group_E.__getitem__)]

    def positions(self, ranks: Ranks) -> list[int]:
        """What orders `groups()` among those of all ranks; without positions, that groups were dealt out in turn."""
        numbers = dict.fromkeys(self.group_E.tolist())
        if ranks.size == 1 or not self.position_P:
            return [number * ranks.size + ranks.rank for number in range(len(numbers))]
        return [self.position_P[p] for p in numbers]

    def tokens_of(self, episodes: Episodes) -> Tensor:
        """Where the sampled tokens of these episodes lie on N."""
        return _within(self.lengths_E, episodes)

    def take(self, episodes: Episodes) -> StepBatch:
        """These episodes in this order; groups keep their numbers."""
        sequences_E = self.episode_B.bincount(minlength=len(self.group_E))
        order_E = torch.from_numpy(np.asarray(episodes, np.int64))
        order = {"E": order_E, "B": _within(sequences_E, episodes), "N": self.tokens_of(episodes)}

        def taken(axis: str, value: Any) -> Any:
            if value is None or axis == "P":
                return value
            return value[order[axis]] if isinstance(value, Tensor) else tuple(value[i] for i in order[axis].tolist())

        parts = {field.name: taken(field.name[-1], getattr(self, field.name)) for field in fields(self)}
        parts["episode_B"] = torch.arange(len(order_E)).repeat_interleave(sequences_E[order_E])
        return replace(self, **parts)

    def to(self, device: torch.device) -> StepBatch:
        """Its tensors on a device, see `sent`."""
        values: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(self)}
        moved = {name: sent(value, device) for name, value in values.items() if isinstance(value, Tensor)}
        return replace(self, **values | moved)

    def packed(self, device: torch.device = CPU) -> PackedBatch:
        """One row of tokens on a device, with each prompt once, the sampled tokens in the order of N."""
        made = []
        group_B = self.group_E[self.episode_B].tolist()
        for group, run in groupby(range(len(group_B)), key=group_B.__getitem__):
            own = list(run)
            sampled = None if self.sampled_B is None else tuple(self.sampled_B[b] for b in own)
            made.append(SequenceGroup(self.prompt_ids_P[group], tuple(self.token_ids_B[b] for b in own), sampled))
        return pack(made, device)

    def sampling_mask(self, device: torch.device = CPU) -> SamplingMask | None:
        """The sets that the tokens were sampled from, on a device."""
        if self.kept_E is None:
            return None
        ids, counts_N = (np.concatenate(part) for part in zip(*((k.ids, k.counts_T) for k in self.kept_E), strict=True))
        return SamplingMask(*(sent(torch.from_numpy(part), device).long() for part in (ids, counts_N)))


def step_batch(groups: Sequence[GradedGroup], advantages_PG: NDArray[np.float64], config: TrainConfig) -> StepBatch:
    """The episodes of graded groups: today one completion each. `advantages_PG` as of `advantages_of`."""
    pairs = [(p, group, completion) for p, group in enumerate(groups) for completion in group.completions]
    lengths_E = torch.tensor([len(completion.ids) for _, _, completion in pairs], dtype=torch.int64)
    group_E = torch.tensor([p for p, _, _ in pairs], dtype=torch.int64)
    trained = [group.trained(config.objective.mask_truncated) for group in groups]
    trained_E = torch.from_numpy(np.concatenate([*trained, np.empty(0, np.bool_)]))
    advantages_E = torch.from_numpy(np.concatenate([*advantages_PG, np.empty(0)])).float()
    kept = tuple(completion.kept for _, _, completion in pairs if completion.kept is not None)
    logps_N = torch.from_numpy(np.concatenate([*(c.logps for _, _, c in pairs), np.empty(0, np.float32)]))
    coefficients_P = [config.kl_coefficient_of(group.problem.domain) for group in groups]
    return StepBatch(
        prompt_ids_P=tuple(group.prompt.ids for group in groups),
        domain_P=tuple(group.problem.domain for group in groups),
        group_E=group_E,
        episode_B=torch.arange(len(pairs)),
        token_ids_B=tuple(completion.ids for _, _, completion in pairs),
        sampled_B=None,
        kept_E=kept or None,
        lengths_E=lengths_E,
        group_tokens_E=group_token_totals(lengths_E, group_E, len(groups), trained_E)[group_E],
        trained_E=trained_E,
        kl_coefficient_E=torch.tensor([coefficients_P[p] for p, _, _ in pairs], dtype=torch.float32),
        rewards_E=torch.from_numpy(np.concatenate([*(group.totals_G for group in groups), np.empty(0)])),
        turn_N=torch.zeros(len(logps_N), dtype=torch.int64),
        advantages_N=advantages_E.repeat_interleave(lengths_E),
        sampler_logps_N=logps_N,
        old_logps_N=logps_N,
        position_P=tuple(group.position for group in groups),
        sample_E=torch.tensor([g for group in groups for g in range(len(group.completions))], dtype=torch.int64),
    )


def division(groups: int, config: TrainConfig, step: int, epoch: int) -> list[NDArray[np.int64]]:
    """Which groups of a step, over all ranks, each optimizer step of an epoch has, in an order from (seed, step,
    epoch)."""
    seed = derive_seed(config.run.seed, "minibatch", step, epoch)
    order = np.random.Generator(np.random.Philox(seed)).permutation(groups)
    return np.array_split(order, config.batch.minibatches_per_step)


def count_step(batch: StepBatch, ranks: Ranks) -> StepTotals:
    """Trained episodes, their tokens, and groups that have any, over all ranks."""
    trained_E = batch.trained_E
    groups = len(batch.group_E[trained_E].unique())
    own = [float(trained_E.sum()), float(batch.lengths_E[trained_E].sum()), float(groups)]
    episodes, tokens, with_tokens = ranks.sum(own)
    return StepTotals(sequences=int(episodes), tokens=int(tokens), groups=int(with_tokens))


def micro_batches(batch: StepBatch, micro_batch_tokens: int, prompts_once: bool = True) -> list[Episodes]:
    """Divide episodes into lists that pack into at most `micro_batch_tokens` tokens besides their longest prompt.

    That prompt does not count, so that a group with a long one is not divided into many that each repeat it. Groups of
    similar length come together, since a padded block inside of the attention is as wide as its longest completion,
    the longest first, so that later ones fit into the memory that these leave. A group whose completions are too large
    is divided; an episode that is too large by itself stands alone.

    Without `prompts_once`, for a back-end that reads a prompt for each of its completions, all tokens count.
    """
    # The last token of a sequence predicts nothing and is not packed.
    inputs_B = torch.tensor([len(ids) - 1 for ids in batch.token_ids_B], dtype=torch.int64)
    prompt_E = torch.tensor([len(batch.prompt_ids_P[p]) for p in batch.group_E.tolist()], dtype=torch.int64)
    if not prompts_once:
        inputs_B, prompt_E = inputs_B + prompt_E[batch.episode_B], torch.zeros_like(prompt_E)
    sizes = torch.zeros_like(batch.lengths_E).index_add(0, batch.episode_B, inputs_B).tolist()
    ordered = sorted(batch.groups(), key=lambda episodes: -max(sizes[e] for e in episodes))
    parts = [part for episodes in ordered for part in _divided(episodes.tolist(), sizes, micro_batch_tokens)]
    made: list[list[int]] = []
    tokens = longest = 0
    for part in parts:
        prompt = int(prompt_E[part[0]])
        size = prompt + sum(sizes[e] for e in part)
        if not made or tokens + size - max(longest, prompt) > micro_batch_tokens:
            made.append([])
            tokens = longest = 0
        made[-1] += part
        tokens, longest = tokens + size, max(longest, prompt)
    return [np.array(part) for part in made]


def _divided(episodes: list[int], sizes: list[int], micro_batch_tokens: int) -> list[list[int]]:
    """The episodes of one group in parts that fit, the short ones first; whole and in order if they fit together."""
    if sum(sizes[e] for e in episodes) <= micro_batch_tokens:
        return [episodes]
    parts: list[list[int]] = []
    room = 0
    for episode in sorted(episodes, key=sizes.__getitem__):
        if not parts or sizes[episode] > room:
            parts.append([])
            room = micro_batch_tokens
        parts[-1].append(episode)
        room -= sizes[episode]
    return parts


def _within(lengths_X: Tensor, chosen: Episodes) -> Tensor:
    """Where the elements of the chosen segments lie on the axis that all segments fill end to end."""
    ends_X = lengths_X.cumsum(0).tolist()
    spans = [np.arange(ends_X[i] - int(lengths_X[i]), ends_X[i]) for i in chosen]
    return torch.from_numpy(np.concatenate([*spans, np.empty(0, np.int64)]))
