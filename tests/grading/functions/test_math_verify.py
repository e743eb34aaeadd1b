"""The second grader: verdicts, deadlines, and what a hostile answer reaches."""

import importlib.util
import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from groupwise.errors import DataError
from groupwise.grading.math.math_verify import SecondGrader
from groupwise.grading.math.math_verify_worker import balanced, boxed

installed = all(importlib.util.find_spec(name) for name in ("math_verify", "latex2sympy2_extended", "antlr4"))
needs_math_verify = pytest.mark.skipif(not installed, reason="math-verify is not installed")


@pytest.fixture(scope="module")
def grader() -> Iterator[SecondGrader]:
    with SecondGrader(workers=1, timeout_seconds=2.0) as second:
        yield second


@needs_math_verify
@pytest.mark.parametrize(
    ("answer", "gold", "status"),
    [
        (r"\frac12", "0.5", "correct"),
        ("0.5", r"\frac{1}{2}", "correct"),
        (r"x^2-1", "(x-1)(x+1)", "correct"),
        (r"3\sqrt{13}", r"\sqrt{117}", "correct"),
        ("3", r"3\sqrt{13}", "wrong"),
        ("7", "8", "wrong"),
        ("1} \\boxed{2", "2", "wrong"),
        ("", "2", "wrong"),
        ("__import__('os').system('exit')", "1", "wrong"),
        ("2", "", "error"),
    ],
)
def test_verdicts(grader: SecondGrader, answer: str, gold: str, status: str) -> None:
    verdict = grader.submit(answer, gold).result()
    assert verdict.status == status
    assert verdict.method == "math_verify"
    assert verdict.extracted == answer
    assert verdict.score == (1.0 if status == "correct" else 0.0) or (status == "error" and math.isnan(verdict.score))
    assert verdict.detail.endswith("in its own process") or status == "error"


@needs_math_verify
@pytest.mark.slow
@pytest.mark.parametrize("answer", ["10^{10^{10}}", "5^{5^{5^{5^5}}}", "(10^9)!"])
def test_answers_that_hang_are_stopped(answer: str) -> None:
    with SecondGrader(workers=1, timeout_seconds=0.5, memory_mb=512) as second:
        hung, after = second.submit(answer, "3"), second.submit("2", "2")
        assert (hung.result().status, hung.result().score) in {("timeout", 0.0), ("undecided", 0.0)}
        assert hung.result().milliseconds < 3000
        assert after.result().status == "correct"


@needs_math_verify
def test_inside_a_sandbox(tmp_path: Path) -> None:
    from groupwise.grading.sandbox.open import open_sandbox
    from groupwise.grading.sandbox.runs import SandboxOptions

    try:
        sandbox = open_sandbox(SandboxOptions())
    except DataError as error:
        pytest.skip(str(error))
    with sandbox, SecondGrader(workers=1, sandbox=sandbox) as second:
        verdict = second.submit(r"\frac12", "0.5").result()
        assert (verdict.status, verdict.detail) == ("correct", f"in a sandbox ({sandbox.name})")
        mark = tmp_path / "mark"
        assert second.submit(f"__import__('os').system('touch {mark}')", "1").result().status == "wrong"
        assert not mark.exists()


@needs_math_verify
def test_closed_grader_answers() -> None:
    second = SecondGrader(workers=1)
    verdicts = [second.submit("10^{10^{10}}", "3") for _ in range(3)]
    second.close()
    assert {verdict.result().status for verdict in verdicts} == {"error"}


def test_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(DataError, match=r"pip install 'groupwise\[math-verify\]'"):
        SecondGrader()


@pytest.mark.parametrize(
    ("answer", "fits"),
    [
        ("1", True),
        (r"\frac{1}{2}", True),
        (r"\{1, 2\}", True),
        (r"1}{2", False),
        ("{", False),
        (r"a\\}", False),
        ("", True),
    ],
)
def test_braces(answer: str, fits: bool) -> None:
    assert balanced(answer) == fits
    assert boxed(answer) == "\\boxed{" + answer + "}"
