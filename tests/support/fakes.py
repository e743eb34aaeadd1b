"""A sampler without a model: what every position of the stream earns is decided by the test."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from groupwise.completion import Completion, Prompt
from groupwise.config import TrainConfig
from groupwise.data.stream import ProblemStream
from groupwise.grading.graded_group import GradedGroup, graded_group
from groupwise.grading.records import Score
from groupwise.problem import Message, Problem
from groupwise.rollout.engine import SampleRequest, SamplingParams
from groupwise.training.collect import Sampler

# What one completion earns: its correctness and its format; None where no reward function can judge it.
Pay = tuple[float, float] | None
PayAt = Callable[[int], Sequence[Pay]]


def stream() -> ProblemStream:
    """Problems whose text is their position."""
    return ProblemStream(
        lambda position: Problem(f"p{position}", (Message("user", str(position)),), answer=str(position))
    )


class Renderer:
    """The prompt of position p is the one token p."""

    def render(self, messages: Sequence[Message]) -> Prompt:
        text = messages[-1].content
        return Prompt(np.array([int(text)]), text, opened=False)


@dataclass
class Engine:
    """Answers every seed with `length_of(position, sample)` tokens, and keeps what it was asked."""

    length_of: Callable[[int, int], int] = lambda position, sample: 3  # noqa: ARG005
    asked: list[list[SampleRequest]] = field(default_factory=list)
    version: int = 0

    def generate(self, requests: Sequence[SampleRequest], sampling: SamplingParams) -> list[list[Completion]]:
        return [completions for _, completions in sorted(self.stream(requests, sampling))]

    def stream(
        self,
        requests: Sequence[SampleRequest],
        sampling: SamplingParams,  # noqa: ARG002
    ) -> Iterator[tuple[int, list[Completion]]]:
        """The last request is complete first."""
        self.asked.append(list(requests))
        assert len(self.asked) <= 100, "a step asks without an end"
        for index, request in reversed(list(enumerate(requests))):
            position = int(request.prompt_ids[0])
            yield index, [self._answer(position, g) for g in range(len(request.seeds))]

    def load_weights(self, weights: Any, version: int) -> None:  # noqa: ARG002
        self.version = version

    def sleep(self) -> None:
        """There is nothing to give back."""

    def sample_fewer(self) -> int:
        """It has one size."""
        return 0

    def close(self) -> None:
        """Nothing was started."""

    def _answer(self, position: int, sample: int) -> Completion:
        length = self.length_of(position, sample)
        return Completion(
            ids=np.full(length, position),
            logps=np.full(length, -1.0, dtype=np.float32),
            finish_reason="length" if length > 5 else "stop",
            version=self.version,
        )

    def positions(self) -> list[list[int]]:
        """The positions of every call."""
        return [[int(request.prompt_ids[0]) for request in call] for call in self.asked]


@dataclass
class Grader:
    """Pays what the test says."""

    pay_at: PayAt
    config: TrainConfig

    def submit(
        self,
        position: int,
        problem: Problem,
        prompt: Prompt,
        completions: Sequence[Completion],
        stop_ids: Sequence[int],  # noqa: ARG002
        step: int | None = None,  # noqa: ARG002
    ) -> GradedGroup:
        assert problem.answer == str(position) == prompt.text
        pay = self.pay_at(position)
        assert len(pay) == len(completions)
        unknown = Score(float("nan"), "error", "not judged")
        return graded_group(
            position=position,
            problem=problem,
            prompt=prompt,
            completions=tuple(completions),
            texts_G=tuple("" for _ in completions),
            verdicts_G=(None,) * len(completions),
            columns={
                "correctness": [
                    unknown if earned is None else Score(earned[0], "scored" if earned[0] else "no_answer")
                    for earned in pay
                ],
                "format": [Score(0.0 if earned is None else earned[1], "scored") for earned in pay],
            },
            config=self.config,
        )

    def result(self, pending: GradedGroup) -> GradedGroup:
        return pending


def fake_sampler(config: TrainConfig, pay_at: PayAt, engine: Engine | None = None) -> Sampler:
    return Sampler(
        config=config,
        engine=engine or Engine(),
        renderer=cast(Any, Renderer()),
        grader=cast(Any, Grader(pay_at, config)),
        stream=stream(),
        sampling=SamplingParams(1.0, 8, (1,)),
    )
