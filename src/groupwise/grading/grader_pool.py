"""The graders of answers and programs, and the user's reward functions, with the processes that they run in."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Literal

from groupwise.closing import Closing
from groupwise.errors import DataError
from groupwise.grading.as_written import grade_literal
from groupwise.grading.code.code_grader import grade_code
from groupwise.grading.components.correctness import CodeOptions, Correctness
from groupwise.grading.functions.columns import unknown_columns
from groupwise.grading.functions.in_process import IN_PROCESS
from groupwise.grading.functions.reward_function import FunctionScore, RewardFunction
from groupwise.grading.functions.samples import SampleInput, place_in_run, row_of
from groupwise.grading.math.extract import extract
from groupwise.grading.math.math_grader import grade
from groupwise.grading.math.math_options import MathOptions
from groupwise.grading.math.math_verify import SecondGrader
from groupwise.grading.records import Response, Score, Verdict
from groupwise.grading.reward_options import FunctionOptions
from groupwise.grading.sandbox.open import open_sandbox
from groupwise.grading.sandbox.sandbox import Sandbox
from groupwise.grading.source_scorer import SourceScorer
from groupwise.problem import CodeTests, Problem

if TYPE_CHECKING:
    from groupwise.config import TrainConfig

GraderKind = Literal["math", "number", "code", "literal", "scorer", "function"]


class GraderPool(Closing):
    """The graders that a configuration needs. Workers start when they are first asked, and end with `close`.

    objects: the reward functions whose path is `object:NAME`, by name.
    """

    def __init__(self, config: TrainConfig, objects: Mapping[str, Callable[..., Any]] | None = None) -> None:
        self._config = config
        self._objects = objects or {}
        self._workers = config.grading.workers or os.cpu_count() or 1
        self._open = ExitStack()
        self._functions: dict[tuple[object, ...], RewardFunction] = {}
        self._sandbox: Sandbox | None = None
        self._threads: ThreadPoolExecutor | None = None
        self._second: SecondGrader | None = None
        self._scorers: dict[str, SourceScorer] = {}

    @property
    def sandbox_name(self) -> str:
        """The sandbox that is in use; empty for none."""
        return self._sandbox.name if self._sandbox is not None else ""

    def check(self, problems: Sequence[Problem], encode: Callable[[str], list[int]]) -> list[str]:
        """Open everything that these problems need, and call every reward function once; remarks for people.

        Raises:
            DataError: if no sandbox works, a package is missing, or a reward function fails.
        """
        remarks: list[str] = []
        for domain in sorted({problem.domain for problem in problems}):
            options = self._config.rewards_of(domain)
            of_domain = [problem for problem in problems if problem.domain == domain]
            kinds = {kind_of(problem, options.correctness) for problem in of_domain}
            if "code" in kinds:
                for problem in of_domain:
                    if options.correctness.grader == "code" and not problem.tests:
                        raise DataError(f"{problem.place}: the grader is 'code', and it has no tests")
                remarks += _about(self._code_sandbox(), f"programs of the domain {domain}")
            if "scorer" in kinds:
                for target in {problem.scorer for problem in of_domain if problem.scorer}:
                    self._scorer(target)
                remarks += _about(self._code_sandbox(), f"the scorers of the domain {domain}")
            if options.correctness.second_grader != "none" and "math" in kinds:
                remarks.append(f"answers that stay undecided are asked of math-verify {self._second_grader().where}")
            for name, function in options.functions.items():
                self._function(name, function).dry_run(
                    dry_samples(of_domain[0], self._config.batch.samples_per_prompt, encode, self._config.run.steps)
                )
                remarks.append(f"reward function {name} ({function.path}) passed a dry run on {of_domain[0].id}")
                own = self._object(name) if function.path.startswith(IN_PROCESS) else None
                if missing := unknown_columns(function.path, of_domain, own):
                    remarks.append(f"warning: reward function {name} ({function.path}) {missing}")
        return list(dict.fromkeys(remarks))

    def verdict(self, problem: Problem, response: Response, options: Correctness) -> Future[Verdict] | Verdict:
        """What the problem's grader says of a response, at once or later."""
        match kind_of(problem, options):
            case "code":
                if problem.tests is None:
                    return Verdict("gold_bad", float("nan"), detail="the problem has no tests")
                sandbox = self._code_sandbox()
                if self._threads is None:
                    raise RuntimeError("the graders are closed")
                return self._threads.submit(grade_program, response, problem.tests, sandbox, options.code)
            case "literal" | "scorer" as kind:
                answer = extract(response, options.math.answer)
                if not answer.answer:
                    return Verdict("no_answer", 0.0, method=kind, detail=answer.reason)
                if kind == "literal":
                    return grade_literal(answer.answer, problem.answer)
                return self._scorer(problem.scorer).submit(problem, answer.answer)
            case kind:
                policy = written_number(options.math) if kind == "number" else options.math
                verdict = grade(response, problem.answer, policy, problem.question)
                if verdict.status == "undecided" and options.second_grader == "math_verify":
                    return self._second_grader().submit(verdict.extracted, problem.answer)
                return verdict

    def function(
        self,
        name: str,
        options: FunctionOptions,
        problem: Problem,
        responses_G: Sequence[Response],
        clean_texts_G: Sequence[str],
        step: int | None,
    ) -> Future[list[Score]]:
        """The scores of a reward function, over G; spans in its own unit. step: of the run, None for a measurement."""
        row, place = row_of(problem), place_in_run(step, self._config.run.steps)
        samples = [
            SampleInput(
                problem.id, response.ids, response.text, text, "length" if response.truncated else "stop", row, *place
            )
            for response, text in zip(responses_G, clean_texts_G, strict=True)
        ]
        scores: Future[list[Score]] = Future()
        call = self._function(name, options).submit(samples)
        call.add_done_callback(lambda done: scores.set_result([_score(score) for score in done.result()]))
        return scores

    def close(self) -> None:
        """End all workers."""
        self._open.close()
        self._functions.clear()
        self._scorers.clear()
        self._sandbox = self._threads = self._second = None

    def _function(self, name: str, options: FunctionOptions) -> RewardFunction:
        # Domains may differ in weight, condition and what a failure does, and still share the processes.
        key = (
            name,
            options.path,
            options.call,
            options.returns,
            options.timeout_seconds,
            options.retries,
            options.memory_mb,
        )
        if key not in self._functions:
            function = self._object(name) if options.path.startswith(IN_PROCESS) else None
            opened = RewardFunction(name, options, workers=self._workers, function=function)
            self._functions[key] = self._open.enter_context(opened)
        return self._functions[key]

    def _object(self, name: str) -> Callable[..., Any]:
        if name not in self._objects:
            raise DataError(
                f"the reward function {name!r} was given as a Python object, and only a program that has it can call "
                f"it: give it again, as in groupwise.resume(RUN, rewards={{{name!r}: ...}}), or name a file in "
                f"rewards.functions.{name}.path"
            )
        return self._objects[name]

    def _code_sandbox(self) -> Sandbox:
        if self._sandbox is None:
            parallel = self._config.sandbox.parallel or os.cpu_count() or 1
            threads = ThreadPoolExecutor(parallel, thread_name_prefix="code")
            # Closed in reverse: nothing new begins, what runs is killed, and then its threads are at their end.
            self._open.callback(threads.shutdown, wait=True)
            self._sandbox = self._open.enter_context(open_sandbox(self._config.sandbox))
            self._open.callback(threads.shutdown, wait=False, cancel_futures=True)
            self._threads = threads
        return self._sandbox

    def _second_grader(self) -> SecondGrader:
        if self._second is None:
            try:
                sandbox: Sandbox | None = self._code_sandbox()
            except DataError:
                sandbox = None
            seconds = self._config.grading.second_grader_seconds
            self._second = self._open.enter_context(
                SecondGrader(workers=self._workers, timeout_seconds=seconds, sandbox=sandbox)
            )
        return self._second

    def _scorer(self, target: str) -> SourceScorer:
        if target not in self._scorers:
            scorer = SourceScorer(target, self._code_sandbox(), workers=self._workers)
            self._scorers[target] = self._open.enter_context(scorer)
        return self._scorers[target]


def kind_of(problem: Problem, options: Correctness) -> GraderKind:
    """Which grader a problem is for."""
    match options.grader:
        case "math" | "code" as named:
            return named
        case "auto" if problem.tests is not None:
            return "code"
        case "auto":
            return "scorer" if problem.scorer else problem.grader or "math"
        case _:
            return "function"


@functools.lru_cache(maxsize=32)
def written_number(policy: MathOptions) -> MathOptions:
    """The same policy where the question is itself a computation: only a written number answers it."""
    return policy.model_copy(update={"unevaluated": "wrong", "unreduced": "wrong"})


def grade_program(response: Response, tests: CodeTests, sandbox: Sandbox, options: CodeOptions) -> Verdict:
    """`grade_code`, but an exception is an error of the grader and not the end of the run."""
    try:
        return grade_code(response, tests, sandbox, options)
    except Exception as error:
        return Verdict("error", float("nan"), method="code", detail=f"{type(error).__name__}: {error}")


def dry_samples(problem: Problem, count: int, encode: Callable[[str], list[int]], steps: int) -> list[SampleInput]:
    """Completions as a model might write them in the first of so many steps: a good one, one without the form, an empty
    one, one cut off."""
    texts = [f"<think>So it is this.</think>\n\\boxed{{{problem.answer}}}", problem.answer, "", "<think>So it is"]
    row, place = row_of(problem), place_in_run(1, steps)
    return [
        SampleInput(
            problem.id, tuple(encode(text)), text, text, "length" if index % len(texts) == 3 else "stop", row, *place
        )
        for index, text in enumerate((texts * count)[: max(count, 1)])
    ]


def _score(result: FunctionScore) -> Score:
    if result.failure is None:
        return Score(result.value, "scored", spans=result.spans)
    return Score(float("nan"), "error", f"{result.failure.kind}: {result.failure.message}")


def _about(sandbox: Sandbox, what: str) -> list[str]:
    if sandbox.unsafe:
        return [
            f"warning: {what} run WITHOUT a sandbox (sandbox.backend=none): they can read, write and connect as you can"
        ]
    return [f"{what} run in the sandbox {sandbox.name}"]
