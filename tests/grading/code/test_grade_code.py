"""Verdicts on programs, with a sandbox that answers what the test says."""

import math
from dataclasses import replace
from typing import Any

import pytest

from groupwise.grading.code.code_grader import grade_code
from groupwise.grading.components.correctness import CodeOptions
from groupwise.grading.records import Response, Verdict
from groupwise.grading.sandbox.runs import Call, CallResult, Outcome
from groupwise.problem import CallTest, CodeTests, StdinTest
from tests.grading.code.sandboxes import EXITED, FakeSandbox, printed, returned

PROGRAM = "def double(n):\n    return 2 * n"
RESPONSE = Response((), f"<think>Easy.</think>\n```python\n{PROGRAM}\n```")
TESTS = CodeTests(calls=tuple(CallTest((n,), 2 * n) for n in (1, 2, 3, 4)), entry_point="double")
READER = Response((), "```python\nprint(2 * int(input()))\n```")
OUTPUTS = CodeTests(stdin=tuple(StdinTest(f"{n}\n", f"{2 * n}\n") for n in (1, 2, 3, 4)))
ALL, SHARE = CodeOptions(), CodeOptions(credit="fraction")


def grade(
    sandbox: FakeSandbox, tests: CodeTests = TESTS, options: CodeOptions = ALL, response: Response = RESPONSE
) -> Verdict:
    return grade_code(response, tests, sandbox.as_sandbox(), options)


def test_all_calls_right_in_one_start() -> None:
    sandbox = FakeSandbox(results=returned(2, 4, 6, 8))
    verdict = grade(sandbox)
    assert (verdict.status, verdict.score, verdict.detail, verdict.flags) == ("correct", 1.0, "", ())
    assert (verdict.extracted, verdict.method) == (PROGRAM, "calls")
    assert sandbox.programs == [PROGRAM]
    assert sandbox.calls == [("double", tuple(Call((n,), {}) for n in (1, 2, 3, 4)))]


def test_expected_values_never_enter_the_sandbox() -> None:
    secret = CodeTests(calls=(CallTest((1,), "the-secret"),), entry_point="double", helpers="def h(x):\n    return x")
    sandbox = FakeSandbox(results=returned("no"))
    assert grade(sandbox, secret).status == "wrong"
    assert "the-secret" not in repr((sandbox.programs, sandbox.calls))
    outputs = FakeSandbox(lambda _: printed("no"))
    grade(outputs, CodeTests(stdin=(StdinTest("1", "the-secret"),)), response=READER)
    assert "the-secret" not in repr((outputs.programs, outputs.stdins))


@pytest.mark.parametrize(("options", "score"), [(ALL, 0.0), (SHARE, 0.75)])
def test_credit(options: CodeOptions, score: float) -> None:
    verdict = grade(FakeSandbox(results=returned(2, 4, 7, 8)), options=options)
    assert (verdict.status, verdict.score) == ("wrong", score)
    assert verdict.detail == "test 3 of 4: gave 7 instead of 6"


@pytest.mark.parametrize(
    ("result", "detail"),
    [
        (CallResult("returned", True), "gave True instead of 2"),
        (CallResult("returned", math.nan), "gave nan instead of 2"),
        (CallResult("returned", None), "gave None instead of 2"),
        (CallResult("foreign", detail="an object of type __main__.E"), "returned an object of type __main__.E"),
        (CallResult("raised", detail="ZeroDivisionError: x"), "raised ZeroDivisionError: x"),
        (CallResult("returned", 10**5000), "gave a number with too many digits instead of 2"),
        (CallResult("raised", detail="ValueError: \udc80"), "raised ValueError: \\udc80"),
        (CallResult("missing"), "the program ended within the call"),
    ],
)
def test_what_a_call_can_give(result: CallResult, detail: str) -> None:
    verdict = grade(FakeSandbox(results=(result, *returned(4, 6, 8))), options=SHARE)
    assert (verdict.status, verdict.score, verdict.detail) == ("wrong", 0.75, f"test 1 of 4: {detail}")


@pytest.mark.parametrize(
    ("outcome", "detail"),
    [
        (Outcome("timeout"), "time limit"),
        (Outcome("output_limit"), "output limit"),
        (Outcome("killed", signal=9), "killed"),
        (Outcome("killed", signal=11), "segmentation fault"),
        (Outcome("killed", signal=24), "CPU time limit"),
        (Outcome("killed", signal=2), "signal 2"),
        (Outcome("exited", exit_code=1, stderr=b"Traceback\nMemoryError\n"), "exit code 1: MemoryError"),
        (Outcome("exited", exit_code=3), "exit code 3"),
        (Outcome("exited", exit_code=1, stdout=b"2\n"), "exit code 1"),
    ],
)
def test_what_a_program_does_is_wrong_and_never_an_error(outcome: Outcome, detail: str) -> None:
    missing = (CallResult("missing"), CallResult("missing"))
    verdict = grade(FakeSandbox(results=(*returned(2, 4), *missing), outcome=outcome), options=SHARE)
    assert (verdict.status, verdict.score, verdict.detail) == ("wrong", 0.5, f"test 3 of 4: {detail}")
    verdict = grade(FakeSandbox(lambda _: outcome), OUTPUTS, SHARE, READER)
    assert (verdict.status, verdict.score, verdict.detail) == ("wrong", 0.0, f"test 1 of 4: {detail}")


def test_results_that_the_report_lacks_have_not_passed() -> None:
    verdict = grade(FakeSandbox(results=returned(2, 4)), options=SHARE)
    assert (verdict.score, verdict.detail) == (0.5, "test 3 of 4: the program ended within the call")


def test_a_program_that_does_not_load() -> None:
    verdict = grade(FakeSandbox(load_error="SyntaxError: invalid syntax"))
    assert (verdict.status, verdict.score) == ("wrong", 0.0)
    assert verdict.detail == "the program does not load: SyntaxError: invalid syntax"


def test_a_broken_sandbox_is_an_error() -> None:
    failed = Outcome("failed", detail="no namespaces")
    for verdict in (
        grade(FakeSandbox(outcome=failed)),
        grade(FakeSandbox(lambda _: failed), OUTPUTS, response=READER),
    ):
        assert verdict.status == "error"
        assert math.isnan(verdict.score)
        assert verdict.detail == "sandbox: no namespaces"


def test_no_answer_starts_nothing() -> None:
    sandbox = FakeSandbox(results=returned(2, 4, 6, 8))
    verdict = grade(sandbox, response=Response((), "It is 42."))
    assert (verdict.status, verdict.score, verdict.detail) == ("no_answer", 0.0, "no block of code")
    assert not sandbox.programs


def test_no_tests() -> None:
    verdict = grade(FakeSandbox(lambda _: EXITED), CodeTests())
    assert verdict.status == "gold_bad"
    assert math.isnan(verdict.score)


def doubling(stdin: str) -> Outcome:
    n = int(stdin)
    return printed(f"{2 * n if n != 2 else 5}\n")


def test_outputs_stop_at_the_first_failure_where_all_count() -> None:
    sandbox = FakeSandbox(doubling)
    verdict = grade(sandbox, OUTPUTS, ALL, READER)
    assert (verdict.status, verdict.score, verdict.method) == ("wrong", 0.0, "stdin")
    assert verdict.detail == r"test 2 of 4: printed '5\n' instead of '4\n'"
    assert sandbox.stdins == ["1\n", "2\n"]
    sandbox = FakeSandbox(doubling)
    assert grade(sandbox, OUTPUTS, SHARE, READER).score == 0.75
    assert len(sandbox.stdins) == 4


def test_an_endless_loop_costs_one_time_limit() -> None:
    sandbox = FakeSandbox(lambda stdin: Outcome("timeout") if stdin == "2\n" else doubling(stdin))
    assert grade(sandbox, OUTPUTS, SHARE, READER).score == 0.25
    assert sandbox.stdins == ["1\n", "2\n"]
    sandbox = FakeSandbox(lambda _: Outcome("killed", signal=9, cpu_seconds=4.0))
    assert grade(sandbox, OUTPUTS, SHARE, READER).score == 0.0
    assert sandbox.stdins == ["1\n"]


def test_the_first_tests_only() -> None:
    sandbox = FakeSandbox(doubling)
    assert grade(sandbox, OUTPUTS, CodeOptions(max_tests=1), READER).status == "correct"
    assert sandbox.stdins == ["1\n"]
    calls = FakeSandbox(results=returned(2, 4))
    assert grade(calls, options=CodeOptions(max_tests=2)).status == "correct"
    assert len(calls.calls[0][1]) == 2


def test_printed_numbers_within_the_tolerance() -> None:
    tests = CodeTests(stdin=(StdinTest("1", "0.333333"),))
    sandbox = FakeSandbox(lambda _: printed("0.3333334"))
    assert grade(sandbox, tests, ALL, READER).status == "correct"
    assert grade(sandbox, tests, CodeOptions(float_tolerance=1e-8), READER).status == "wrong"
    assert grade(sandbox, tests, CodeOptions(float_tolerance=0.0), READER).status == "wrong"
    assert grade(sandbox, tests, CodeOptions(float_tolerance=1e-5), READER).status == "correct"


def test_output_that_is_no_utf8() -> None:
    broken = Outcome("exited", exit_code=0, stdout=b"\xff2\n")
    assert grade(FakeSandbox(lambda _: broken), OUTPUTS, response=READER).status == "wrong"


def test_a_printed_constant_is_flagged() -> None:
    tests = replace(OUTPUTS, stdin=OUTPUTS.stdin[:1])
    sandbox = FakeSandbox(lambda _: printed("2\n"))
    constant = Response((), "```python\nprint(2)\n```")
    assert grade(sandbox, tests, ALL, constant).flags == ("prints_expected",)
    assert grade(sandbox, tests, ALL, READER).flags == ()
    two = replace(OUTPUTS, stdin=OUTPUTS.stdin[:1] * 2)
    assert grade(sandbox, two, ALL, constant).flags == ()


def test_flags_of_the_tests_and_of_the_answer() -> None:
    tests = replace(TESTS, weak_oracle="left out one", beginning="def double(n):")
    verdict = grade(FakeSandbox(results=returned(2, 4, 6, 8)), tests, response=Response((), "    return 2 * n"))
    assert verdict.flags == ("continued", "weak_oracle")
    assert verdict.status == "correct"


@pytest.mark.parametrize(
    ("view", "value", "expected", "passes"),
    [
        ("sorted(result)", [3, 1], [1, 3], True),
        ("sorted(result)", None, [1, 3], False),
        ("sorted(result)", ["a", 1], [1, 3], False),
        ("bool(result)", "x", True, True),
        ("bool(result)", [], True, False),
        ("close(result)", 1.0001, 0.0, True),
        ("close(result)", 2.0, 0.0, False),
        ("math.floor(result)", 2.5, 2, True),
    ],
)
def test_views(view: str, value: Any, expected: Any, passes: bool) -> None:
    tests = CodeTests(
        calls=(CallTest((), expected, view=view, tolerance=1e-3),),
        entry_point="double",
        helpers="def close(x):\n    return abs(x - 1)",
    )
    verdict = grade(FakeSandbox(results=returned(value)), tests)
    assert (verdict.status == "correct") is passes
    assert verdict.detail == "" or view in verdict.detail or "gave" in verdict.detail


def test_the_truth_of_a_match_counts() -> None:
    match = CallResult("foreign", detail="an object of type re.Match")
    other = CallResult("foreign", detail="an object of type __main__.E")
    truth = CodeTests(calls=(CallTest((), True, view="bool(result)"),), entry_point="double")
    assert grade(FakeSandbox(results=(match,)), truth).status == "correct"
    assert grade(FakeSandbox(results=(other,)), truth).status == "wrong"
    falsehood = CodeTests(calls=(CallTest((), False, view="bool(result)"),), entry_point="double")
    assert grade(FakeSandbox(results=(match,)), falsehood).status == "wrong"
    plain = CodeTests(calls=(CallTest((), True),), entry_point="double")
    assert grade(FakeSandbox(results=(match,)), plain).status == "wrong"
