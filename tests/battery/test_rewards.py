"""Rewards: 16 points."""

import os
import signal
from pathlib import Path

import pytest

from groupwise.grading.functions.reward_function import RewardFunction
from groupwise.grading.functions.samples import SampleInput
from groupwise.grading.reward_options import FunctionOptions
from tests.battery.case import Case

HERE = "tests/battery/test_rewards.py::"
RUN, FUNCTIONS = "tests/training/test_run_with_rewards.py::test_", "tests/grading/functions/test_functions.py::test_"
POOL, ATTACKS = "tests/grading/workers/test_pool.py::test_", "tests/grading/sandbox/test_attack_suite.py::test_"

CASES = (
    Case(
        19,
        2,
        "a reward raises",
        "the answer is left out, or the run stops, as configured; named with its problem, counted",
        (
            RUN + "a_function_that_sometimes_fails",
            RUN + "a_run_that_stops_at_its_first_step",
            "tests/grading/test_grading.py::test_a_function_that_raises_does_what_its_option_says",
        ),
    ),
    Case(
        20,
        3,
        "a reward hangs",
        "killed at its deadline, the worker replaced, training continues",
        (FUNCTIONS + "only_the_hanging_sample_fails", POOL + "timeout_kills", POOL + "retries"),
    ),
    Case(
        21,
        2,
        "a reward returns NaN, None, infinity, text, a bool, a tensor",
        "a number or a failure that names it, never a silent 0",
        (FUNCTIONS + "sample_functions", FUNCTIONS + "kinds_of_failure"),
    ),
    Case(
        22,
        2,
        "a list of another length, a generator, a dictionary",
        "a failure that names the function, what was expected and what it gave",
        (FUNCTIONS + "kinds_of_failure", RUN + "a_batch_function_of_the_wrong_length_fails_for_all_of_a_group"),
    ),
    Case(
        23,
        2,
        "a reward changes its inputs, prints without end, exits, forks, changes folder and alarm",
        "the trainer notices nothing",
        (
            HERE + "test_what_a_function_does_to_its_process_stays_there",
            FUNCTIONS + "kinds_of_failure",
            POOL + "prints_neither_disturb_nor_block",
            POOL + "fork_that_returns_answers_once",
        ),
    ),
    Case(
        24,
        3,
        "attacks on the sandbox",
        "all held, or programs are not graded",
        (ATTACKS + "the_whole_suite", ATTACKS + "attacks_of_others", ATTACKS + "a_sandbox_that_leaks_is_not_opened"),
    ),
    Case(
        25,
        2,
        "the grader's cases",
        "at most 1 % wrongly right and 5 % wrongly wrong, none hangs",
        (
            "tests/grading/math/test_given_cases.py::test_verdicts_on_the_given_cases",
            "tests/grading/math/test_corpus.py::test_every_case_takes_less_than_the_bound",
        ),
    ),
)

RUDE = """
import os, signal, sys

def score(text, row):
    row.clear()
    row["answer"] = "changed"
    os.chdir("/")
    os.environ["GROUPWISE_RUDE"] = "1"
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.alarm(1)
    sys.stdout.write("x" * 50_000_000)
    return 1.0
"""


def test_what_a_function_does_to_its_process_stays_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rude.py").write_text(RUDE)
    row = {"answer": "3"}
    before = Path.cwd(), signal.getsignal(signal.SIGALRM)
    samples = [SampleInput("p1", (1, 2), "a", "a", "stop", row, 1, 0.0) for _ in range(3)]
    options = FunctionOptions(path="rude.py:score", timeout_seconds=20)
    with RewardFunction("rude", options) as function:
        scores = function.submit(samples).result(timeout=50)
    assert [score.value for score in scores] == [1.0] * 3
    assert row == {"answer": "3"}
    assert (Path.cwd(), signal.getsignal(signal.SIGALRM)) == before
    assert "GROUPWISE_RUDE" not in os.environ
    assert signal.alarm(0) == 0
