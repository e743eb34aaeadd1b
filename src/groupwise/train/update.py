"""The optimizer steps on the groups of one training step."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from groupwise.config import ObjectiveOptions, TrainConfig
from groupwise.objective.loss import LossInputs, Objective, policy_loss
from groupwise.objective.metric import Metric, merge_metrics
from groupwise.objective.reduction import StepTotals, token_weights
from groupwise.policy.load import Policy
from groupwise.policy.score import score
from groupwise.rollout.sampling import derive_seed
from groupwise.train.micro_batch import TrainGroup, cut, lengths_of, to_micro_batch
from groupwise.train.world import World


def objective_of(options: ObjectiveOptions) -> Objective:
    """The objective that the options describe."""
    return Objective(
        ratio=options.ratio, surrogate=options.surrogate, clip_low=options.clip_low, clip_high=options.clip_high
    )


def trainer_logps(
    policy: Policy, groups: Sequence[TrainGroup], temperature: float, config: TrainConfig
) -> list[TrainGroup]:
    """The same groups, with the trainer's own log-probabilities as `old_logps` instead of the engine's."""
    logps: dict[int, NDArray[np.float32]] = {}
    for micro in cut(groups, config.batch.micro_batch_tokens):
        packed = to_micro_batch(micro, policy.device).packed
        with torch.no_grad():
            logps_N, _ = score(policy, packed, temperature, config.batch.logits_chunk_tokens)
        parts = iter(logps_N.cpu().split(packed.lengths_B.tolist()))
        # `cut` sorts and divides groups but hands on their arrays, so that the order of the groups can be kept.
        logps |= {id(ids): next(parts).numpy() for group in micro for ids in group.completion_ids}
    return [replace(group, old_logps=tuple(logps[id(ids)] for ids in group.completion_ids)) for group in groups]


def minibatches(groups: Sequence[TrainGroup], config: TrainConfig, step: int) -> list[list[TrainGroup]]:
    """The groups of each optimizer step: every epoch divides them anew, in an order from (seed, step, epoch)."""
    parts: list[list[TrainGroup]] = []
    for epoch in range(config.batch.epochs_per_step):
        seed = derive_seed(config.run.seed, "minibatch", step, epoch)
        order = np.random.Generator(np.random.Philox(seed)).permutation(len(groups))
        parts += [[groups[i] for i in part] for part in np.array_split(order, config.batch.minibatches_per_step)]
    return parts


def accumulate_gradient(
    policy: Policy,
    groups: Sequence[TrainGroup],
    totals: StepTotals,
    temperature: float,
    config: TrainConfig,
) -> list[dict[str, Metric]]:
    """Add the gradient of one optimizer step's loss on this rank's groups; return the measurements of every part.

    `totals` counts all ranks. Every token's weight is fixed by it, so that no division into micro-batches or ranks
    changes the sum.
    """
    objective = objective_of(config.objective)
    constant = config.objective.constant_length_tokens or config.sampling.max_new_tokens
    measured = []
    for part in cut(groups, config.batch.micro_batch_tokens):
        micro = to_micro_batch(part, policy.device)
        lengths_B = micro.packed.lengths_B
        logps_N, entropies_N = score(policy, micro.packed, temperature, config.batch.logits_chunk_tokens)
        outputs = policy_loss(
            objective,
            LossInputs(
                new_logps_N=logps_N,
                old_logps_N=micro.old_logps_N,
                lengths_B=lengths_B,
                advantages_B=micro.advantages_B,
                weights_N=token_weights(lengths_B, config.objective.reduction, totals, constant_length=constant),
                entropy_N=entropies_N,
            ),
        )
        outputs.loss.backward()
        own = {f"policy/{name}": metric for name, metric in outputs.metrics.items()}
        measured.append({**own, **_engine_gap(logps_N, micro.sampler_logps_N)})
    return measured


def count_step(groups: Sequence[TrainGroup], world: World) -> StepTotals:
    """Sequences and tokens of an optimizer step over all ranks."""
    lengths_B = lengths_of(groups)
    sequences, tokens = world.sum([float(lengths_B.numel()), float(lengths_B.sum())])
    return StepTotals(sequences=int(sequences), tokens=int(tokens))


def optimizer_step(
    policy: Policy, optimizer: torch.optim.Optimizer, max_grad_norm: float, world: World
) -> dict[str, Metric]:
    """Sum the gradient over the ranks, clip it, and update the weights; measurements that are equal on every rank.

    A gradient that is not finite changes nothing: the update is skipped and counted.
    """
    weights = [weight for _, weight in policy.trainable()]
    for weight in weights:
        # Every rank takes part in every sum, also one that had no groups.
        weight.grad = torch.zeros_like(weight) if weight.grad is None else weight.grad
    world.sum_gradients([weight.grad for weight in weights if weight.grad is not None])
    norm = float(torch.nn.utils.clip_grad_norm_(weights, max_grad_norm))
    finite = bool(np.isfinite(norm))
    if finite:
        optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return {
        "optimizer/grad_norm": Metric(norm, "mean", float(finite)),
        "optimizer/grad_clipped": Metric(float(norm > max_grad_norm), "mean", float(finite)),
        "optimizer/skipped_share": Metric(float(not finite), "mean"),
    }


def update(
    policy: Policy,
    optimizer: torch.optim.Optimizer,
    groups: Sequence[TrainGroup],
    step: int,
    temperature: float,
    config: TrainConfig,
    world: World,
) -> dict[str, Metric]:
    """All epochs and minibatches of one training step; the merged measurements of this rank.

    Only the first optimizer step sees the policy that sampled: it measures the gap between engine and trainer.
    """
    if config.objective.old_logps == "trainer":
        groups = trainer_logps(policy, groups, temperature, config)
    measured: list[dict[str, Metric]] = []
    updates = 0
    for index, minibatch in enumerate(minibatches(groups, config, step)):
        totals = count_step(minibatch, world)
        if totals.sequences == 0:
            continue
        parts = accumulate_gradient(policy, minibatch, totals, temperature, config)
        measured += [_without_gap(part) for part in parts] if index > 0 else parts
        measured.append(optimizer_step(policy, optimizer, config.optimizer.max_grad_norm, world))
        updates += 1
    merged = {name: _per_update(metric, updates) for name, metric in merge_metrics(measured).items()}
    return {**merged, "optimizer/updates": Metric(updates, "max")}


def _without_gap(metrics: dict[str, Metric]) -> dict[str, Metric]:
    return {name: metric for name, metric in metrics.items() if not name.startswith("engine/")}


def _per_update(metric: Metric, updates: int) -> Metric:
    """Losses add up over micro-batches and ranks; over the updates of a step their mean is what can be read."""
    return Metric(metric.value / updates, "sum", metric.weight) if metric.reduction == "sum" else metric


def _engine_gap(logps_N: Tensor, sampler_logps_N: Tensor) -> dict[str, Metric]:
    """Distance of the trainer's log-probabilities to those that the engine recorded with the same weights, in nats."""
    gap_N = (logps_N.detach() - sampler_logps_N).abs()
    return {
        "engine/logp_gap_mean": Metric(gap_N.mean(), "mean", gap_N.numel()),
        "engine/logp_gap_max": Metric(gap_N.max(), "max"),
    }
