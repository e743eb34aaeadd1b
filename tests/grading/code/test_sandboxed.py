"""Verdicts on programs that really run."""

import pytest

from groupwise.grading.code.code_grader import grade_code
from groupwise.grading.components.correctness import CodeOptions
from groupwise.grading.records import Response, Verdict
from groupwise.grading.sandbox.runs import Limits
from groupwise.grading.sandbox.sandbox import Sandbox
from groupwise.problem import CallTest, CodeTests, StdinTest

CALLS = CodeTests(calls=tuple(CallTest((n,), 2 * n) for n in (3, 21, 50)), entry_point="double")
OUTPUTS = CodeTests(stdin=tuple(StdinTest(f"{n}\n", f"{2 * n}\n") for n in (3, 21)))
LIMITS = Limits(wall_seconds=3.0, cpu_seconds=2.0)


def grade(sandbox: Sandbox, program: str, tests: CodeTests) -> Verdict:
    return grade_code(
        Response((), f"```python\n{program}\n```"), tests, sandbox, CodeOptions(credit="fraction"), LIMITS
    )


def test_right_programs(sandbox: Sandbox) -> None:
    assert grade(sandbox, "def double(n): return n + n", CALLS).score == 1.0
    assert grade(sandbox, "print(2 * int(input()))", OUTPUTS).score == 1.0


@pytest.mark.parametrize(
    ("program", "share", "detail"),
    [
        ("def double(n): return 6", 1 / 3, "test 2 of 3: gave 6 instead of 42"),
        ("def double(n): return True", 0.0, "test 1 of 3: gave True instead of 6"),
        ("def double(n): return 2 * n if n < 50 else 1 / 0", 2 / 3, "test 3 of 3: raised ZeroDivisionError"),
        ("import os\ndef double(n):\n    if n == 21: os._exit(0)\n    return 2 * n", 1 / 3, "test 2 of 3: "),
        ("def double(n):\n    while n == 50: pass\n    return 2 * n", 2 / 3, "test 3 of 3: "),
        ("def double(n) return n", 0.0, "the program does not load: SyntaxError"),
        ("def triple(n): return 3 * n", 0.0, "the program does not load: "),
        ("class E:\n    def __eq__(self, other): return True\ndef double(n): return E()", 0.0, "test 1 of 3: returned"),
    ],
)
def test_wrong_functions(sandbox: Sandbox, program: str, share: float, detail: str) -> None:
    verdict = grade(sandbox, program, CALLS)
    assert verdict.status == "wrong"
    assert verdict.score == pytest.approx(share)
    assert verdict.detail.startswith(detail)


@pytest.mark.parametrize(
    ("program", "detail"),
    [
        ("print(6)", "test 2 of 2: printed '6\\n' instead of '42\\n'"),
        ("print(2 * int(input()), 0)", "test 1 of 2: printed '6 0\\n' instead of '6\\n'"),
        ("print(2 * int(input()))\nraise SystemExit(3)", "test 1 of 2: exit code 3"),
        ("print(2 * int(input()))\n1 / 0", "test 1 of 2: exit code 1: ZeroDivisionError"),
        ("x = bytearray(10**11)", "test 1 of 2: exit code 1: MemoryError"),
        ("while True: pass", "test 1 of 2: "),
        ("while True: print('x' * 10**6)", "test 1 of 2: output limit"),
    ],
)
def test_wrong_programs(sandbox: Sandbox, program: str, detail: str) -> None:
    verdict = grade_code(Response((), f"```python\n{program}\n```"), OUTPUTS, sandbox, CodeOptions(), LIMITS)
    assert (verdict.status, verdict.score) == ("wrong", 0.0)
    assert verdict.detail.startswith(detail)
