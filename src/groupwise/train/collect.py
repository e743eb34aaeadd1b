"""One step's groups: sample, grade, admit, and sample again until the step has enough groups with signal."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from groupwise.config import TrainConfig
from groupwise.objective.metric import Metric
from groupwise.policy.load import Policy
from groupwise.policy.prompt import PromptRenderer
from groupwise.rewards.combine import COMPONENTS, CORRECTNESS, OVERLONG, payments
from groupwise.rollout.engine import RolloutEngine, SampleRequest, SamplingParams
from groupwise.rollout.sampling import derive_seed
from groupwise.tasks.stream import ProblemStream
from groupwise.train.grade import GradedGroup, Grader
from groupwise.train.world import World

Array = NDArray[np.float64]

# The refill asks for as many problems as the accept rate so far suggests, but never for more than this many times the
# missing groups: the first rounds may have been unlucky.
MOST_OVERSAMPLING = 4.0


@dataclass(frozen=True)
class Collected:
    """admitted: this rank's groups to train on. sampled: all groups that this rank sampled, in order of position.

    next_position: of the stream, behind what all ranks have drawn from it.
    """

    admitted: list[GradedGroup]
    sampled: list[GradedGroup]
    next_position: int


@dataclass(frozen=True)
class Sampler:
    """Samples and grades groups of a problem stream."""

    config: TrainConfig
    policy: Policy
    engine: RolloutEngine
    renderer: PromptRenderer
    grader: Grader
    stream: ProblemStream
    sampling: SamplingParams

    def groups(self, positions: list[int], step: int) -> list[GradedGroup]:
        """Sampled and graded groups of these positions of the stream."""
        problems = [self.stream.at(position) for position in positions]
        prompts = [self.renderer.render(problem.messages) for problem in problems]
        samples = range(self.config.batch.samples_per_prompt)
        requests = [
            SampleRequest(
                prompt.ids, tuple(derive_seed(self.config.run.seed, "sample", step, position, g) for g in samples)
            )
            for position, prompt in zip(positions, prompts, strict=True)
        ]
        completions = self.engine.generate(requests, self.sampling)
        return [
            self.grader.grade(position, problem, prompt, group, self.sampling.stop_ids)
            for position, problem, prompt, group in zip(positions, problems, prompts, completions, strict=True)
        ]


def collect(sampler: Sampler, step: int, position: int, retired: frozenset[str], world: World) -> Collected:
    """Groups for one step, from `position` of the stream on, without the problems that are retired.

    Every rank samples its share of each round, and all agree on which groups are admitted: the first
    `prompts_per_step` in order of position that pass the filter.
    """
    options, wanted = sampler.config.active_sampling, sampler.config.batch.prompts_per_step
    budget = math.floor(options.max_prompts_per_step_factor * wanted) if options.refill else wanted
    own: dict[int, GradedGroup] = {}
    admitted: list[int] = []
    asked, count = 0, wanted
    while count > 0:
        round_positions = next_positions(sampler.stream, position, count, retired)
        position = round_positions[-1] + 1
        for group in sampler.groups(world.share(round_positions), step):
            own[group.position] = group
        passes = world.sum([float(p in own and passes_filter(own[p], options.filter)) for p in round_positions])
        admitted += [p for p, passed in zip(round_positions, passes, strict=True) if passed]
        asked += count
        missing = wanted - len(admitted)
        oversampling = min(asked / max(len(admitted), 1), MOST_OVERSAMPLING)
        count = min(math.ceil(missing * oversampling), budget - asked) if missing > 0 else 0
    return Collected(
        admitted=[own[p] for p in admitted[:wanted] if p in own],
        sampled=[own[p] for p in sorted(own)],
        next_position=position,
    )


def next_positions(stream: ProblemStream, position: int, count: int, retired: frozenset[str]) -> list[int]:
    """The next `count` positions whose problems are not retired; all of them count where every problem is."""
    if not retired:
        return list(range(position, position + count))
    positions: list[int] = []
    passed = 0
    while len(positions) < count:
        # After two epochs without a problem that is left there is none.
        if stream.at(position).id not in retired or passed >= 2 * (stream.problems_per_epoch or 0):
            positions.append(position)
            passed = 0 if stream.at(position).id not in retired else passed
        else:
            passed += 1
        position += 1
    return positions


def retired_problems(collected: Collected, pass_rate: float) -> list[str]:
    """Ids of this rank's problems that were solved often enough to be drawn no more; none at a pass rate of 0."""
    if pass_rate == 0:
        return []
    solved = [(group, group.rewards_GK[:, COMPONENTS.index(CORRECTNESS)].mean()) for group in collected.sampled]
    return [group.problem.id for group, rate in solved if not group.failed and rate >= pass_rate]


def passes_filter(group: GradedGroup, what: str) -> bool:
    """Whether a group is trained on: what the filter names has to differ within it, exactly."""
    if group.failed:
        return False
    if what == "none":
        return True
    if what == "any_component":
        return bool((group.rewards_GK.max(axis=0) != group.rewards_GK.min(axis=0)).any())
    values = group.totals_G if what == "total" else group.rewards_GK[:, COMPONENTS.index(CORRECTNESS)]
    return bool(values.max() != values.min())


def accept_rate(groups: Sequence[GradedGroup], what: str) -> Metric:
    """Share of the sampled groups that pass the filter, also of those that the step had no more room for."""
    passed = sum(passes_filter(group, what) for group in groups)
    return Metric(passed / max(len(groups), 1), "mean", len(groups))


def rollout_metrics(collected: Collected, config: TrainConfig) -> dict[str, Metric]:
    """Measurements of everything sampled in a step, before any group was left out."""
    groups = [group for group in collected.sampled if not group.failed]
    metrics = {
        "groups/sampled": Metric(len(collected.sampled), "sum"),
        "groups/admitted": Metric(len(collected.admitted), "sum"),
        "groups/failed": Metric(len(collected.sampled) - len(groups), "sum"),
        "groups/wanted": Metric(config.batch.prompts_per_step, "max"),
        "groups/accept_rate": accept_rate(collected.sampled, config.active_sampling.filter),
        "tokens/sampled": Metric(float(sum(len(c.ids) for g in collected.sampled for c in g.completions)), "sum"),
    }
    for group in groups:
        _add_means(metrics, "completion", _completion_values(group))
    if not groups:
        return metrics
    totals_PG = np.stack([group.totals_G for group in groups])
    rewards_PGK = np.stack([group.rewards_GK for group in groups])
    _spread(metrics, "reward/total", totals_PG)
    payments_PGK = np.stack([payments(group.rewards_GK, config.rewards) for group in groups])
    for k, name in enumerate(COMPONENTS):
        if name == OVERLONG and config.rewards.overlong_buffer_tokens == 0:
            continue
        _spread(metrics, f"reward/{name}", rewards_PGK[:, :, k])
        metrics[f"reward/{name}/covariance_within"] = _covariance_within(payments_PGK[:, :, k], totals_PG)
    metrics["reward/total/variance_within"] = _covariance_within(totals_PG, totals_PG)
    right_PG = rewards_PGK[:, :, COMPONENTS.index(CORRECTNESS)] == 1.0
    shares = {
        "groups/all_right": right_PG.all(axis=1),
        "groups/all_wrong": ~right_PG.any(axis=1),
        # Before the filter, and of the total: what could not move the policy whatever the filter names.
        "groups/no_signal": totals_PG.max(axis=1) == totals_PG.min(axis=1),
    }
    for name, flags_P in shares.items():
        metrics[name] = Metric(float(flags_P.mean()), "mean", len(groups))
    return metrics


def with_spreads(values: dict[str, float]) -> dict[str, float]:
    """The merged measurements with what cannot be merged itself: deviations, and shares of the variance within groups.

    A component's share is its covariance with the total over the variance of the total; all shares add up to 1.
    """
    finished: dict[str, float] = {}
    for name, value in values.items():
        if "/square_mean" in name:
            variance = value - values.get(name.replace("square_mean", "mean"), 0.0) ** 2
            # What is left of equal numbers is rounding.
            finished[name.replace("square_mean", "std")] = math.sqrt(variance) if variance > 1e-14 * value else 0.0
        elif name.endswith("/covariance_within"):
            if (total := values["reward/total/variance_within"]) > 0:
                finished[name.replace("covariance_within", "variance_share")] = value / total
        elif not name.endswith("/variance_within"):
            finished[name] = value
    return finished


def _covariance_within(payment_PG: Array, totals_PG: Array) -> Metric:
    centred_PG = totals_PG - totals_PG.mean(axis=1, keepdims=True)
    return Metric(float((payment_PG * centred_PG).mean()), "mean", totals_PG.size)


def _completion_values(group: GradedGroup) -> dict[str, list[float]]:
    return {
        "tokens": [float(len(completion.ids)) for completion in group.completions],
        "truncated": [float(completion.finish_reason == "length") for completion in group.completions],
        "no_answer": [float(row[COMPONENTS.index(CORRECTNESS)].status == "no_answer") for row in group.scores_GK],
    }


def _add_means(metrics: dict[str, Metric], prefix: str, values: dict[str, list[float]]) -> None:
    for name, numbers in values.items():
        key = f"{prefix}/{name}"
        before = metrics.get(key, Metric(0.0, "mean", 0.0))
        weight = float(before.weight) + len(numbers)
        mean = (float(before.value) * float(before.weight) + math.fsum(numbers)) / weight
        metrics[key] = Metric(mean, "mean", weight)


def _spread(metrics: dict[str, Metric], key: str, rewards_PG: Array) -> None:
    """Mean, mean of squares, and the standard deviation within groups (the part of the spread that can teach)."""
    metrics[f"{key}/mean"] = Metric(float(rewards_PG.mean()), "mean", rewards_PG.size)
    metrics[f"{key}/square_mean"] = Metric(float(np.square(rewards_PG).mean()), "mean", rewards_PG.size)
    metrics[f"{key}/std_within_group"] = Metric(float(rewards_PG.std(axis=1).mean()), "mean", len(rewards_PG))
