"""Completions that somebody wrote, graded as a configuration says."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from groupwise.completion import Completion
from groupwise.config import TrainConfig
from groupwise.grading.graded_group import GradedGroup, GradingError
from groupwise.grading.grader import Grader
from groupwise.model.load import load_policy
from groupwise.model.prompt import PromptRenderer
from groupwise.problem import CodeTests, Message, Problem, StdinTest
from tests.options.case import ByHand

loaded = functools.cache(load_policy)


@dataclass(frozen=True)
class Task:
    """A problem and answers to it: texts, or as many tokens as a number says, with the one that stops it."""

    problem: Problem
    answers: tuple[str | int | Sequence[int], ...]


@dataclass(frozen=True)
class Graded:
    """What became of the tasks; stopped: why grading ended the run."""

    groups: list[GradedGroup]
    stopped: str = ""


def task(answer: str, *answers: str | int | Sequence[int], domain: str = "math", question: str = "?") -> Task:
    """Answers to a problem with this reference answer."""
    return Task(Problem("p", (Message("user", question),), answer, domain), answers)


def code_task(outputs: Sequence[tuple[str, str]], *programs: str, answer: str = "", usual: bool = False) -> Task:
    """Programs for a problem that is tested by (standard input, standard output)."""
    tests = CodeTests(stdin=tuple(StdinTest(given, wanted) for given, wanted in outputs), usual_imports=usual)
    fenced = tuple(f"```python\n{program}\n```" for program in programs)
    return Task(Problem("p", (Message("user", "?"),), answer, "code", tests=tests), fenced)


def graded(config: TrainConfig, tasks: Sequence[Task]) -> Graded:
    """Grade all tasks, as a run does."""
    policy = loaded("bundled")
    renderer = PromptRenderer(policy.tokenizer, config.prompt)
    (stop,) = policy.stop_ids

    def completion(answer: str | int | Sequence[int]) -> Completion:
        if isinstance(answer, str):
            ids = [*policy.tokenizer.encode(answer, add_special_tokens=False), stop]
        elif isinstance(answer, int):
            ids = [*range(20, 20 + answer - 1), stop]
        else:
            ids = [*answer, stop]
        return Completion(np.array(ids), np.zeros(len(ids), dtype=np.float32), "stop", 0)

    with Grader(config, policy.tokenizer, policy.think_ids) as grader:
        pending = [
            grader.submit(
                index,
                one.problem,
                renderer.render(one.problem.messages),
                [completion(answer) for answer in one.answers],
                policy.stop_ids,
            )
            for index, one in enumerate(tasks)
        ]
        try:
            return Graded([grader.result(group) for group in pending])
        except GradingError as stopped:
            return Graded([], str(stopped))


def graded_case(by_hand: dict[str, Any], number: Callable[[Graded], Any], *tasks: Task, **more: Any) -> ByHand:
    """An option that changes what these tasks are paid."""
    return ByHand(by_hand, lambda config: number(graded(config, tasks)), **more)


def totals(result: Graded) -> list[float]:
    """What all answers are paid, task after task."""
    return [round(float(total), 6) for group in result.groups for total in group.totals_G]


def component(name: str) -> Callable[[Graded], list[float]]:
    """One reward of all answers."""

    def values(result: Graded) -> list[float]:
        columns = [group.rewards_GK[:, group.names_K.index(name)] for group in result.groups]
        return [round(float(value), 6) for column in columns for value in column]

    return values


def verdicts(result: Graded) -> list[str]:
    """What the grader of answers or programs says of each; what it was paid where a function graded it."""
    found = []
    for group in result.groups:
        for verdict, score in zip(group.verdicts_G, component("correctness")(Graded([group])), strict=True):
            found.append(str(score) if verdict is None else verdict.status)
    return found


def outcomes(result: Graded) -> list[str]:
    """What becomes of all answers: `kept`, left out alone, or with their group; or that the run is over."""
    if result.stopped:
        return ["stopped"]
    return [
        "group dropped" if group.failed else "dropped" if dropped else "kept"
        for group in result.groups
        for dropped in group.dropped_G
    ]
