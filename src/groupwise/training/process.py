"""From scores of spans to advantages of tokens, for the groups of a step."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from groupwise.config import TrainConfig
from groupwise.grading.graded_group import GradedGroup
from groupwise.objective.advantages.estimator import clip_advantages
from groupwise.objective.metric import Metric
from groupwise.objective.segments import segment_mean
from groupwise.training.advantages import Advantages
from groupwise.training.step_batch import StepBatch


def with_process_advantages(
    batch: StepBatch, groups: Sequence[GradedGroup], advantages_PG: Advantages, config: TrainConfig
) -> tuple[StepBatch, Advantages]:
    """The advantages of answers, with what the scores of spans add for each token; and the mean of each answer.

    batch: of these groups. Nothing changes where no function scores spans. A completion that could not be judged stays
    at 0. Groups are whole on a rank, and nothing depends on any other.
    """
    if not config.span_key:
        return batch, advantages_PG
    made = [torch.zeros(0, dtype=torch.float64)]
    for group, advantages_G in zip(groups, advantages_PG, strict=True):
        lengths_G = torch.tensor([len(completion.ids) for completion in group.completions])
        advantages_N = torch.from_numpy(advantages_G).repeat_interleave(lengths_G)
        for name, weight in config.rewards_of(group.problem.domain).span_weights.items():
            if weight != 0:
                advantages_N = advantages_N + weight * config.advantage.process.of(*spans_of(group, name), lengths_G)
        made.append(advantages_N)
    advantages_N = torch.cat(made)
    if config.advantage.clip > 0:
        advantages_N = clip_advantages(advantages_N, config.advantage.clip)
    means_PG = segment_mean(advantages_N, batch.lengths_E).numpy().reshape(advantages_PG.shape)
    return replace(batch, advantages_N=advantages_N.float()), means_PG


def spans_of(group: GradedGroup, name: str) -> tuple[Tensor, Tensor, Tensor]:
    """Over all S spans that a function scored in the completions that count: score, index of the last token, sample."""
    k = group.names_K.index(name)
    spans = [(span.score, span.end - 1, g) for g in group.kept.tolist() for span in group.scores_GK[g][k].spans]
    scores, lasts, samples = zip(*spans, strict=True) if spans else ((), (), ())
    integers = [torch.tensor(part, dtype=torch.int64) for part in (lasts, samples)]
    return torch.tensor(scores, dtype=torch.float64), integers[0], integers[1]


def process_signal(group: GradedGroup, config: TrainConfig) -> bool:
    """Whether scores of spans make an advantage that is not 0."""
    weights = config.rewards_of(group.problem.domain).span_weights
    return any(
        weight != 0 and config.advantage.process.signal(spans_of(group, name)[0]) for name, weight in weights.items()
    )


def span_counts(groups: Sequence[GradedGroup], config: TrainConfig) -> dict[str, Metric]:
    """How many spans of an answer each function scored, in the mean over the completions that count."""
    counts: dict[str, list[int]] = {}
    for group in groups:
        for name in config.rewards_of(group.problem.domain).span_weights:
            k = group.names_K.index(name)
            counts.setdefault(name, []).extend(len(group.scores_GK[g][k].spans) for g in group.kept)
    return {f"reward/{name}/spans": Metric(float(np.mean(own)), "mean", len(own)) for name, own in counts.items()}


def process_metrics(batch: StepBatch, config: TrainConfig) -> dict[str, Metric]:
    """How far the advantages of an answer's tokens are apart, in the mean over the trained answers."""
    if not config.advantages_by_token or not bool(batch.trained_E.any()):
        return {}
    means_E = segment_mean(batch.advantages_N.double(), batch.lengths_E)
    distances_N = batch.advantages_N.double() - means_E.repeat_interleave(batch.lengths_E)
    deviations_E = segment_mean(distances_N.square(), batch.lengths_E).sqrt()[batch.trained_E]
    return {"advantage/std_within_answer": Metric(float(deviations_E.mean()), "mean", len(deviations_E))}
