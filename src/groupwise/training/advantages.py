"""From graded groups to advantages."""

import functools
import operator
from collections.abc import Sequence
from dataclasses import astuple

import numpy as np
import torch
from numpy.typing import NDArray

from groupwise.config import TrainConfig
from groupwise.grading.graded_group import GradedGroup
from groupwise.grading.totals import rewarded, weights
from groupwise.objective.advantages.estimator import GroupRewards, Moments, clip_advantages
from groupwise.objective.metric import Metric
from groupwise.objective.segments import segment_sum
from groupwise.ranks import Ranks
from groupwise.training.step_batch import StepBatch

Advantages = NDArray[np.float64]


def advantages_of(groups: Sequence[GradedGroup], config: TrainConfig, ranks: Ranks) -> Advantages:
    """Advantages over P, G of this rank's admitted groups; statistics of the batch are those of all ranks.

    A completion that could not be judged is compared with nothing and has the advantage 0. For an estimator of tokens
    these are the rewards, see `streams.with_token_advantages`, and scores of spans are added by
    `process.with_process_advantages`. Both limit to `advantage.clip` what comes of it.
    """
    options = config.advantage
    advantages_PG = np.zeros((len(groups), config.batch.samples_per_prompt))
    # Groups with the same number of judged completions are a rectangle.
    sizes = sorted({len(group.kept) for group in groups})
    parts = [[i for i, group in enumerate(groups) if len(group.kept) == size] for size in sizes]
    rewards = [group_rewards([groups[i] for i in part], config) for part in parts]
    values = options.estimator.advantages(rewards, functools.partial(_over_ranks, ranks))
    for part, values_PG in zip(parts, values, strict=True):
        if options.clip > 0 and not config.advantages_by_token:
            values_PG = clip_advantages(values_PG, options.clip)
        for i, values_G in zip(part, values_PG.numpy(), strict=True):
            advantages_PG[i, groups[i].kept] = values_G
    return advantages_PG


def group_rewards(groups: Sequence[GradedGroup], config: TrainConfig) -> GroupRewards:
    """What an estimator compares, of groups with the same number of graded completions."""
    tables = [config.rewards_of(group.problem.domain) for group in groups]
    pairs = list(zip(groups, tables, strict=True))
    components = [rewarded(group.kept_rewards, options, group.names_K) for group, options in pairs]
    return GroupRewards(
        totals_PG=torch.from_numpy(np.array([group.kept_totals for group in groups])),
        right_PG=torch.from_numpy(np.array([group.kept_right for group in groups])),
        components_PGK=torch.from_numpy(np.array(components)),
        weights_PK=torch.from_numpy(np.array([weights(options, group.names_K) for group, options in pairs])),
        lengths_PG=torch.from_numpy(np.array([trained_tokens(group, config)[group.kept] for group in groups])),
    )


def trained_tokens(group: GradedGroup, config: TrainConfig) -> NDArray[np.int64]:
    """Over G: the tokens of each completion that are trained on."""
    lengths_G = np.array([len(completion.ids) for completion in group.completions], dtype=np.int64)
    return lengths_G * group.trained(config.objective.mask_truncated)


def _over_ranks(ranks: Ranks, parts: Sequence[torch.Tensor], times: Sequence[torch.Tensor] | None = None) -> Moments:
    def flat(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
        return torch.cat([torch.zeros(0, dtype=torch.float64), *(tensor.flatten() for tensor in tensors)])

    own = Moments.of(flat(parts), None if times is None else flat(times))
    return functools.reduce(operator.add, (Moments(*numbers) for numbers in ranks.gather(astuple(own))))


def reward_agreement(batch: StepBatch) -> dict[str, Metric]:
    """Sources of the correlation of advantages with total rewards within groups, of what is about to be trained on; an
    episode has the mean of its tokens."""
    own_E = batch.trained_E & batch.rewards_E.isfinite() & (batch.lengths_E > 0)
    if not own_E.any():
        return {}
    advantages_E = segment_sum(batch.advantages_N.double(), batch.lengths_E) / batch.lengths_E.clamp(min=1)
    count_P = batch.group_E[own_E].bincount().clamp(min=1)

    def centred(values_E: torch.Tensor) -> torch.Tensor:
        means_P = batch.group_E[own_E].bincount(values_E[own_E], minlength=len(count_P)) / count_P
        return values_E[own_E] - means_P[batch.group_E[own_E]]

    rewards_E, advantages_E = centred(batch.rewards_E), centred(advantages_E)

    def mean(values_E: torch.Tensor) -> Metric:
        return Metric(float(values_E.mean()), "mean", len(values_E))

    return {
        "advantage/reward_product": mean(advantages_E * rewards_E),
        "advantage/square_within": mean(advantages_E.square()),
        "advantage/reward_square_within": mean(rewards_E.square()),
    }


def advantage_metrics(groups: Sequence[GradedGroup], advantages_PG: Advantages) -> dict[str, Metric]:
    """Mean and mean of squares of the advantages, and of the centred rewards that they were made of.

    The second says how much signal there is: after a division by the group's deviation the first is about 1 or 0.
    """
    if not groups:
        return {}
    centred = np.concatenate([group.kept_totals - group.kept_totals.mean() for group in groups])
    advantages = np.concatenate([row_G[group.kept] for group, row_G in zip(groups, advantages_PG, strict=True)])

    def square_mean(values: Advantages) -> Metric:
        return Metric(float(np.square(values).mean()), "mean", values.size)

    return {
        "advantage/mean": Metric(float(advantages.mean()), "mean", advantages.size),
        "advantage/square_mean": square_mean(advantages),
        "advantage/max_abs": Metric(float(np.abs(advantages).max()), "max"),
        "advantage/square_mean_before_scaling": square_mean(centred),
    }
