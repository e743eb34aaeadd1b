"""`groupwise check`: problem files as a run would see them, with its columns, template, graders and lengths.

Only the tokenizer of the model is loaded, and nothing is sampled.
"""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from groupwise.config import TrainConfig
from groupwise.config.compose import compose_to_explain
from groupwise.config.data import is_generated
from groupwise.data.files import ProblemFile, read_file
from groupwise.data.preflight import Lengths, ProblemCheck, Remarks, Report, lengths_of, preflight, remarks_of
from groupwise.data.rows import shorten
from groupwise.data.sources import usable_files
from groupwise.data.splits import Overlap, Repeats, find_overlap, find_repeats
from groupwise.errors import DataError, UsageError
from groupwise.evaluation.solutions import solution_check
from groupwise.grading.math.math_grader import gold_error, grade
from groupwise.grading.math.math_options import AnswerMode
from groupwise.grading.sandbox.open import open_sandbox
from groupwise.grading.sandbox.sandbox import Sandbox
from groupwise.model.load import load_tokenizer
from groupwise.model.prompt import PromptRenderer
from groupwise.problem import Problem

# The reference answer as a model would write it.
_WRITTEN: dict[AnswerMode, str] = {"gsm8k": "#### {}", "answer_tag": "<answer>{}</answer>", "last_number": "It is {}."}
_BOXED = "\\boxed{{{}}}"


@dataclass(frozen=True, slots=True)
class FileCheck:
    """One file: its rows, and what is remarkable about them. unjudged: only a reward function can judge these."""

    report: Report
    shape: str
    lengths: Lengths | None
    repeats: Repeats
    remarks: Remarks
    unjudged: int


@dataclass(frozen=True, slots=True)
class Check:
    """The files of a run. Lengths are in tokens."""

    model: str
    context_tokens: int
    max_new_tokens: int
    train: FileCheck
    held_out: tuple[FileCheck, ...]
    overlap: Overlap

    @property
    def refused(self) -> str:
        """Why `groupwise train` would refuse; empty where it would not."""
        return next((file.report.refused for file in (self.train, *self.held_out) if file.report.refused), "")


def run_check(file: str, arguments: Sequence[str], held_out: str = "", run_solutions: bool = False) -> Check:
    """Check a file to train on, and those to measure on: `held_out`, or what the configuration names.

    run_solutions: run the solutions that rows with tests bring, in the sandbox.

    Raises:
        UsageError: for a configuration that cannot be read, or a source that is no file.
        DataError: for a file that cannot be read as a whole, a tokenizer that cannot be loaded, or no sandbox.
    """
    if is_generated(file):
        raise UsageError(f"'{file}' is generated: there is no file to check")
    config = compose_to_explain(arguments)
    tokenizer, context_tokens = load_tokenizer(config.model.path)
    renderer = PromptRenderer(tokenizer, config.prompt)
    named = [held_out] if held_out else [name for name in config.problems.eval_sources if not is_generated(name)]
    with open_sandbox(config.sandbox) if run_solutions else nullcontext() as sandbox:
        train, *others = (_check_file(path, config, renderer, context_tokens, sandbox) for path in (file, *named))
    asked = [problem for other in others for problem in other.report.problems]
    return Check(
        model=config.model.path,
        context_tokens=context_tokens,
        max_new_tokens=config.sampling.max_new_tokens,
        train=train,
        held_out=tuple(others),
        overlap=find_overlap(train.report.problems, asked),
    )


def answer_check(config: TrainConfig) -> ProblemCheck:
    """Refuses problems whose reference answer is unusable, or is not accepted by its own grader when a model writes it.

    What only a reward function can judge is not asked, see `is_graded_here`.
    """

    def check(problem: Problem) -> str:
        options = config.rewards_of(problem.domain).correctness
        if options.grader == "code" and problem.tests is None:
            return "the problem has no tests, and rewards.correctness.grader=code grades by tests alone"
        if not is_graded_here(problem, config) or _by_tests(problem, options.grader):
            return ""
        fault = gold_error(problem.answer, options.math)
        if fault:
            return fault
        verdict = grade(written_answer(problem.answer, options.math.answer), problem.answer, options.math)
        if verdict.status == "correct":
            return ""
        why = f"{verdict.status}: {verdict.detail}" if verdict.detail else verdict.status
        return f"the reference answer {shorten(problem.answer)} is not accepted by its own grader ({why})"

    return check


def is_graded_here(problem: Problem, config: TrainConfig) -> bool:
    """Whether a grader that is built in can judge a problem."""
    return config.rewards_of(problem.domain).correctness.grader in ("auto", "math", "code")


def written_answer(gold: str, mode: AnswerMode) -> str:
    """A response that says the reference answer, and nothing else, where the grader looks for it."""
    return gold if "\\boxed" in gold else _WRITTEN.get(mode, _BOXED).format(gold)


class PromptCheck:
    """Refuses problems whose prompt does not fit into the context together with the longest completion.

    tokens: the lengths of all prompts that it was asked about.
    """

    def __init__(self, renderer: PromptRenderer, context_tokens: int, max_new_tokens: int) -> None:
        self.tokens: list[int] = []
        self._renderer = renderer
        self._context_tokens = context_tokens
        self._max_new_tokens = max_new_tokens

    def __call__(self, problem: Problem) -> str:
        try:
            tokens = len(self._renderer.render(problem.messages).ids)
        except DataError as error:
            return str(error)
        self.tokens.append(tokens)
        if tokens + self._max_new_tokens <= self._context_tokens:
            return ""
        return (
            f"the prompt has {tokens} tokens, and with sampling.max_new_tokens={self._max_new_tokens} it does not fit "
            f"into the model's context of {self._context_tokens}"
        )


def usable_rows(
    config: TrainConfig, files: Mapping[str, ProblemFile], renderer: PromptRenderer, context_tokens: int
) -> tuple[dict[str, ProblemFile], list[str]]:
    """The files of a run without the rows that it cannot use, and what was left out; see `usable_files`."""
    prompts = PromptCheck(renderer, context_tokens, config.sampling.max_new_tokens)
    return usable_files(files, {"prompt": prompts, "answer": answer_check(config)})


def _check_file(
    path: str, config: TrainConfig, renderer: PromptRenderer, context_tokens: int, sandbox: Sandbox | None
) -> FileCheck:
    columns = config.problems.columns
    file = read_file(Path(path), columns.problem, columns.answer, columns.domain)
    prompts = PromptCheck(renderer, context_tokens, config.sampling.max_new_tokens)
    checks: dict[str, ProblemCheck] = {"prompt": prompts, "answer": answer_check(config)}
    if sandbox is not None:
        checks["solution"] = solution_check(sandbox, config)
    report = preflight(file.problems, file.unusable, checks, path)
    return FileCheck(
        report=report,
        shape=file.shape,
        lengths=lengths_of(prompts.tokens),
        repeats=find_repeats(report.problems, partial(_same_answer, config)),
        remarks=remarks_of(report.problems, columns.domain),
        unjudged=sum(not is_graded_here(problem, config) for problem in report.problems),
    )


def _by_tests(problem: Problem, grader: str) -> bool:
    return problem.tests is not None and grader != "math"


def _same_answer(config: TrainConfig, one: Problem, other: Problem) -> bool:
    """Whether two problems do not contradict each other. Of tests nobody can tell."""
    if one.tests is not None or other.tests is not None or one.answer == other.answer:
        return True
    if not is_graded_here(other, config):
        return False
    policy = config.rewards_of(other.domain).correctness.math
    return grade(written_answer(one.answer, policy.answer), other.answer, policy).status == "correct"
