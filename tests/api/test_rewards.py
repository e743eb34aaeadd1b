"""Reward functions given as objects: where they run, what is said of it, and what ends one that hangs."""

import functools
import json
import re
import sys
import time
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

import groupwise
from groupwise.api.rewards import resolve
from groupwise.grading.functions.portable import NotPortableError, source_of
from groupwise.own_code import path_of
from tests.api.program import OPTIONS, PROBLEMS, Counted, shortness
from tests.support.commands import groupwise as command
from tests.support.runs import metrics

NUMBER = re.compile(r"\d+", re.IGNORECASE)
SCALE = 0.5
CALLS: list[str] = []
ONE_HALF = Fraction(1, 2)


def doubled(value: int) -> float:
    return 2 * value * SCALE


def digits(text: str, row: dict[str, Any] | None = None, *, most: int = 9) -> float:
    """Uses a pattern, a constant, a class, another function, a default, and itself."""
    found = [doubled(int(number)) for number in NUMBER.findall(text)]
    inner = [most - len(found) for _ in Counter(text)]
    rest = digits(text[1:]) if row else 0.0
    return sum(found) + sum(inner) + rest


def remembers(text: str) -> float:
    global CALLS
    CALLS = [*CALLS, text]
    return 0.0


def uses_an_object(text: str) -> float:
    return ONE_HALF.numerator * len(text)


@functools.cache
def decorated(text: str) -> float:
    return float(len(text))


def enclosed(bonus: Any) -> Callable[[str], float]:
    def with_bonus(text: str) -> float:
        return float(len(text) + bonus)

    return with_bonus


# As in a script or a notebook, whose functions no other process can import.
for function in (doubled, digits, remembers, uses_an_object):
    function.__module__ = "__main__"


def made(source: str, value: Any) -> float:
    """What the written module's function says."""
    names: dict[str, Any] = {}
    exec(compile(source, "written.py", "exec"), names)
    return float(names["mine"](value))


def test_a_function_of_a_file_is_its_path() -> None:
    assert path_of(shortness) == "tests.api.program:shortness"
    assert path_of(json.dumps) == "json:dumps"
    assert path_of(enclosed(1)) == path_of(Counted()) == path_of(lambda text: len(text)) == ""


def test_a_function_of_a_single_file_is_that_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "alone_in_a_file.py").write_text("def mine(text):\n    return 0.25\n")
    monkeypatch.syspath_prepend(tmp_path)
    module = import_module("alone_in_a_file")
    assert path_of(module.mine) == f"{tmp_path / 'alone_in_a_file.py'}:mine"
    monkeypatch.delitem(sys.modules, "alone_in_a_file")


@pytest.mark.parametrize(
    "function",
    [digits, lambda text: len(text) * SCALE, enclosed(3), *[lambda text, k=k: k + len(text) for k in (1, 2)]],
)
def test_the_source_says_the_same(function: FunctionType) -> None:
    source = source_of(function, "mine")
    assert made(source, "a1 22 b") == function("a1 22 b")
    assert "dict[str" not in source, "annotations may name what a worker does not have"


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (remembers, "it changes the global CALLS"),
        (uses_an_object, "it uses ONE_HALF, an object of Fraction"),
        (decorated, "it is an object of _lru_cache_wrapper"),
        (Counted(), "it is an object of Counted"),
        (functools.partial(digits, most=3), "it is an object of partial"),
        (enclosed(object()), "it uses bonus, an object of object"),
        (eval("lambda text: 1.0"), "its source cannot be read"),
        (functools.wraps(shortness)(lambda text: undefined_name(text)), "it uses undefined_name, which is not defined"),  # type: ignore[name-defined]  # noqa: F821
    ],
)
def test_why_a_source_cannot_be_sent(function: Any, why: str) -> None:
    with pytest.raises(NotPortableError, match=f"^{why}$"):
        source_of(function, "mine")


def test_a_changed_source_is_not_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "edited.py"
    file.write_text("def outer():\n    def mine(text):\n        return 1.0\n    return mine\n")
    monkeypatch.syspath_prepend(tmp_path)
    mine = import_module("edited").outer()
    file.write_text("def outer():\n    def mine(text):\n        return 2.5\n    return mine\n")
    with pytest.raises(NotPortableError, match="has changed since"):
        source_of(mine, "mine")
    monkeypatch.delitem(sys.modules, "edited")


def test_forms_of_the_argument() -> None:
    resolved = resolve([shortness, ("file.py:other", 0.5), (enclosed(1), -1)])
    assert resolved.options == {
        "rewards.functions.shortness.path": "tests.api.program:shortness",
        "rewards.functions.other.path": "file.py:other",
        "rewards.functions.other.weight": 0.5,
        "rewards.functions.with_bonus.weight": -1,
    }
    assert resolved.placed == {"rewards.functions.with_bonus.path": "function_with_bonus.py:with_bonus"}
    named = resolve(
        {"a": (shortness, 2.0), "b": {"path": shortness, "timeout_seconds": 3.0}, "format": {"weight": 0.1}}
    )
    assert named.options == {
        "rewards.functions.a.path": "tests.api.program:shortness",
        "rewards.functions.a.weight": 2.0,
        "rewards.functions.b.path": "tests.api.program:shortness",
        "rewards.functions.b.timeout_seconds": 3.0,
        "rewards.format": {"weight": 0.1},
    }
    assert resolve(shortness).names == resolve((shortness, 1)).names == ["shortness"]
    assert resolve({"gate": "format"}).options == {"rewards.gate": "format"}
    assert resolve([lambda text: 0.0, Counted()]).names == ["reward_1", "reward_2"]  # noqa: ARG005
    assert "a second reward named shortness" in resolve([shortness, shortness]).errors[0]
    assert resolve([3]).errors == [  # type: ignore[list-item]
        "rewards[0]: found int, expected a function, FILE.py:NAME, or a pair of one of them and its weight"
    ]


NOTEBOOK = """
import time
SECONDS = 60.0

def hangs(text):
    if set("13456789") & set(text):
        time.sleep(SECONDS)
    return 0.5
"""


def defined_in_a_cell(source: str, name: str, monkeypatch: pytest.MonkeyPatch) -> Callable[..., float]:
    """A function as a notebook has it: of `__main__`, with a source that no file holds."""
    import linecache

    cell = "/tmp/ipykernel_1/123.py"
    monkeypatch.setitem(linecache.cache, cell, (len(source), None, source.splitlines(keepends=True), cell))
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(source, cell, "exec"), names)
    function: Callable[..., float] = names[name]
    assert function.__module__ == "__main__"
    return function


def test_what_hangs_is_killed_at_its_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hangs = defined_in_a_cell(NOTEBOOK, "hangs", monkeypatch)
    problems = [{"question": "1 + 1 = ?", "answer": 2}]
    begin = time.monotonic()
    run = groupwise.train(
        "demo",
        problems=problems,
        rewards={"hangs": {"path": hangs, "timeout_seconds": 0.5}},
        output=tmp_path / "run",
        quiet=True,
        **{**OPTIONS, "run.steps": 1, "active_sampling": {"filter": "none", "refill": False}},
    )
    # The dry run knows the answer, 2.
    said = {bool(set("13456789") & set(row["completion"])): row for row in run.rollouts(1)}
    assert said[True]["status"]["hangs"] == "error"
    assert "timeout: did not return within 0.5 s and was killed" in said[True]["detail"]["hangs"]
    if False in said:
        assert said[False]["rewards"]["hangs"] == 0.5
    assert time.monotonic() - begin < 30
    assert run.config.rewards.functions["hangs"].path == f"{tmp_path / 'run/inputs/function_hangs.py'}:hangs"


def test_a_dry_run_that_hangs_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hangs = defined_in_a_cell(NOTEBOOK.replace('set("13456789") & set(text)', "True"), "hangs", monkeypatch)
    rewards = {"hangs": {"path": hangs, "timeout_seconds": 0.5}}
    with pytest.raises(groupwise.DataError, match=r"timeout: did not return within 0.5 s and was killed"):
        groupwise.train("demo", problems=PROBLEMS, rewards=rewards, output=tmp_path / "run", quiet=True, **OPTIONS)
    assert list(tmp_path.iterdir()) == []


def test_an_object_is_called_here_and_has_to_be_given_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    counted, whole = Counted(), Counted()
    reference = groupwise.train(rewards={"own": (whole, 0.5)}, output=tmp_path / "whole", quiet=True, **OPTIONS)
    assert whole.calls > 3 * 12
    assert reference.config.rewards.functions["own"].path == "object:own"
    for step in groupwise.steps(rewards={"own": (counted, 0.5)}, output=tmp_path / "run", quiet=True, **OPTIONS):
        if step.number == 2:
            break
    folder = str(tmp_path / "run")
    outcome = command(capsys, "train", "--resume", folder)
    assert outcome.code == 3
    assert "groupwise.resume(RUN, rewards={'own': ...})" in outcome.err
    with pytest.raises(groupwise.DataError, match=r"only a program can call, own: give them again"):
        groupwise.resume(folder, quiet=True)
    with pytest.raises(
        groupwise.UsageError, match=r"own is not what the run began with, object:own with the weight 0\.5"
    ):
        groupwise.resume(folder, rewards={"own": (counted, 0.25)}, quiet=True)
    with pytest.raises(groupwise.UsageError, match="has no reward function other"):
        groupwise.resume(folder, rewards={"other": counted}, quiet=True)
    assert metrics(groupwise.resume(folder, rewards={"own": counted}, quiet=True).folder) == metrics(reference.folder)


def test_options_of_a_worker_have_no_effect_here() -> None:
    with pytest.raises(groupwise.UsageError, match=r"rewards.functions.own.timeout_seconds=3.0 has no effect with"):
        groupwise.train(rewards={"own": {"path": Counted(), "timeout_seconds": 3.0}}, **OPTIONS)


def test_what_an_object_returns_is_checked(tmp_path: Path) -> None:
    class Wrong(Counted):
        def __call__(self, text: str) -> Any:
            return None if text else super().__call__(text)

    class Raises:
        def __call__(self, text: str) -> float:
            raise ValueError(f"no {text[:3]}")

    class Strange:
        def __call__(self, completion: str) -> float:
            return len(completion)

    for reward, said in (
        (Wrong(), r"bad_type: returned NoneType None, .* expected a finite number\. Fix the function"),
        (Raises(), r"raised: ValueError: no <th \(.*test_rewards.py:\d+\)"),
        (Strange(), r"cannot be loaded: own wants completion, .* Here completion is text"),
    ):
        with pytest.raises(groupwise.DataError, match=said):
            groupwise.train(rewards={"own": reward}, output=tmp_path / "run", quiet=True, **OPTIONS)
    assert list(tmp_path.iterdir()) == []
