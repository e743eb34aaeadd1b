"""What is measured of the groups that were sampled in a step."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from groupwise.config import TrainConfig
from groupwise.grading.graded_group import GradedGroup
from groupwise.grading.reward_options import CORRECTNESS
from groupwise.grading.totals import weighted_rewards
from groupwise.objective.metric import Metric
from groupwise.training.collect import Collected, passes_filter
from groupwise.training.process import process_signal, span_counts

# One array over the graded completions of each group; groups may differ in their number.
Ragged = Sequence[NDArray[np.float64]]


def accept_rate(groups: Sequence[GradedGroup], config: TrainConfig) -> Metric:
    """Fraction of the sampled groups that pass the filter, also of those that the step had no more room for."""
    passed = sum(passes_filter(group, config) for group in groups)
    return Metric(passed / max(len(groups), 1), "mean", len(groups))


def rollout_metrics(collected: Collected, config: TrainConfig, domains: Sequence[str] = ()) -> dict[str, Metric]:
    """Measurements of everything sampled in a step, before any group was left out; those of each domain apart where
    there are several."""
    groups = [group for group in collected.sampled if not group.failed]
    metrics = {
        "groups/sampled": Metric(len(collected.sampled), "sum"),
        "groups/admitted": Metric(len(collected.admitted), "sum"),
        "groups/failed": Metric(len(collected.sampled) - len(groups), "sum"),
        "groups/wanted": Metric(config.batch.prompts_per_step, "max"),
        "groups/accept_rate": accept_rate(collected.sampled, config),
        "tokens/sampled": Metric(float(sum(len(c.ids) for g in collected.sampled for c in g.completions)), "sum"),
        **neg_logp(collected.sampled),
        **grading_metrics(collected.sampled),
        **reward_metrics(groups, config),
    }
    for domain in domains if len(domains) > 1 else ():
        sampled = [group for group in collected.sampled if group.problem.domain == domain]
        admitted = sum(group.problem.domain == domain for group in collected.admitted)
        own = {
            "groups/sampled": Metric(len(sampled), "sum"),
            "groups/admitted": Metric(admitted, "sum"),
            "groups/accept_rate": accept_rate(sampled, config),
            **neg_logp(sampled),
            **reward_metrics([group for group in sampled if not group.failed], config),
        }
        metrics |= {f"domain/{domain}/{name}": metric for name, metric in own.items()}
    return metrics


def neg_logp(groups: Sequence[GradedGroup]) -> dict[str, Metric]:
    """Mean −log p of all sampled tokens as the engine recorded it: its expectation is the entropy."""
    logps_N = np.concatenate([*(c.logps for group in groups for c in group.completions), np.empty(0, np.float32)])
    if not logps_N.size:
        return {}
    return {"completion/neg_logp": Metric(-float(logps_N.mean(dtype=np.float64)), "mean", logps_N.size)}


def grading_metrics(groups: Sequence[GradedGroup]) -> dict[str, Metric]:
    """How often each component failed, and how often the grader could not decide."""
    failed: dict[str, int] = {}
    for group in groups:
        for scores in group.scores_GK:
            for name, score in zip(group.names_K, scores, strict=True):
                failed[name] = failed.get(name, 0) + (score.status == "error")
    verdicts = [verdict.status for group in groups for verdict in group.verdicts_G if verdict is not None]
    metrics = {f"grading/{name}/failed": Metric(count, "sum") for name, count in failed.items()}
    if groups:
        metrics["grading/dropped_samples"] = Metric(float(sum(group.dropped_G.sum() for group in groups)), "sum")
    for status in ("undecided", "timeout") if verdicts else ():
        metrics[f"grading/{status}_fraction"] = Metric(verdicts.count(status) / len(verdicts), "mean", len(verdicts))
    return metrics


def reward_metrics(groups: Sequence[GradedGroup], config: TrainConfig) -> dict[str, Metric]:
    """Lengths, rewards by component and in total, and signal, of groups whose rewards did not fail."""
    if not groups:
        return {}
    metrics: dict[str, Metric] = {}
    for group in groups:
        _add_means(metrics, "completion", _completion_values(group))
    metrics |= _lengths_by_answer(groups)
    totals_P = [group.kept_totals for group in groups]
    _spread(metrics, "reward/total", totals_P)
    weighted_P = [
        weighted_rewards(group.kept_rewards, config.rewards_of(group.problem.domain), group.names_K) for group in groups
    ]
    for k, name in enumerate(groups[0].names_K):
        _spread(metrics, f"reward/{name}", [group.kept_rewards[:, k] for group in groups])
        own_P = [weighted_GK[:, k] for weighted_GK in weighted_P]
        metrics[f"reward/{name}/covariance_within"] = _covariance_within(own_P, totals_P)
    metrics |= span_counts(groups, config)
    metrics["reward/total/variance_within"] = _covariance_within(totals_P, totals_P)
    fractions = {
        "groups/all_right": [bool(group.kept_right.all()) for group in groups],
        "groups/all_wrong": [not group.kept_right.any() for group in groups],
        # Before the filter, of the total and of spans: what could not move the policy whatever the filter names.
        "groups/zero_std": [
            bool(totals_G.max() == totals_G.min()) and not process_signal(group, config)
            for group, totals_G in zip(groups, totals_P, strict=True)
        ],
    }
    for name, flags_P in fractions.items():
        metrics[name] = Metric(sum(flags_P) / len(groups), "mean", len(groups))
    return metrics


def _covariance_within(own_P: Ragged, totals_P: Ragged) -> Metric:
    products = [own_G * (totals_G - totals_G.mean()) for own_G, totals_G in zip(own_P, totals_P, strict=True)]
    return _mean(products)


def _completion_values(group: GradedGroup) -> dict[str, list[float]]:
    correctness = group.names_K.index(CORRECTNESS)
    return {
        "tokens": [float(len(completion.ids)) for completion in group.completions],
        "truncated_fraction": [float(completion.finish_reason == "length") for completion in group.completions],
        "no_answer_fraction": [float(row[correctness].status == "no_answer") for row in group.scores_GK],
    }


def _lengths_by_answer(groups: Sequence[GradedGroup]) -> dict[str, Metric]:
    """Mean lengths of right and of wrong answers; of neither where there are none."""
    right_B = np.concatenate([group.kept_right for group in groups])
    lengths_B = np.concatenate([[len(group.completions[g].ids) for g in group.kept] for group in groups])
    parts = {"completion/tokens_right": lengths_B[right_B], "completion/tokens_wrong": lengths_B[~right_B]}
    return {name: Metric(float(own.mean()), "mean", own.size) for name, own in parts.items() if own.size}


def _add_means(metrics: dict[str, Metric], prefix: str, values: dict[str, list[float]]) -> None:
    for name, numbers in values.items():
        key = f"{prefix}/{name}"
        before = metrics.get(key, Metric(0.0, "mean", 0.0))
        weight = float(before.weight) + len(numbers)
        mean = (float(before.value) * float(before.weight) + math.fsum(numbers)) / weight
        metrics[key] = Metric(mean, "mean", weight)


def _spread(metrics: dict[str, Metric], key: str, rewards_P: Ragged) -> None:
    """Mean, mean of squares, and the standard deviation within groups (what gives a gradient)."""
    metrics[f"{key}/mean"] = _mean(rewards_P)
    metrics[f"{key}/square_mean"] = _mean([np.square(rewards_G) for rewards_G in rewards_P])
    deviation = math.fsum(float(rewards_G.std()) for rewards_G in rewards_P) / len(rewards_P)
    metrics[f"{key}/std_within_group"] = Metric(deviation, "mean", len(rewards_P))


def _mean(values_P: Ragged) -> Metric:
    values = np.concatenate(values_P)
    return Metric(float(values.mean()), "mean", values.size)
