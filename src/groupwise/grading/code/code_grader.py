"""Programs are graded by what they give: inputs go into the sandbox, what comes out is compared here."""

import builtins
from dataclasses import replace
from time import perf_counter
from typing import Any

from groupwise.grading.code.code_compare import same_output, same_result
from groupwise.grading.code.code_extract import READS_INPUT, extract_program
from groupwise.grading.code.code_view import Views
from groupwise.grading.components.correctness import CodeOptions
from groupwise.grading.records import Response, Status, Verdict
from groupwise.grading.sandbox.runs import Call, CallResult, Limits, Outcome
from groupwise.grading.sandbox.sandbox import Sandbox
from groupwise.problem import CallTest, CodeTests, Source, StdinTest

_SHOWN = 80
_SIGNALS = {9: "killed", 11: "segmentation fault", 6: "aborted", 24: "CPU time limit", 25: "file size limit"}


class SandboxError(Exception):
    """The sandbox could not run the program, which says nothing about the program."""


class _LoadError(Exception):
    """The program cannot be loaded, so that no test passes."""


def grade_code(
    response: Response, tests: CodeTests, sandbox: Sandbox, options: CodeOptions, limits: Limits | None = None
) -> Verdict:
    """Judge the program of a response by the tests of its problem.

    Whatever the program does (a wrong result, a crash, a limit) is `wrong`, with the first failed test in `detail`;
    `error` with NaN is kept for a sandbox that could not run it. Expected values never enter the sandbox. All calls
    of a function share one start; programs that read standard input start once for each test, up to the first failure
    where `credit` is `all`, and in any case up to the first that reaches the time limit. `limits` are of one start;
    None takes those of the sandbox.

    Flags: `continued` (the response held only the body), `weak_oracle` (the tests say less than the data set's own),
    `prints_expected` (passes its only test without reading the input).
    """
    start = perf_counter()
    extraction = extract_program(response, tests, options.forgotten_imports)
    method = "calls" if tests.calls else "stdin"
    remarks = {"continued": extraction.continued, "weak_oracle": bool(tests.weak_oracle)}
    flags = [name for name, applies in remarks.items() if applies]

    def verdict(status: Status, score: float, detail: str) -> Verdict:
        # What a program raises may hold characters that no file takes.
        detail = detail.encode("utf-8", "backslashreplace").decode("utf-8")
        return Verdict(status, score, extraction.block, method, 1000 * (perf_counter() - start), detail, tuple(flags))

    if not extraction.program:
        return verdict("no_answer", 0.0, extraction.reason)
    judge = _judge_calls if tests.calls else _judge_outputs
    try:
        failures = judge(extraction.program, tests, sandbox, options, limits)
    except SandboxError as error:
        return verdict("error", float("nan"), f"sandbox: {error}")
    except _LoadError as error:
        return verdict("wrong", 0.0, _short(f"the program does not load: {error}"))
    total = len(failures)
    if total == 0:
        return verdict("gold_bad", float("nan"), "the problem has no tests")
    first = next((f"test {number} of {total}: {failure}" for number, failure in enumerate(failures, 1) if failure), "")
    if not first and method == "stdin" and total == 1 and not READS_INPUT.search(extraction.program):
        flags.append("prints_expected")
    score = failures.count("") / total if options.credit == "fraction" else float(not first)
    return verdict("wrong" if first else "correct", score, first)


def _judge_calls(
    program: str, tests: CodeTests, sandbox: Sandbox, options: CodeOptions, limits: Limits | None
) -> list[str]:
    """The failure of each test; empty where it passes."""
    used: tuple[CallTest, ...] = tests.calls[: options.max_tests or None]
    run = sandbox.call(program, tests.entry_point, [_call_of(test) for test in used], limits)
    if run.outcome.status == "failed":
        raise SandboxError(run.outcome.detail)
    if run.load_error:
        raise _LoadError(run.load_error)
    views = Views(tests.helpers)
    # A result that the report lacks has not passed.
    padded = [*run.results, *[CallResult("missing")] * (len(used) - len(run.results))]
    tolerance = options.float_tolerance
    return [
        _call_failure(result, _tolerant(test, tolerance), run.outcome, views)
        for result, test in zip(padded, used, strict=True)
    ]


def _call_of(test: CallTest) -> Call:
    sources = {place: value.text for place, value in enumerate(test.args) if isinstance(value, Source)}
    steps = tuple((step.name, step.args, dict(step.kwargs), step.fresh) for step in test.steps)
    args = tuple(None if place in sources else value for place, value in enumerate(test.args))
    return Call(args, dict(test.kwargs), sources, steps)


def _tolerant(test: CallTest, tolerance: float) -> CallTest:
    """The test with the default tolerance, unless it states how it compares, as an assert does."""
    if test.as_python or test.tolerance or test.relative_tolerance or not _has_float(test.expected):
        return test
    return replace(test, tolerance=tolerance, relative_tolerance=tolerance)


def _has_float(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_float, value.values()))
    return any(map(_has_float, value)) if isinstance(value, (list, tuple)) else isinstance(value, float)


def _call_failure(result: CallResult, test: CallTest, outcome: Outcome, views: Views) -> str:
    if result.status == "missing":
        return _ending(outcome) or "the program ended within the call"
    if result.status == "raised":
        return "" if _is_raised(result.detail, test.raises) else f"raised {result.detail}"
    if test.raises:
        return f"gave a value instead of raising {test.raises}"
    if result.status == "foreign" and not views.accepts_foreign(test.view, result.detail):
        return f"returned {result.detail}"
    value = True if result.status == "foreign" else result.value
    if test.view and result.status != "foreign":
        value, failure = views.value(test.view, value)
        if failure:
            return failure
    if same_result(value, test):
        return ""
    return f"gave {_shown(value)} instead of {_shown(test.expected)}"


def _is_raised(detail: str, wanted: str) -> bool:
    """Whether an exception, as type and message, is of the wanted type or of one below it."""
    name = detail.partition(":")[0]
    raised, expected = (getattr(builtins, one, None) for one in (name, wanted))
    if isinstance(raised, type) and isinstance(expected, type):
        return issubclass(raised, expected)
    return bool(wanted) and (name == wanted or wanted in ("Exception", "BaseException"))


def _judge_outputs(
    program: str, tests: CodeTests, sandbox: Sandbox, options: CodeOptions, limits: Limits | None
) -> list[str]:
    """As `_judge_calls`; where the credit is all or nothing, tests behind the first failure are not run."""
    used: tuple[StdinTest, ...] = tests.stdin[: options.max_tests or None]
    failures: list[str] = []
    for test in used:
        outcome = sandbox.run_program(program, test.stdin, limits)
        if outcome.status == "failed":
            raise SandboxError(outcome.detail)
        failure = _ending(outcome)
        if not failure:
            printed = outcome.stdout.decode("utf-8", "replace")
            if not same_output(printed, test.stdout, options.float_tolerance):
                failure = f"printed {_short(repr(printed))} instead of {_short(repr(test.stdout))}"
        failures.append(failure)
        # What hangs once is taken to hang again, so that it costs one time limit and not one for each test.
        if failure and (options.credit == "all" or _hung(outcome)):
            break
    return failures + ["not run"] * (len(used) - len(failures))


def _hung(outcome: Outcome) -> bool:
    """Whether a run took all its time; what is killed for memory rarely computes for so long."""
    return outcome.status == "timeout" or (outcome.status == "killed" and outcome.cpu_seconds >= 1.0)


def _ending(outcome: Outcome) -> str:
    """How a run ended badly; empty for one that ended by itself with exit code 0."""
    if outcome.status in ("timeout", "output_limit"):
        return "time limit" if outcome.status == "timeout" else "output limit"
    if outcome.status == "killed":
        return _SIGNALS.get(outcome.signal or 0, f"signal {outcome.signal}")
    if outcome.exit_code:
        lines = outcome.stderr[-2000:].decode("utf-8", "replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return f"exit code {outcome.exit_code}" + (f": {_short(last)}" if last else "")
    return ""


def _shown(value: object) -> str:
    try:
        return _short(repr(value))
    except ValueError:
        # Python writes no integer of more than some thousand digits.
        return "a number with too many digits"


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
