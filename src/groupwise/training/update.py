"""The optimizer steps on the groups of one training step."""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from groupwise.config import TrainConfig
from groupwise.model.backends.router import has_router_loss
from groupwise.model.device import sent
from groupwise.model.finite import not_finite, shown
from groupwise.model.load import Policy
from groupwise.model.score import Scores, score, scoring_of
from groupwise.model.shards import together, whole
from groupwise.objective.entropy.target_bonus import TargetBonus
from groupwise.objective.loss import LossInputs, Objective, policy_loss
from groupwise.objective.metric import Metric, merge_metrics
from groupwise.objective.reductions.reduction import ReductionInputs, StepTotals
from groupwise.objective.segments import segment_sum
from groupwise.ranks import Ranks
from groupwise.rollout.sampling import derive_seed
from groupwise.training.passes import a_pass, counted, empty_pass
from groupwise.training.step_batch import StepBatch, count_step, division, micro_batches
from groupwise.training.streams import kl_cost, with_old_logps, with_ref_logps, with_selection, with_step_values
from groupwise.training.token_pass import TokenPass
from groupwise.training.update_metrics import (
    FIRST_PASS,
    Gap,
    domain_metrics,
    end_metrics,
    first_pass_and_entropy,
    largest_gap,
    router_metrics,
    update_norm,
)


@dataclass(frozen=True)
class Updated:
    """What the optimizer steps of a training step measured on this rank.

    log_ratios: of all trained tokens. faults: of each optimizer step, why it was skipped; empty where it was not. gap:
    the largest one between trainer and engine in the first optimizer step; None without tokens. passes: in order.
    """

    metrics: dict[str, Metric]
    log_ratios: NDArray[np.float32]
    faults: tuple[str, ...] = ()
    gap: Gap | None = None
    passes: tuple[TokenPass, ...] = ()


def objective_of(config: TrainConfig) -> Objective:
    """The techniques that the policy loss is made of."""
    options, kl = config.objective, config.kl
    correction, mask = config.engine_correction, config.off_policy_mask
    return Objective(options.ratio, options.surrogate, correction, mask, kl.estimator, kl.importance)


def acts_without_signal(config: TrainConfig, entropy_coefficient: float) -> bool:
    """Whether a sequence with advantage 0 still has a gradient, or is measured to steer the entropy."""
    acts = not config.objective.surrogate.needs_advantage or config.model.router_aux_coefficient > 0
    return acts or config.uses_kl or entropy_coefficient > 0 or isinstance(config.entropy.bonus, TargetBonus)


def with_gradient(batch: StepBatch, config: TrainConfig, entropy_coefficient: float) -> StepBatch:
    """The episodes that can move the weights; the others count in the denominators and are not forwarded."""
    moves_E = batch.trained_E
    if not acts_without_signal(config, entropy_coefficient) and batch.drift_N is None:
        moves_E = moves_E & (segment_sum(batch.advantages_N.abs(), batch.lengths_E) != 0)
    return batch.take(moves_E.nonzero().flatten().numpy())


def minibatches(batch: StepBatch, config: TrainConfig, step: int, ranks: Ranks) -> list[StepBatch]:
    """This rank's groups of each optimizer step: every epoch divides those of all ranks anew, see `division`."""
    groups = batch.groups()
    positions = batch.positions(ranks)
    everywhere = sorted(p for own in ranks.gather(positions) for p in own) if ranks.size > 1 else positions
    at = {position: number for number, position in enumerate(everywhere)}
    own = dict(zip([at[position] for position in positions], groups, strict=True))
    nothing = np.empty(0, np.int64)
    parts: list[StepBatch] = []
    for epoch in range(config.batch.epochs_per_step):
        divided = division(len(everywhere), config, step, epoch)
        parts += [batch.take(np.concatenate([*(own[g] for g in part if g in own), nothing])) for part in divided]
    return parts


def accumulate_gradient(
    policy: Policy, batch: StepBatch, totals: StepTotals, config: TrainConfig, entropy_coefficient: float = 0.0
) -> list[Updated]:
    """Add the gradient of one optimizer step's loss on this rank's episodes; the measurements of every part.

    `totals` counts all ranks. Every token's weight is fixed by it, so that no division into micro-batches or ranks
    changes the sum.
    """
    objective = objective_of(config)
    scoring = scoring_of(config, entropy_gradient=entropy_coefficient > 0)
    scoring = replace(scoring, router=has_router_loss(policy.model))
    moving = with_gradient(batch, config, entropy_coefficient)
    seen: list[tuple[StepBatch, dict[str, Metric]]] = []
    values_3N: list[Tensor] = []
    parts = counted(policy, micro_batches(moving, config.batch.micro_batch_tokens, policy.shares_prompts))
    for number, episodes in enumerate(parts, start=1):
        with a_pass(policy, f"micro-batch {number} of {len(parts)}"):
            if episodes is None:
                empty_pass(policy, scoring).backward()
                continue
            micro = moving.take(episodes)
            scores = score(policy, micro.packed(policy.device), scoring, micro.sampling_mask(policy.device))
            inputs = loss_inputs(micro, scores, totals, config, entropy_coefficient)
            outputs = policy_loss(objective, inputs)
            loss, by_router = outputs.loss, {}
            if scores.routed is not None:
                share = float(micro.lengths_E[micro.trained_E].sum()) / totals.tokens
                loss = loss + config.model.router_aux_coefficient * share * scores.routed.loss
                by_router = router_metrics(scores.routed, scores.logps_N.numel())
            loss.backward()
        logps_N = scores.logps_N.detach()
        by_domain = domain_metrics(micro, scores) if config.domains else {}
        gap_N = (logps_N - sent(micro.sampler_logps_N, policy.device)).abs()
        log_ratios_N = logps_N - inputs.old_logps_N
        own = first_pass_and_entropy(gap_N, log_ratios_N, scores) | end_metrics(
            micro, inputs.weights_N, policy.stop_ids
        )
        seen.append((micro, {**outputs.metrics, **own, **by_router, **by_domain}))
        values_3N.append(torch.stack([log_ratios_N, scores.entropies_N.detach().float(), gap_N]))
    # Fetched together, so that a device never waits for this process between two micro-batches.
    fetched = torch.cat(values_3N, dim=1).cpu().split([v.shape[1] for v in values_3N], dim=1) if values_3N else ()
    return [_updated(micro, metrics, own_3N) for (micro, metrics), own_3N in zip(seen, fetched, strict=True)]


def _updated(micro: StepBatch, metrics: dict[str, Metric], values_3N: Tensor) -> Updated:
    """Of one micro-batch; values_3N: log-ratios, entropies and distances to the engine, on the CPU."""
    log_ratios_N, entropies_N, gap_N = values_3N
    token_pass = TokenPass.of(micro, log_ratios_N.numpy(), entropies_N.float().numpy())
    return Updated(metrics, log_ratios_N.numpy(), gap=largest_gap(gap_N, micro), passes=(token_pass,))


def loss_inputs(
    batch: StepBatch, scores: Scores, totals: StepTotals, config: TrainConfig, entropy_coefficient: float
) -> LossInputs:
    """The inputs of the loss for one micro-batch, each token with its weight, where the scores are."""
    device, policy_reduction = scores.logps_N.device, config.objective.reduction
    inputs = ReductionInputs(batch.lengths_E, totals, config.sampling.max_new_tokens, batch.group_tokens_E)
    penalised, in_reward = config.uses_kl, config.kl.in_reward
    kl_reduction = config.kl.reduction.given(policy_reduction)
    # Weights follow from lengths that the CPU knows: a device would have to be asked for them.
    weights_N = sent(policy_reduction.token_weights(inputs, batch.trained_E), device)
    kl_weights_N = None
    if kl_reduction is not policy_reduction:
        kl_weights_N = sent(kl_reduction.token_weights(inputs, batch.trained_E), device)
    batch = batch.to(device)
    old_logps_N = scores.logps_N.detach() if batch.old_logps_N is None else batch.old_logps_N
    return LossInputs(
        new_logps_N=scores.logps_N,
        old_logps_N=old_logps_N,
        lengths_E=batch.lengths_E,
        advantages_N=batch.advantages_N,
        weights_N=weights_N,
        entropy_N=scores.entropies_N,
        ref_logps_N=batch.ref_logps_N,
        sampler_logps_N=batch.sampler_logps_N,
        kl_cost_N=kl_cost(batch, old_logps_N, config),
        policy_mask_N=batch.policy_mask_N,
        kl_coefficient_E=batch.kl_coefficient_E if penalised and not in_reward else None,
        referenced_E=batch.kl_coefficient_E > 0,
        kl_weights_N=kl_weights_N,
        entropy_coefficient=entropy_coefficient,
        drift_coefficient_N=batch.drift_N,
        surrogate_step_N=batch.surrogate_step_N,
        mask_step_N=batch.mask_step_N,
    )


def optimizer_step(
    policy: Policy,
    optimizer: torch.optim.Optimizer,
    max_grad_norm: float,
    ranks: Ranks,
    before_update: Callable[[], None] = lambda: None,
) -> tuple[dict[str, Metric], str]:
    """Sum the gradient over the ranks, clip it, and update the weights; measurements that are equal on every rank.

    Where the ranks divide the weights, the gradient is summed already.

    before_update: called when every rank has given its gradient, so that none leaves any more.

    A gradient that is not finite changes nothing: the update is skipped and counted, and why it was is said as well.
    """
    weights = [weight for _, weight in policy.trainable()]
    for weight in weights:
        # Every rank takes part in every sum, also one that had no groups.
        weight.grad = torch.zeros_like(weight) if weight.grad is None else weight.grad
    gradients = {name: weight.grad for name, weight in policy.trainable() if weight.grad is not None}
    if policy.shards is None:
        ranks.sum_gradients(list(gradients.values()))
    with together(policy, "the norm of the gradient"):
        total_norm = torch.nn.utils.get_total_norm(gradients.values())
        norm, fault = float(whole(total_norm)), ""
    before_update()
    moved: dict[str, Metric] = {}
    finite = math.isfinite(norm)
    if finite:
        torch.nn.utils.clip_grads_with_norm_(weights, max_grad_norm, total_norm)
        optimizer.step()
        moved = update_norm(policy, optimizer)
    else:
        fault = f"the gradient is not finite: {shown(not_finite(gradients.items()))}"
    optimizer.zero_grad(set_to_none=True)
    return {
        "optimizer/grad_norm": Metric(norm, "mean", float(finite)),
        **moved,
        "optimizer/grad_clipped_fraction": Metric(float(norm > max_grad_norm), "mean", float(finite)),
        "optimizer/skipped_fraction": Metric(float(not finite), "mean"),
    }, fault


def update(
    policy: Policy,
    reference: Policy | None,
    optimizer: torch.optim.Optimizer,
    batch: StepBatch,
    step: int,
    config: TrainConfig,
    ranks: Ranks,
    entropy_coefficient: float = 0.0,
    before_update: Callable[[], None] = lambda: None,
) -> Updated:
    """All epochs and minibatches of one training step.

    Only the first optimizer step sees the policy that sampled: it measures the gap between engine and trainer. A
    minibatch without any gradient on any rank is no optimizer step: momentum and weight decay would move the weights
    without a reason in the data. before_update: called before the weights are changed, each time.
    """
    batch = with_old_logps(policy, batch, config)
    if reference is not None:
        batch = with_ref_logps(reference, batch, config)
    measured: list[dict[str, Metric]] = []
    passes: list[TokenPass] = []
    log_ratios: list[NDArray[np.float32]] = []
    gaps: list[Gap] = []
    faults: list[str] = []
    for index, minibatch in enumerate(minibatches(batch, config, step, ranks)):
        totals = count_step(minibatch, ranks)
        if totals.tokens == 0:
            continue
        if config.selects_tokens:
            seed = derive_seed(config.run.seed, "covariance", step, index)
            minibatch = with_selection(minibatch, config.entropy, seed, ranks)
        if config.has_step_values:
            minibatch, step_metrics = with_step_values(policy, minibatch, config, ranks)
            measured.append(step_metrics)
        if ranks.sum([float(len(with_gradient(minibatch, config, entropy_coefficient).lengths_E))]) == [0.0]:
            continue
        parts = accumulate_gradient(policy, minibatch, totals, config, entropy_coefficient)
        measured += [part.metrics if index == 0 else _without_first_pass(part.metrics) for part in parts]
        log_ratios += [part.log_ratios for part in parts]
        passes += itertools.chain(*(part.passes for part in parts))
        gaps += [part.gap for part in parts if part.gap is not None and index == 0]
        made, fault = optimizer_step(policy, optimizer, config.optimizer.max_grad_norm, ranks, before_update)
        measured.append(made)
        faults.append(fault)
    updates = len(faults)
    merged = {name: _per_update(metric, updates) for name, metric in merge_metrics(measured).items()}
    ratios = np.concatenate(log_ratios) if log_ratios else np.empty(0, dtype=np.float32)
    gap = max(gaps, key=lambda gap: (math.isnan(gap.nats), gap.nats), default=None)
    return Updated({**merged, "optimizer/updates": Metric(updates, "max")}, ratios, tuple(faults), gap, tuple(passes))


def _without_first_pass(metrics: dict[str, Metric]) -> dict[str, Metric]:
    return {name: metric for name, metric in metrics.items() if not name.startswith(FIRST_PASS)}


def _per_update(metric: Metric, updates: int) -> Metric:
    """Losses add up over micro-batches and ranks; over the updates of a step their mean is what can be read."""
    return Metric(metric.value / updates, "sum", metric.weight) if metric.reduction == "sum" else metric
