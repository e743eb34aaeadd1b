"""Rewards that cannot be right: those that fail for most answers, and own functions that say the same of all."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from groupwise.config import TrainConfig
from groupwise.grading.graded_group import GradedGroup
from groupwise.grading.reward_options import CORRECTNESS, RewardOptions

# A reward fails where more than this share of its answers could not be judged.
MOST = 0.5

# So many answers with the same reward are no chance.
CONSTANT_ANSWERS = 64


class Count(NamedTuple):
    """Of a component over answers: how many, how many it could not judge, its smallest and largest value elsewhere, and
    one of its errors with the problem."""

    answers: int
    failed: int
    low: float
    high: float
    example: str


@dataclass(frozen=True)
class Problem:
    """What is wrong with a reward. option: what makes the run go on all the same."""

    text: str
    stops: bool
    option: str = ""


class Rewards:
    """What rewards have said so far."""

    def __init__(self, config: TrainConfig) -> None:
        self._config, self._options = config, config.guards
        self._failing: dict[str, int] = {}
        self._seen: dict[str, Count] = {}
        self._constant: set[str] = set()

    def counts(self, groups: Sequence[GradedGroup]) -> dict[str, Count]:
        """This rank's counts of a step by component, where the domain of the problem uses it."""
        found: dict[str, Count] = {}
        for group in groups:
            options = self._config.rewards_of(group.problem.domain)
            for name, scores in zip(group.names_K, zip(*group.scores_GK, strict=True), strict=True):
                if name != CORRECTNESS and not options.is_used(name):
                    continue
                errors = [score.detail for score in scores if score.status == "error"]
                values = [score.value for score in scores if score.status != "error"]
                example = f"{group.problem.place}: {errors[0]}" if errors else ""
                own = Count(len(scores), len(errors), *_range(values), example)
                found[name] = _added(found[name], own) if name in found else own
        return found

    def after(self, ranks: Iterable[Mapping[str, Sequence[Any]]]) -> list[Problem]:
        """What a step has shown to be wrong, from the counts of all ranks."""
        step: dict[str, Count] = {}
        for counts in ranks:
            for name, numbers in counts.items():
                count = Count(*numbers)
                step[name] = _added(step[name], count) if name in step else count
        return [
            problem
            for name, count in step.items()
            for problem in (*self._failed(name, count), *self._same(name, count))
        ]

    def _failed(self, name: str, count: Count) -> Iterable[Problem]:
        if count.failed <= MOST * count.answers:
            self._failing[name] = 0
            return
        self._failing[name] = steps = self._failing.get(name, 0) + 1
        limit = self._options.steps_of_failing_reward
        stops = 0 < limit <= steps
        if steps == 1 or stops:
            often = f", in {steps} steps in a row" if steps > 1 else ""
            text = (
                f"the reward '{name}' could not judge {count.failed} of {count.answers} answers{often}; for example "
                f"{count.example}"
            )
            yield Problem(text, stops, "guards.steps_of_failing_reward=0")

    def _same(self, name: str, count: Count) -> Iterable[Problem]:
        if not any(_is_own(name, table) for table in self._config.reward_tables().values()) or name in self._constant:
            return
        self._seen[name] = seen = _added(self._seen[name], count) if name in self._seen else count
        judged = seen.answers - seen.failed
        if seen.low == seen.high and judged >= CONSTANT_ANSWERS:
            self._constant.add(name)
            text = (
                f"the reward '{name}' gave {seen.low:g} to all {judged} answers so far: it tells nothing apart. Does "
                "its function read what the problems have?"
            )
            yield Problem(text, self._options.constant_reward == "stop", "guards.constant_reward=warn")


def _is_own(name: str, options: RewardOptions) -> bool:
    """Whether a function of the user's own gives this component."""
    return (options.correctness.grader if name == CORRECTNESS else name) in options.functions


def _range(values: Sequence[float]) -> tuple[float, float]:
    return min(values, default=math.inf), max(values, default=-math.inf)


def _added(one: Count, other: Count) -> Count:
    return Count(
        one.answers + other.answers,
        one.failed + other.failed,
        min(one.low, other.low),
        max(one.high, other.high),
        one.example or other.example,
    )
