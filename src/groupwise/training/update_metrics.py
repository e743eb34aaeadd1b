"""What one pass of an update measures beside the loss: the distance to the engine, the router, the domains."""

from typing import NamedTuple

import torch
from torch import Tensor

from groupwise.model.backends.protocol import Routed
from groupwise.model.device import sent
from groupwise.model.score import Scores
from groupwise.objective.measurement import TokenMeasure, reference_metrics
from groupwise.objective.metric import Metric
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


def gap_and_entropy(gap_N: Tensor, scores: Scores) -> dict[str, Metric]:
    """Distance of the trainer's log-probabilities to those that the engine recorded with the same weights, in nats."""
    return {
        "engine/logp_gap_mean": Metric(gap_N.mean(), "mean", gap_N.numel()),
        "engine/logp_gap_max": Metric(gap_N.max(), "max"),
        "policy/entropy_at_temperature_1": Metric(scores.entropies_at_1_N.mean(), "mean", gap_N.numel()),
    }


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
