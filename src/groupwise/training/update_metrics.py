"""What one pass of an update measures beside the loss: the distance to the engine, the router, the domains."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from groupwise.model.backends.protocol import Routed
from groupwise.model.device import sent
from groupwise.model.load import Policy
from groupwise.model.score import Scores
from groupwise.model.shards import own
from groupwise.objective.measurement import TokenMeasure, reference_metrics
from groupwise.objective.metric import Metric
from groupwise.objective.ratios.ratio import clamp_log_ratio
from groupwise.training.step_batch import StepBatch


class Gap(NamedTuple):
    """Distance in nats between trainer and engine at the sampled token `token` of an answer, counted from 0."""

    nats: float
    token: int
    answer_tokens: int
    prompt_tokens: int


def largest_gap(gap_N: Tensor, batch: StepBatch) -> Gap | None:
    """Where the distance between trainer and engine is the largest."""
    if gap_N.numel() == 0:
        return None
    nats, at = gap_N.max(dim=0)
    ends_E = batch.lengths_E.cumsum(0)
    episode = int((ends_E <= at).sum())
    length = int(batch.lengths_E[episode])
    prompt = len(batch.prompt_ids_P[int(batch.group_E[episode])])
    return Gap(float(nats), int(at) - int(ends_E[episode]) + length, length, prompt)


FIRST_PASS = ("engine/logp_gap", "policy/first_pass")
"""Metrics that mean something only as long as the weights are those that sampled."""


def first_pass_and_entropy(gap_N: Tensor, log_ratios_N: Tensor, scores: Scores) -> dict[str, Metric]:
    """Distance of the trainer's log-probabilities to those that the engine recorded with the same weights, in nats, and
    of the ratio to 1, as far as a loss goes along with it."""
    deviation = clamp_log_ratio(log_ratios_N).expm1().abs().mean()
    return {
        "policy/first_pass_ratio_deviation": Metric(deviation, "mean", gap_N.numel()),
        "engine/logp_gap_mean": Metric(gap_N.mean(), "mean", gap_N.numel()),
        "engine/logp_gap_max": Metric(gap_N.max(), "max"),
        "policy/entropy_at_temperature_1": Metric(scores.entropies_at_1_N.mean(), "mean", gap_N.numel()),
    }


def end_metrics(batch: StepBatch, weights_N: Tensor, stop_ids: tuple[int, ...]) -> dict[str, Metric]:
    """How many of the trained episodes that end with a stop id train it, so that the model learns to end."""
    last_B = torch.tensor([int(ids[-1]) for ids in batch.token_ids_B], dtype=torch.int64)
    # The last sequence of each episode.
    last_E = last_B[batch.episode_B.bincount(minlength=len(batch.lengths_E)).cumsum(0) - 1]
    ended_E = torch.isin(last_E, torch.tensor(stop_ids, dtype=torch.int64)) & batch.trained_E
    ends = sent(batch.lengths_E.cumsum(0)[ended_E] - 1, weights_N.device)
    count = int(ended_E.sum())
    return {"policy/trained_end_fraction": Metric((weights_N[ends] != 0).double().sum() / max(count, 1), "mean", count)}


def update_norm(policy: Policy, optimizer: torch.optim.Optimizer) -> dict[str, Metric]:
    """Norm of what the last step of AdamW added to the weights, from its moments: no copy of the weights is needed.

    As AdamW computes it, before it is rounded to the weights' dtype (Loshchilov and Hutter, 1711.05101, algorithm 2).
    Nothing for another optimizer, which has other moments.
    """
    if not isinstance(optimizer, torch.optim.AdamW):
        return {}
    norms = []
    for group in optimizer.param_groups:
        beta1, beta2 = group["betas"]
        # All weights of a group have done the same number of steps, which a device is not asked for.
        steps = optimizer.state[group["params"][0]]["step"]
        corrected1, corrected2 = (-torch.expm1(steps * math.log(beta)) if beta else 1.0 for beta in (beta1, beta2))
        for weight in group["params"]:
            state = optimizer.state[weight]
            added = (own(state["exp_avg_sq"]) / corrected2).sqrt_().add_(group["eps"])
            torch.div(own(state["exp_avg"]), added, out=added).mul_(-group["lr"] / corrected1)
            if group["weight_decay"]:
                # The weight was decayed before this was added to it.
                decay = group["lr"] * group["weight_decay"]
                added += (own(weight.detach()) - added) * (-decay / (1 - decay))
            norms.append(torch.linalg.vector_norm(added))
    norm = torch.linalg.vector_norm(torch.stack(norms))
    if policy.shards is not None:
        return {"optimizer/update_norm": Metric(math.sqrt(policy.shards.ranks.sum([float(norm) ** 2])[0]), "mean")}
    return {"optimizer/update_norm": Metric(norm, "mean")}


def router_metrics(routed: Routed, tokens: int) -> dict[str, Metric]:
    """How a mixture of experts divided the tokens of one pass."""
    return {
        "router/aux_loss": Metric(routed.loss.detach(), "mean", tokens),
        "router/load_max": Metric(routed.load_max, "max"),
        "router/entropy": Metric(routed.entropy, "mean", tokens),
    }


def domain_metrics(batch: StepBatch, scores: Scores) -> dict[str, Metric]:
    """Entropy and KL(π_new ‖ π_ref) of the trained tokens of each domain, in nats per token; the batch is on the CPU.

    The reference scores only what has a KL coefficient, so that a domain without one has no KL here.
    """
    domain_E = [batch.domain_P[p] for p in batch.group_E.tolist()]
    penalised = {domain for domain, beta in zip(domain_E, batch.kl_coefficient_E.tolist(), strict=True) if beta > 0}
    metrics: dict[str, Metric] = {}
    device = scores.logps_N.device
    ref_logps_N = None if batch.ref_logps_N is None else sent(batch.ref_logps_N, device)
    for domain in sorted(set(domain_E)):
        own_E = torch.tensor([name == domain for name in domain_E])
        measure = TokenMeasure(sent((batch.trained_E & own_E).repeat_interleave(batch.lengths_E), device))
        values = {"policy/entropy_at_temperature_1": measure.mean(scores.entropies_at_1_N)}
        if ref_logps_N is not None and domain in penalised:
            values |= reference_metrics(measure, scores.logps_N, ref_logps_N)
        metrics |= {f"domain/{domain}/{name}": metric for name, metric in values.items()}
    return metrics
