"""One step's groups: sample, grade, admit, and sample again until the step has enough groups with signal."""

import math
import time
from dataclasses import dataclass

from groupwise.config import TrainConfig
from groupwise.data.stream import ProblemStream
from groupwise.grading.graded_group import GradedGroup
from groupwise.grading.grader import Grader, PendingGroup
from groupwise.grading.reward_options import CORRECTNESS
from groupwise.model.prompt import PromptRenderer
from groupwise.ranks import Ranks
from groupwise.rollout.engine import RolloutEngine, SampleRequest, SamplingParams
from groupwise.rollout.sampling import derive_seed
from groupwise.training.advantages import group_rewards
from groupwise.training.process import process_signal

# The refill asks for as many problems as the accept rate so far suggests, but never for more than this many times the
# missing groups: the first rounds may have been unlucky.
MOST_OVERSAMPLING = 4.0


@dataclass(frozen=True)
class Collected:
    """admitted: this rank's groups to train on. sampled: all groups that this rank sampled, in order of position.

    next_position: of the stream, behind what all ranks have drawn from it. waited_seconds: for rewards, after the last
    completion was there.
    """

    admitted: list[GradedGroup]
    sampled: list[GradedGroup]
    next_position: int
    waited_seconds: float = 0.0


@dataclass(frozen=True)
class Sampler:
    """Samples and grades groups of a problem stream."""

    config: TrainConfig
    engine: RolloutEngine
    renderer: PromptRenderer
    grader: Grader
    stream: ProblemStream
    sampling: SamplingParams
    domains: tuple[str, ...] = ()
    """Of all problems; measured apart where there are several."""

    def groups(self, positions: list[int], step: int) -> list[GradedGroup]:
        """Sampled and graded groups of these positions of the stream."""
        return [self.grader.result(pending) for pending in self.submitted(positions, step)]

    def submitted(self, positions: list[int], step: int) -> list[PendingGroup]:
        """Sampled groups of these positions, each given to the grader while others are still sampled."""
        problems = [self.stream.at(position) for position in positions]
        prompts = [self.renderer.render(problem.messages) for problem in problems]
        samples = range(self.config.batch.samples_per_prompt)
        requests = [
            SampleRequest(
                prompt.ids, tuple(derive_seed(self.config.run.seed, "sample", step, position, g) for g in samples)
            )
            for position, prompt in zip(positions, prompts, strict=True)
        ]
        pending: dict[int, PendingGroup] = {}
        for index, completions in self.engine.stream(requests, self.sampling):
            pending[index] = self.grader.submit(
                positions[index], problems[index], prompts[index], completions, self.sampling.stop_ids, step
            )
        return [pending[index] for index in range(len(positions))]


def collect(sampler: Sampler, step: int, position: int, retired: frozenset[str], ranks: Ranks) -> Collected:
    """Groups for one step, from `position` of the stream on, without the problems that are retired.

    Every rank samples its share of each round, and all agree on which groups are admitted: the first
    `prompts_per_step` in order of position that pass the filter.
    """
    options, wanted = sampler.config.active_sampling, sampler.config.batch.prompts_per_step
    budget = math.floor(options.max_prompts_per_step_factor * wanted) if options.refill else wanted
    own: dict[int, GradedGroup] = {}
    admitted: list[int] = []
    asked, count, waited = 0, wanted, 0.0
    while count > 0:
        round_positions = next_positions(sampler.stream, position, count, retired)
        position = round_positions[-1] + 1
        submitted = sampler.submitted(ranks.share(round_positions), step)
        start = time.monotonic()
        own |= {pending.position: sampler.grader.result(pending) for pending in submitted}
        waited += time.monotonic() - start
        passes = ranks.sum([float(p in own and passes_filter(own[p], sampler.config)) for p in round_positions])
        admitted += [p for p, passed in zip(round_positions, passes, strict=True) if passed]
        asked += count
        missing = wanted - len(admitted)
        oversampling = min(asked / max(len(admitted), 1), MOST_OVERSAMPLING)
        count = min(math.ceil(missing * oversampling), budget - asked) if missing > 0 else 0
    return Collected(
        admitted=[own[p] for p in admitted[:wanted] if p in own],
        sampled=[own[p] for p in sorted(own)],
        next_position=position,
        waited_seconds=waited,
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
    judged = [group for group in collected.sampled if not group.failed]
    return [group.problem.id for group in judged if group.kept_right.mean() >= pass_rate]


def passes_filter(group: GradedGroup, config: TrainConfig) -> bool:
    """Whether a group is trained on: what the filter names has to differ within it, exactly, and the estimator has to
    make an advantage of it that is not 0. Scores of spans that differ are signal too, unless `correctness` is named."""
    what = config.active_sampling.filter
    if group.failed or what == "none":
        return not group.failed
    part, spans = group_rewards([group], config), process_signal(group, config)
    if spans and what != "correctness":
        return True
    match what:
        case "any_component":
            values_GX = part.components_PGK[0][:, part.weights_PK[0] != 0].numpy()
        case "total":
            values_GX = group.kept_totals[:, None]
        case _:
            values_GX = group.kept_rewards[:, [group.names_K.index(CORRECTNESS)]]
    differs = bool((values_GX.max(axis=0) != values_GX.min(axis=0)).any())
    return differs and (spans or bool(config.advantage.estimator.signal(part)[0]))
