"""From graded groups to advantages, and on to what the update trains on."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from groupwise.config import TrainConfig
from groupwise.grading.graded_group import GradedGroup
from groupwise.grading.totals import rewarded, weights
from groupwise.objective.advantage import (
    Moments,
    clip_advantages,
    decoupled_advantages,
    group_advantages,
    max_rl_advantages,
    pass_at_k_advantages,
    whiten,
)
from groupwise.objective.metric import Metric
from groupwise.train.micro_batch import TrainGroup, TrainSequence
from groupwise.train.ranks import World

Advantages = NDArray[np.float64]


def advantages_of(groups: Sequence[GradedGroup], config: TrainConfig, world: World) -> Advantages:
    """Advantages over P, G of this rank's admitted groups; statistics of the batch are those of all ranks.

    A completion that could not be judged is compared with nothing and has the advantage 0.
    """
    options = config.advantage
    advantages_PG = np.zeros((len(groups), config.batch.samples_per_prompt))
    # Groups with the same number of judged completions are a rectangle.
    parts = [[i for i, group in enumerate(groups) if len(group.kept) == size] for size in _sizes(groups)]
    totals = [torch.from_numpy(np.array([groups[i].kept_totals for i in part])) for part in parts]
    match options.estimator:
        case "group":
            moments = _over_ranks(totals, world) if options.scale == "batch_std" else None
            values = [
                group_advantages(
                    totals_PG,
                    baseline=options.baseline,
                    scale=options.scale,
                    std_ddof=options.std_ddof,
                    std_epsilon=options.std_epsilon,
                    batch_moments=moments,
                )
                for totals_PG in totals
            ]
        case "gdpo":
            values = [_decoupled([groups[i] for i in part], config) for part in parts]
            moments = _over_ranks(values, world)
            # Fewer than two samples in the whole step have no spread to divide by.
            if moments.count > 1:
                ddof, epsilon = options.std_ddof, options.std_epsilon
                values = [whiten(summed_PG, moments, std_ddof=ddof, std_epsilon=epsilon) for summed_PG in values]
        case "max_rl":
            values = [max_rl_advantages(totals_PG) for totals_PG in totals]
        case "pass_at_k":
            right = [torch.from_numpy(np.array([groups[i].kept_right for i in part])) for part in parts]
            values = [pass_at_k_advantages(right_PG, options.pass_k) for right_PG in right]
    for part, values_PG in zip(parts, values, strict=True):
        clipped_PG = clip_advantages(values_PG, options.clip) if options.clip > 0 else values_PG
        for i, values_G in zip(part, clipped_PG.numpy(), strict=True):
            advantages_PG[i, groups[i].kept] = values_G
    return advantages_PG


def _sizes(groups: Sequence[GradedGroup]) -> list[int]:
    return sorted({len(group.kept) for group in groups})


def _decoupled(groups: Sequence[GradedGroup], config: TrainConfig) -> torch.Tensor:
    """The sums of GDPO over P, G, before the batch is whitened; each group with the weights of its domain."""
    rows = []
    for group in groups:
        options = config.rewards_of(group.problem.domain)
        rows.append(
            decoupled_advantages(
                torch.from_numpy(rewarded(group.kept_rewards, options, group.names_K)[None]),
                torch.from_numpy(weights(options, group.names_K)),
                std_ddof=config.advantage.std_ddof,
                std_epsilon=config.advantage.std_epsilon,
            )
        )
    return torch.cat(rows)


def _over_ranks(parts: Sequence[torch.Tensor], world: World) -> Moments:
    own = Moments.of(torch.cat([part.flatten() for part in parts]) if parts else torch.zeros(0, dtype=torch.float64))
    return Moments(*world.sum([own.count, own.total, own.squares]))


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


def train_group(group: GradedGroup, advantages_G: Advantages, config: TrainConfig) -> TrainGroup:
    """What the update needs of a graded group."""
    mask_truncated = config.objective.truncated == "mask"
    return TrainGroup(
        prompt_ids=group.prompt.ids,
        sequences=tuple(
            TrainSequence(
                ids=completion.ids,
                advantage=float(advantage),
                old_logps=completion.logps,
                sampler_logps=completion.logps,
                trained=not (dropped or (mask_truncated and completion.finish_reason == "length")),
                kept=completion.kept,
            )
            for completion, advantage, dropped in zip(group.completions, advantages_G, group.dropped_G, strict=True)
        ),
        kl_coefficient=config.kl_coefficient_of(group.problem.domain),
        domain=group.problem.domain,
    )
