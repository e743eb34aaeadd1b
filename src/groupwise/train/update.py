"""The optimizer steps on the groups of one training step."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from groupwise.config import TrainConfig
from groupwise.model.load import Policy
from groupwise.model.score import Scores, score, scoring_of
from groupwise.objective.entropy.target_bonus import TargetBonus
from groupwise.objective.kl.kl_estimator import kl_to_go
from groupwise.objective.loss import LossInputs, Objective, policy_loss
from groupwise.objective.measurement import TokenMeasure, reference_metrics
from groupwise.objective.metric import Metric, merge_metrics
from groupwise.objective.reductions.reduction import ReductionInputs, StepTotals, group_token_totals
from groupwise.rollout.sampling import derive_seed
from groupwise.train.micro_batch import MicroBatch, TrainGroup, TrainSequence, count_step, cut, to_micro_batch
from groupwise.train.ranks import World
from groupwise.train.streams import with_reference_logps, with_selection, with_trainer_logps


@dataclass(frozen=True)
class Updated:
    """What the optimizer steps of a training step measured on this rank. log_ratios: of all trained tokens."""

    metrics: dict[str, Metric]
    log_ratios: NDArray[np.float32]


def objective_of(config: TrainConfig) -> Objective:
    """The techniques that the policy loss is made of."""
    options, kl = config.objective, config.kl
    correction, mask = config.engine_correction, config.off_policy_mask
    return Objective(options.ratio, options.surrogate, correction, mask, kl.estimator, kl.importance)


def acts_without_signal(config: TrainConfig, entropy_coefficient: float) -> bool:
    """Whether a sequence with advantage 0 still has a gradient, or is measured to steer the entropy."""
    return config.uses_kl or entropy_coefficient > 0 or isinstance(config.entropy.bonus, TargetBonus)


def with_gradient(groups: Sequence[TrainGroup], config: TrainConfig, entropy_coefficient: float) -> list[TrainGroup]:
    """The sequences that can move the weights; the others count in the denominators and are not forwarded."""
    always = acts_without_signal(config, entropy_coefficient)

    def moves(sequence: TrainSequence) -> bool:
        return sequence.trained and (always or sequence.advantage != 0 or sequence.drift is not None)

    kept = [replace(group, sequences=tuple(filter(moves, group.sequences))) for group in groups]
    return [group for group in kept if group.sequences]


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
    config: TrainConfig,
    entropy_coefficient: float = 0.0,
) -> list[Updated]:
    """Add the gradient of one optimizer step's loss on this rank's groups; the measurements of every part.

    `totals` counts all ranks. Every token's weight is fixed by it, so that no division into micro-batches or ranks
    changes the sum.
    """
    objective = objective_of(config)
    scoring = scoring_of(config, entropy_gradient=entropy_coefficient > 0)
    group_tokens = {id(s): tokens for g in groups for s, tokens in zip(g.sequences, _group_tokens(g), strict=True)}
    measured = []
    for part in cut(with_gradient(groups, config, entropy_coefficient), config.batch.micro_batch_tokens):
        micro = to_micro_batch(part, policy.device)
        scores = score(policy, micro.packed, scoring, micro.kept)
        if config.objective.old_logps == "trainer" and config.updates_per_step == 1:
            micro = replace(micro, old_logps_N=scores.logps_N.detach())
        tokens_B = torch.tensor([group_tokens[id(s)] for g in part for s in g.sequences], device=policy.device)
        outputs = policy_loss(objective, loss_inputs(micro, scores, tokens_B, totals, config, entropy_coefficient))
        outputs.loss.backward()
        log_ratios = (scores.logps_N.detach() - micro.old_logps_N).cpu().numpy()
        by_domain = domain_metrics(part, scores, micro) if config.domains else {}
        measured.append(Updated({**outputs.metrics, **_gap_and_entropy(scores, micro), **by_domain}, log_ratios))
    return measured


def loss_inputs(
    micro: MicroBatch,
    scores: Scores,
    group_tokens_B: Tensor,
    totals: StepTotals,
    config: TrainConfig,
    entropy_coefficient: float,
) -> LossInputs:
    """The inputs of the loss for one micro-batch, each token with its weight."""
    lengths_B = micro.packed.lengths_B
    policy_reduction = config.objective.reduction
    inputs = ReductionInputs(lengths_B, totals, config.sampling.max_new_tokens, group_tokens_B)
    penalised, in_reward = config.uses_kl, config.kl.in_reward
    kl_reduction = config.kl.reduction.given(policy_reduction)
    kl_cost_N = None
    if penalised and in_reward and micro.ref_logps_N is not None:
        to_go_N = kl_to_go(micro.old_logps_N, micro.ref_logps_N, lengths_B)
        kl_cost_N = micro.kl_coefficient_B.repeat_interleave(lengths_B) * to_go_N
    return LossInputs(
        new_logps_N=scores.logps_N,
        old_logps_N=micro.old_logps_N,
        lengths_E=lengths_B,
        advantages_N=micro.advantages_B.repeat_interleave(lengths_B),
        weights_N=policy_reduction.token_weights(inputs, micro.trained_B),
        entropy_N=scores.entropies_N,
        ref_logps_N=micro.ref_logps_N,
        sampler_logps_N=micro.sampler_logps_N,
        kl_cost_N=kl_cost_N,
        policy_mask_N=micro.policy_mask_N,
        kl_coefficient_E=micro.kl_coefficient_B if penalised and not in_reward else None,
        kl_weights_N=None if kl_reduction is policy_reduction else kl_reduction.token_weights(inputs, micro.trained_B),
        entropy_coefficient=entropy_coefficient,
        drift_coefficient_N=micro.drift_N,
    )


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
        "optimizer/grad_clipped_fraction": Metric(float(norm > max_grad_norm), "mean", float(finite)),
        "optimizer/skipped_fraction": Metric(float(not finite), "mean"),
    }


def update(
    policy: Policy,
    reference: Policy | None,
    optimizer: torch.optim.Optimizer,
    groups: Sequence[TrainGroup],
    step: int,
    config: TrainConfig,
    world: World,
    entropy_coefficient: float = 0.0,
) -> Updated:
    """All epochs and minibatches of one training step.

    Only the first optimizer step sees the policy that sampled: it measures the gap between engine and trainer. A
    minibatch without any gradient on any rank is no optimizer step: momentum and weight decay would move the weights
    without a reason in the data.
    """
    selects = config.selects_tokens
    rescored = config.objective.old_logps == "trainer" and config.updates_per_step > 1
    if rescored or selects:
        groups = with_trainer_logps(policy, groups, scoring_of(config), config.batch.micro_batch_tokens, rescored)
    if reference is not None:
        groups = with_reference_logps(reference, groups, scoring_of(config), config.batch.micro_batch_tokens)
    measured: list[dict[str, Metric]] = []
    log_ratios: list[NDArray[np.float32]] = []
    updates = 0
    for index, minibatch in enumerate(minibatches(groups, config, step)):
        totals = count_step(minibatch, world)
        if totals.tokens == 0:
            continue
        if selects:
            seed = derive_seed(config.run.seed, "covariance", step, index)
            minibatch = with_selection(minibatch, config.entropy, seed, world)
        if world.sum([float(len(with_gradient(minibatch, config, entropy_coefficient)))]) == [0.0]:
            continue
        parts = accumulate_gradient(policy, minibatch, totals, config, entropy_coefficient)
        measured += [part.metrics if index == 0 else _without_gap(part.metrics) for part in parts]
        log_ratios += [part.log_ratios for part in parts]
        measured.append(optimizer_step(policy, optimizer, config.optimizer.max_grad_norm, world))
        updates += 1
    merged = {name: _per_update(metric, updates) for name, metric in merge_metrics(measured).items()}
    ratios = np.concatenate(log_ratios) if log_ratios else np.empty(0, dtype=np.float32)
    return Updated({**merged, "optimizer/updates": Metric(updates, "max")}, ratios)


def _group_tokens(group: TrainGroup) -> list[int]:
    """Trained tokens of the group, once for each of its sequences."""
    lengths_G = torch.tensor([len(sequence.ids) for sequence in group.sequences], dtype=torch.int64)
    trained_G = torch.tensor([sequence.trained for sequence in group.sequences])
    total = group_token_totals(lengths_G, torch.zeros_like(lengths_G), 1, trained_G)
    return [int(total)] * len(group.sequences)


def _gap_and_entropy(scores: Scores, micro: MicroBatch) -> dict[str, Metric]:
    """Distance of the trainer's log-probabilities to those that the engine recorded with the same weights, in nats."""
    gap_N = (scores.logps_N.detach() - micro.sampler_logps_N).abs()
    return {
        "engine/logp_gap_mean": Metric(gap_N.mean(), "mean", gap_N.numel()),
        "engine/logp_gap_max": Metric(gap_N.max(), "max"),
        "policy/entropy_at_temperature_1": Metric(scores.entropies_at_1_N.mean(), "mean", gap_N.numel()),
    }


def domain_metrics(groups: Sequence[TrainGroup], scores: Scores, micro: MicroBatch) -> dict[str, Metric]:
    """Entropy and KL(π_new ‖ π_ref) of the trained tokens of each domain, in nats per token.

    The reference scores only what has a KL coefficient, so that a domain without one has no KL here.
    """
    names = [group.domain for group in groups for _ in group.sequences]
    penalised = {group.domain for group in groups if group.kl_coefficient > 0}
    metrics: dict[str, Metric] = {}
    for domain in sorted(set(names)):
        own_B = micro.trained_B & torch.tensor([name == domain for name in names], device=micro.trained_B.device)
        measure = TokenMeasure(own_B.repeat_interleave(micro.packed.lengths_B))
        values = {"policy/entropy_at_temperature_1": measure.mean(scores.entropies_at_1_N)}
        if micro.ref_logps_N is not None and domain in penalised:
            values |= reference_metrics(measure, scores.logps_N, micro.ref_logps_N)
        metrics |= {f"domain/{domain}/{name}": metric for name, metric in values.items()}
    return metrics


def _without_gap(metrics: dict[str, Metric]) -> dict[str, Metric]:
    return {name: metric for name, metric in metrics.items() if not name.startswith("engine/logp_gap")}


def _per_update(metric: Metric, updates: int) -> Metric:
    """Losses add up over micro-batches and ranks; over the updates of a step their mean is what can be read."""
    return Metric(metric.value / updates, "sum", metric.weight) if metric.reduction == "sum" else metric
