"""Scorers of reasoning-gym inside a sandbox: right answers, hostile ones, and what those reach."""

import importlib.util
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from groupwise.data.reasoning_gym import ROW_KEY, SCORER, gym_source
from groupwise.data.reasoning_gym_worker import harmless
from groupwise.errors import DataError
from groupwise.grading.sandbox.sandbox import Sandbox
from groupwise.grading.source_scorer import SourceScorer
from groupwise.grading.workers import WorkerPool
from groupwise.grading.workers.sandboxed import launch_in
from groupwise.problem import Problem

pytestmark = pytest.mark.skipif(importlib.util.find_spec("reasoning_gym") is None, reason="reasoning-gym is missing")


@pytest.fixture(scope="module")
def scorer(sandbox: Sandbox) -> Iterator[SourceScorer]:
    with SourceScorer(SCORER, sandbox, timeout_seconds=3.0) as opened:
        yield opened


def problem(name: str, index: int = 0) -> Problem:
    return gym_source(f"reasoning_gym:{name}").problem(0, "train", index)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["countdown", "simple_integration", "n_queens", "tower_of_hanoi", "word_ladder"])
def test_right_and_wrong_answers(scorer: SourceScorer, name: str) -> None:
    for index in range(3):
        asked = problem(name, index)
        right, wrong = scorer.submit(asked, asked.answer).result(), scorer.submit(asked, "no idea").result()
        assert (right.status, right.score, right.method) == ("correct", 1.0, "scorer")
        assert (wrong.status, wrong.score) == ("wrong", 0.0)


@pytest.mark.slow
def test_another_right_answer_counts_and_a_partial_score_does_not(scorer: SourceScorer) -> None:
    asked = problem("countdown")
    rest, last = asked.answer.rsplit(" ", 1)
    assert scorer.submit(asked, f"({rest} {last})").result().status == "correct"
    partly = scorer.submit(asked, "1").result()
    assert (partly.status, partly.score) == ("wrong", 0.0)
    assert partly.detail == "scored 0.05"


@pytest.mark.slow
def test_scorer_that_raises_means_wrong(scorer: SourceScorer) -> None:
    verdict = scorer.submit(problem("prime_factorization"), "no idea").result()
    assert (verdict.status, verdict.score) == ("wrong", 0.0)
    assert verdict.detail.startswith("raised: ValueError")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["countdown", "simple_integration", "intermediate_integration", "n_queens"])
def test_hostile_answer_touches_nothing(scorer: SourceScorer, name: str, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    for answer in (
        f"__import__('os').system('touch {mark}')",
        f'exec(\'open("{mark}", "w")\')',
        "__import__('sys')._getframe(1).f_locals['entry']['answer']",
    ):
        assert scorer.submit(problem(name), answer).result().status == "wrong"
    assert not mark.exists()


def test_program_inside_reaches_nothing_outside(
    sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without any screening of answers: an evaluator as the data sets have one, in the same sandbox."""
    monkeypatch.setenv("TOKEN_OF_THE_USER", "secret")
    mark, launch = tmp_path / "mark", launch_in(sandbox, memory_mb=1024)
    with WorkerPool(
        "builtins:eval", workers=1, timeout_seconds=5.0, memory_mb=0, launch=launch, init="lambda text: eval(text)"
    ) as pool:
        assert pool.submit("6 * 7").result().value == 42
        assert pool.submit(f"__import__('os').system('touch {mark}')").result().value != 0
        assert pool.submit(f"__import__('os').path.exists('{tmp_path}')").result().value is False
        assert "TOKEN_OF_THE_USER" not in pool.submit("sorted(__import__('os').environ)").result().value
        failure = pool.submit("__import__('os')._exit(0)").result().failure
        assert failure is not None
        assert failure.kind == "died"
        assert pool.submit("6 * 7").result().value == 42
    assert not mark.exists()


@pytest.mark.slow
def test_other_version_is_an_error(scorer: SourceScorer) -> None:
    asked = problem("countdown")
    changed = replace(asked, row={ROW_KEY: {**asked.row[ROW_KEY], "question_digest": "0" * 16}})
    verdict = scorer.submit(changed, asked.answer).result()
    assert verdict.status == "error"
    assert math.isnan(verdict.score)
    assert "makes another problem" in verdict.detail


def test_refused_without_isolation() -> None:
    bare: Any = SimpleNamespace(unsafe=True, name="none")
    with pytest.raises(DataError, match=r"sandbox\.backend: none isolates nothing"):
        SourceScorer(SCORER, bare)


@pytest.mark.parametrize(
    ("name", "answer", "fine"),
    [
        ("countdown", "94*4 - 61 - (6/2)", True),
        ("countdown", "9**9**9", False),
        ("countdown", "x", False),
        ("countdown", "1" * 201, False),
        ("simple_integration", "-34*x**8/15 - 5*x/4 + C", True),
        ("simple_integration", "exp(x)*sin(2.5*x)/2 + C", True),
        ("simple_integration", "x.diff", False),
        ("simple_integration", "Symbol", False),
        ("simple_integration", "S(x)", False),
        ("simple_integration", "x__y", False),
        ("simple_integration", "9**9**9**9", False),
        ("simple_integration", "x['a']", False),
        ("jugs", "anything (goes) here.", True),
    ],
)
def test_screen(name: str, answer: str, fine: bool) -> None:
    assert harmless(name, answer) == fine
