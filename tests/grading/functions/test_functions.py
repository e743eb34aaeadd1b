"""Reward functions of the user's own: what they get, what they may return, and what each misbehaviour comes to."""

import math
import time
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from groupwise.errors import DataError
from groupwise.grading.functions.reward_function import FunctionScore, RewardFunction
from groupwise.grading.functions.samples import SampleInput, place_in_run, row_of
from groupwise.grading.reward_options import FunctionOptions
from groupwise.problem import Message, Problem

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def _current_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(HERE)


def samples(*texts: str, **row: Any) -> list[SampleInput]:
    return [
        SampleInput(
            problem_id=f"p{n}",
            ids=tuple(range(len(text))),
            raw_text=f"<s>{text}",
            text=text,
            finish_reason="length" if text == "long" else "stop",
            row={"answer": "7", **row},
            step=3,
            progress=0.25,
        )
        for n, text in enumerate(texts)
    ]


def function(name: str, workers: int = 1, **options: Any) -> RewardFunction:
    path = name if ":" in name or "." in name else f"user_rewards:{name}"
    return RewardFunction("mine", FunctionOptions(path=path, **options), workers=workers)


def score(name: str, *texts: str, row: dict[str, Any] | None = None, **options: Any) -> list[FunctionScore]:
    with function(name, **options) as reward:
        return reward.submit(samples(*texts, **(row or {}))).result()


@pytest.mark.parametrize(
    ("name", "texts", "values"),
    [
        ("length", ["a", "four"], [0.01, 0.04]),
        ("sees_all", ["abcd"], [6.0]),
        ("exact", ["is 7", "is 8"], [2.0, 0.0]),
        ("truncated", ["long", "a"], [1.0, 0.0]),
        ("whole", ["a"], [3.0]),
        ("numpy_scalar", ["a"], [0.5]),
        ("decimal", ["a"], [0.25]),
        ("slow_judge", ["abc", "de"], [3.0, 2.0]),
        ("judge", ["abc"], [3.0]),
        ("Judge.of", ["abc"], [6.0]),
        ("forks", ["a", "b"], [1.0, 1.0]),
        ("stricter", ["ab"], [2 * 0.25 + 3]),
        ("later", ["ab"], [2.0 + 3]),
        ("chatters", ["a"], [1.0]),
    ],
)
def test_sample_functions(name: str, texts: list[str], values: list[float]) -> None:
    got = score(f"user_rewards:{name}", *texts)
    assert [(s.problem_id, s.value, s.failure) for s in got] == [(f"p{n}", v, None) for n, v in enumerate(values)]


@pytest.mark.parametrize(
    ("name", "texts", "values"),
    [
        ("batch_lengths", ["", "four"], [0.0, 4.0]),
        ("batch_array", ["ab", "c"], [2.0, 1.0]),
        ("batch_async", ["ab", "c"], [1.0, 1.0]),
        ("batch_stricter", ["ab", "c"], [2 * 0.25 + 3, 0.25 + 3]),
    ],
)
def test_batch_functions(name: str, texts: list[str], values: list[float]) -> None:
    assert [s.value for s in score(name, *texts, call="batch")] == values


@pytest.mark.parametrize(
    ("name", "call", "kind", "message"),
    [
        ("nothing", "sample", "bad_type", "returned NoneType None, where a number was expected; return 0.0 for a"),
        ("nan", "sample", "not_finite", "returned nan"),
        ("infinite", "sample", "not_finite", "returned inf"),
        ("says_text", "sample", "bad_type", "returned str '0.5'"),
        ("complex_number", "sample", "bad_type", "returned complex"),
        ("vector", "sample", "bad_type", "returned ndarray"),
        ("raises", "sample", "raised", "KeyError: 'price' ("),
        ("exits", "sample", "raised", "SystemExit: 1 ("),
        ("hard_exit", "sample", "died", "ended with exit status 0"),
        ("eats", "sample", "memory", "Unable to allocate 7.45 GiB"),
        ("tells_and_raises", "sample", "raised", "RuntimeError: no verdict ("),
        ("batch_short", "batch", "wrong_length", "returned 1 numbers for 2 completions"),
        ("batch_single", "batch", "wrong_length", "returned 1 numbers for 2 completions"),
        ("batch_number", "batch", "bad_type", "returned float 2.0, where a list of 2 numbers was expected"),
        ("batch_generator", "batch", "bad_type", "returned generator"),
    ],
)
def test_kinds_of_failure(name: str, call: str, kind: str, message: str) -> None:
    for got in score(name, "a", "b", call=call):
        assert math.isnan(got.value)
        assert got.failure is not None
        assert got.failure.kind == kind
        assert message in got.failure.message


def test_line_of_the_error_is_the_users() -> None:
    (got,) = score("raises", "a")
    line = 1 + (HERE / "user_rewards.py").read_text().splitlines().index('    return float(row["price"])')
    assert got.failure is not None
    assert got.failure.message == f"KeyError: 'price' ({HERE}/user_rewards.py:{line})"


def test_only_the_hanging_sample_fails() -> None:
    with function("hangs_on_b", timeout_seconds=0.5) as reward:
        got = reward.submit(samples("a", "b", "c")).result()
        assert [s.value for s in got][::2] == [1.0, 1.0]
        assert got[1].failure is not None
        assert got[1].failure.kind == "timeout"
        assert [s.value for s in reward.submit(samples("d")).result()] == [1.0]


def test_only_the_bad_elements_of_a_batch_fail() -> None:
    got = score("batch_partly", "a", "b", "c", "d", call="batch")
    assert [got[0].value, got[3].value] == [1.0, 0.5]
    assert [s.failure.kind if s.failure else "" for s in got] == ["", "not_finite", "bad_type", ""]


def test_an_exception_in_the_list_is_the_failure_of_that_one() -> None:
    got = score("batch_gathered", "a", "b", "c", call="batch")
    assert [got[0].value, got[2].value] == [1.0, 1.0]
    assert math.isnan(got[1].value)
    assert got[1].failure is not None
    assert (got[1].failure.kind, got[1].failure.message) == ("raised", "ConnectionError: the judge is away")


def test_printed_text_belongs_to_the_failure() -> None:
    (got,) = score("tells_and_raises", "a")
    assert got.failure is not None
    assert got.failure.output == "the judge said: no"


def test_retries(tmp_path: Path) -> None:
    row = {"counter": str(tmp_path / "calls")}
    assert score("sometimes", "a", row=row, retries=2)[0].value == 1.0
    assert (tmp_path / "calls").read_text() == "xxx"
    failure = score("sometimes", "a", row={"counter": str(tmp_path / "again")}, retries=1)[0].failure
    assert failure is not None
    assert failure.kind == "raised"


def test_time_limit_is_of_one_call() -> None:
    began = time.monotonic()
    got = score("hangs", "a", "b", timeout_seconds=0.3, call="batch")
    assert time.monotonic() - began < 3
    assert {s.failure.kind for s in got if s.failure} == {"timeout"}


def test_samples_overlap() -> None:
    with function("hangs_on_b", workers=2, timeout_seconds=0.8) as reward:
        reward.submit(samples("a", "a", "a", "a")).result()
        began = time.monotonic()
        reward.submit(samples("b", "b")).result()
        assert time.monotonic() - began < 1.5


def test_no_samples() -> None:
    assert score("length") == []


def test_close_answers_what_waits() -> None:
    reward = function("hangs")
    future = reward.submit(samples("a", "b"))
    time.sleep(0.3)
    reward.close()
    assert [s.failure.kind if s.failure else "" for s in future.result()] == ["closed", "closed"]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("user_rewards:lenght", "user_rewards has no 'lenght'; did you mean 'length'?"),
        ("user_rewards:CONSTANT", "user_rewards:CONSTANT is not a function but int"),
        ("no_such_module:score", "there is no module 'no_such_module'. It is looked for in the current directory, "),
        ("user_rewards.deeper:score", "there is no module 'user_rewards.deeper'"),
        ("missing.py:score", "there is no file missing.py (looked for at "),
        ("nowhere", "there is no entry point 'nowhere' in the group groupwise.rewards"),
        (":score", "should read package.module:function or file.py:function"),
        ("user_rewards:trl_like", "wants completions, answer, which a reward function is not given. It can take"),
        ("user_rewards:trl_like", "Here completions is text, answer is row['answer']"),
        ("user_rewards:trl_state", "trainer_state is step and progress"),
        ("user_rewards:positional_only", "wants text, which a reward function is not given"),
    ],
)
def test_what_cannot_be_loaded_is_told_before_training(path: str, message: str) -> None:
    with (
        RewardFunction("mine", FunctionOptions(path=path), workers=1) as reward,
        pytest.raises(DataError) as caught,
    ):
        reward.dry_run(samples("a"))
    assert f"reward function 'mine' ({path}) cannot be loaded: " in str(caught.value)
    assert message in str(caught.value)


def test_error_while_importing_is_shown(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("x = 1\nimport not_installed_anywhere\n\ndef score(text):\n    return 1\n")
    (tmp_path / "syntax.py").write_text("def score(text):\n    return (\n")
    for file, message in (
        ("broken.py", f"No module named 'not_installed_anywhere' ({tmp_path}/broken.py:2)"),
        ("syntax.py", "SyntaxError"),
    ):
        with function(f"{tmp_path}/{file}:score") as reward, pytest.raises(DataError) as caught:
            reward.dry_run(samples("a"))
        assert "cannot be imported: " in str(caught.value)
        assert message in str(caught.value)


def test_file_with_a_neighbour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "beside.py").write_text("BONUS = 0.25\n")
    (tmp_path / "scores.py").write_text(
        "from beside import BONUS\nprint('loading')\n\ndef bonus(text):\n    return BONUS\n"
    )
    monkeypatch.chdir("/")
    assert score(f"{tmp_path}/scores.py:bonus", "a")[0].value == 0.25
    monkeypatch.chdir(tmp_path)
    assert score("scores.py:bonus", "a")[0].value == 0.25
    assert score("scores:bonus", "a")[0].value == 0.25


def test_entry_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "plugin_rewards.py").write_text("def brevity(text):\n    return -float(len(text))\n")
    info = tmp_path / "plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[groupwise.rewards]\nbrevity = plugin_rewards:brevity\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with RewardFunction("mine", FunctionOptions(path="brevity"), workers=1) as reward:
        assert reward.submit(samples("abc")).result()[0].value == -3.0
    with RewardFunction("mine", FunctionOptions(path="bravity"), workers=1) as reward:
        failure = reward.submit(samples("abc")).result()[0].failure
    assert failure is not None
    assert "installed packages have brevity" in failure.message


def test_dry_run() -> None:
    with function("length") as reward:
        assert [s.value for s in reward.dry_run(samples("a", "bb"))] == [0.01, 0.02]
    with function("nan") as reward, pytest.raises(DataError) as caught:
        reward.dry_run(samples("a"))
    text = str(caught.value)
    assert (
        "reward function 'mine' (user_rewards:nan) failed on a dry run, on problem p0: not_finite: returned nan" in text
    )
    assert "expected a finite number within 10 s and 2048 MB" in text
    with function("batch_short", call="batch") as reward, pytest.raises(DataError, match="a list of 2 finite numbers"):
        reward.dry_run(samples("a", "b"))


@pytest.mark.parametrize(
    ("step", "steps", "place"),
    [
        (1, 5, (1, 0.0)),
        (2, 5, (2, 0.25)),
        (5, 5, (5, 1.0)),
        # A measurement counts as the last step, also of a run that has only one.
        (None, 5, (5, 1.0)),
        (1, 1, (1, 1.0)),
        (None, 1, (1, 1.0)),
    ],
)
def test_place_in_a_run(step: int | None, steps: int, place: tuple[int, float]) -> None:
    assert place_in_run(step, steps) == place


def test_row_of_a_problem() -> None:
    problem = Problem(
        id="p",
        messages=(Message("user", "1+1?"),),
        answer="2",
        domain="sums",
        row={
            "answer": "one plus one is #### 2",
            "when": date(2025, 1, 2),
            "n": np.int64(3),
            "v": np.zeros(2),
            "b": b"x",
        },
    )
    assert row_of(problem) == {
        "id": "p",
        "question": "1+1?",
        "answer": "one plus one is #### 2",
        "domain": "sums",
        "when": "2025-01-02",
        "n": 3,
        "v": [0.0, 0.0],
        "b": "b'x'",
    }
