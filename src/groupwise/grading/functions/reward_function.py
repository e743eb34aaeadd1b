"""Reward functions of the user's own: each runs in worker processes that are killed when it takes too long."""

import math
import os
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from typing import Any

from groupwise.closing import Closing
from groupwise.errors import DataError
from groupwise.grading.functions.function_worker import ARGUMENTS, OF_RUN
from groupwise.grading.functions.in_process import InProcess
from groupwise.grading.functions.returned import CALLED
from groupwise.grading.functions.samples import SampleInput
from groupwise.grading.records import Span
from groupwise.grading.reward_options import FunctionOptions
from groupwise.grading.workers import Failure, Result, WorkerPool

_SHOWN_BYTES = 1 << 14


@dataclass(frozen=True, slots=True)
class FunctionScore:
    """What a function says of one completion: `value`, or why there is none; the value is NaN then.

    spans: what it scored, in the units of its option `returns`; the value is the mean of their scores then, 0 without
    any. Kinds of failure besides those of a worker process: `bad_type`, `not_finite`, `wrong_length`, `bad_span`.
    """

    problem_id: str
    value: float
    failure: Failure | None = None
    spans: tuple[Span, ...] = ()


class RewardFunction(Closing):
    """A reward function, ready to be called; close it, or use it as a context manager.

    name: of its component. workers: processes, and so the calls at one time. The function is loaded in them, never in
    this process, with the current directory on the import path. function: called in this process in place of that at
    `options.path`, without a deadline.
    """

    def __init__(
        self,
        name: str,
        options: FunctionOptions,
        *,
        workers: int = 2,
        function: Callable[..., Any] | None = None,
    ) -> None:
        self.name = name
        self.options = options
        self._pool: WorkerPool | InProcess
        if function is not None:
            self._pool = InProcess(function, name, options.call, options.returns)
            return
        self._pool = WorkerPool(
            "groupwise.grading.functions.function_worker:load",
            workers=workers,
            timeout_seconds=options.timeout_seconds,
            memory_mb=options.memory_mb,
            retries=options.retries,
            init={"path": options.path, "call": options.call, "returns": options.returns},
            paths=[os.getcwd(), *(path for path in sys.path if path)],
            output_bytes=_SHOWN_BYTES,
        )

    def submit(self, samples: Sequence[SampleInput]) -> Future[list[FunctionScore]]:
        """Judge the completions of one problem: one score for each, in their order. Failures are part of the scores."""
        scores: Future[list[FunctionScore]] = Future()
        scores.set_running_or_notify_cancel()
        calls = [samples] if samples and self.options.call == "batch" else [[sample] for sample in samples]
        payloads = [
            [{name: getattr(sample, name) for name in (*ARGUMENTS, *OF_RUN)} for sample in call] for call in calls
        ]
        futures = [self._pool.submit(payload) for payload in payloads]
        missing = len(futures)
        lock = threading.Lock()

        def arrived(_: Future[Result]) -> None:
            nonlocal missing
            with lock:
                missing -= 1
                done = missing == 0
            if not done:
                return
            try:
                pairs = zip(calls, futures, strict=True)
                scores.set_result([score for call, future in pairs for score in _scores(call, future)])
            except Exception as error:  # Nobody may wait for ever for an answer.
                scores.set_exception(error)

        if not futures:
            scores.set_result([])
        for future in futures:
            future.add_done_callback(arrived)
        return scores

    def dry_run(self, samples: Sequence[SampleInput]) -> list[FunctionScore]:
        """Judge completions before training. Raises DataError where the function cannot be loaded or fails."""
        scores = self.submit(samples).result()
        for score in scores:
            if score.failure is not None:
                raise DataError(self._complaint(score.problem_id, score.failure, len(samples)))
        return scores

    def close(self) -> None:
        """End its processes."""
        self._pool.close()

    def _complaint(self, problem_id: str, failure: Failure, count: int) -> str:
        printed = f"\nIt printed:\n{failure.output}" if failure.output else ""
        head = f"reward function {self.name!r} ({self.options.path})"
        if failure.kind == "not_started":
            return f"{head} cannot be loaded: {failure.message}{printed}"
        expected = CALLED[self.options.returns]
        if self.options.call == "batch":
            of_each = "finite numbers" if self.options.returns == "number" else f"items, each {expected}"
            expected = f"a list of {count} {of_each}"
        if not isinstance(self._pool, InProcess):
            expected += f" within {self.options.timeout_seconds:g} s and {self.options.memory_mb} MB"
        return (
            f"{head} failed on a dry run, on problem {problem_id}: {failure.kind}: {failure.message}; "
            f"expected {expected}. Fix the function, or its options under rewards.functions.{self.name}"
            f"{printed}"
        )


def _scores(samples: Sequence[SampleInput], future: Future[Result]) -> list[FunctionScore]:
    try:
        result = future.result()
    except CancelledError:
        result = Result(failure=Failure("closed", "the pool of worker processes was closed"))
    failure = result.failure
    if failure is None:
        values: list[Any] = result.value
    elif failure.data is not None:
        values = failure.data
    else:
        return [FunctionScore(sample.problem_id, math.nan, failure) for sample in samples]
    printed = failure.output if failure else ""
    return [_score(sample.problem_id, value, printed) for sample, value in zip(samples, values, strict=True)]


def _score(problem_id: str, value: Any, printed: str) -> FunctionScore:
    """A number, spans, or the kind of a failure with its message, as a worker says it."""
    match value:
        case float():
            return FunctionScore(problem_id, value)
        case {"spans": found}:
            spans = tuple(Span(*span) for span in found)
            mean = math.fsum(span.score for span in spans) / max(len(spans), 1)
            return FunctionScore(problem_id, mean, spans=spans)
        case _:
            return FunctionScore(problem_id, math.nan, Failure(value[0], value[1], printed))
