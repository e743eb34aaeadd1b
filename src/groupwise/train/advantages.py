"""From graded groups to advantages, and on to what the update trains on."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from groupwise.config import KlOptions, TrainConfig
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
from groupwise.rewards.combine import COMPONENTS, CORRECTNESS, paid, weights
from groupwise.train.grade import GradedGroup
from groupwise.train.micro_batch import TrainGroup, TrainSequence
from groupwise.train.world import World

Advantages = NDArray[np.float64]


def advantages_of(groups: Sequence[GradedGroup], config: TrainConfig, world: World) -> Advantages:
    """Advantages over P, G of this rank's admitted groups; statistics of the batch are those of all ranks."""
    options, shape = config.advantage, (len(groups), config.batch.samples_per_prompt)
    totals_PG = torch.from_numpy(np.array([group.totals_G for group in groups]).reshape(shape))
    match options.estimator:
        case "group":
            advantages_PG = group_advantages(
                totals_PG,
                baseline=options.baseline,
                scale=options.scale,
                std_ddof=options.std_ddof,
                std_epsilon=options.std_epsilon,
                batch_moments=_over_ranks(totals_PG, world) if options.scale == "batch_std" else None,
            )
        case "gdpo":
            paid_PGK = np.array([paid(group.rewards_GK, config.rewards) for group in groups])
            summed_PG = decoupled_advantages(
                torch.from_numpy(paid_PGK.reshape(*shape, len(COMPONENTS))),
                torch.from_numpy(weights(config.rewards)),
                std_ddof=options.std_ddof,
                std_epsilon=options.std_epsilon,
            )
            moments = _over_ranks(summed_PG, world)
            # Fewer than two samples in the whole step have no spread to divide by.
            advantages_PG = summed_PG
            if moments.count > 1:
                advantages_PG = whiten(summed_PG, moments, std_ddof=options.std_ddof, std_epsilon=options.std_epsilon)
        case "max_rl":
            advantages_PG = max_rl_advantages(totals_PG)
        case "pass_at_k":
            right_PG = np.array([group.rewards_GK[:, COMPONENTS.index(CORRECTNESS)] == 1.0 for group in groups])
            advantages_PG = pass_at_k_advantages(torch.from_numpy(right_PG.reshape(shape)), options.pass_k)
    if options.clip > 0:
        advantages_PG = clip_advantages(advantages_PG, options.clip)
    return advantages_PG.numpy()


def _over_ranks(values: torch.Tensor, world: World) -> Moments:
    own = Moments.of(values)
    return Moments(*world.sum([own.count, own.total, own.squares]))


def advantage_metrics(groups: Sequence[GradedGroup], advantages_PG: Advantages) -> dict[str, Metric]:
    """Mean and mean of squares of the advantages, and of the centred rewards that they were made of.

    The second says how much signal there is: after a division by the group's deviation the first is about 1 or 0.
    """
    if not groups:
        return {}
    centred_PG = np.array([group.totals_G - group.totals_G.mean() for group in groups])
    count = advantages_PG.size

    def square_mean(values: Advantages) -> Metric:
        return Metric(float(np.square(values).mean()), "mean", count)

    return {
        "advantage/mean": Metric(float(advantages_PG.mean()), "mean", count),
        "advantage/square_mean": square_mean(advantages_PG),
        "advantage/max_abs": Metric(float(np.abs(advantages_PG).max()), "max"),
        "advantage/square_mean_before_scaling": square_mean(centred_PG),
    }


def kl_coefficient(domain: str, options: KlOptions) -> float:
    """The KL coefficient of a domain."""
    return options.by_domain.get(domain, options.coefficient)


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
                trained=not (mask_truncated and completion.finish_reason == "length"),
                kept=completion.kept,
            )
            for completion, advantage in zip(group.completions, advantages_G, strict=True)
        ),
        kl_coefficient=kl_coefficient(group.problem.domain, config.kl),
    )
