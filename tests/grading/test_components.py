"""The total of a completion: which components there are, what is paid under which condition, and what adds up."""

import math
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupwise.config import TrainConfig
from groupwise.config.checks.rewards import conditions, trap
from groupwise.config.checks.table import tables_of
from groupwise.grading.reward_options import RewardOptions, component_names
from groupwise.grading.totals import combine, rewarded, weighted_rewards, weights

THREE = ("correctness", "format", "overlong")
NAN = math.nan


def options(**sections: Any) -> RewardOptions:
    """Reward options; functions need no path here."""
    for function in sections.get("functions", {}).values():
        function.setdefault("path", "mine.py:f")
    return RewardOptions.model_validate(sections)


def condition_errors(table: RewardOptions) -> list[str]:
    return [finding.message for finding in conditions(tables_of(TrainConfig(rewards=table))[0])]


def trap_of(table: RewardOptions) -> str | None:
    return next((finding.message for finding in trap(tables_of(TrainConfig(rewards=table))[0])), None)


OVERLONG = {"buffer_tokens": 16}

# Which components there are


def test_correctness_and_format_are_always_judged() -> None:
    assert component_names([options()]) == ("correctness", "format")
    assert component_names([]) == ("correctness", "format")


def test_names_have_a_fixed_order_over_all_tables() -> None:
    first = options(functions={"b": {}, "a": {"weight": 0.0}}, repetition={"weight": 0.1}, length={"weight": 1.0})
    second = options(functions={"c": {}, "a": {}}, language={"weight": 0.5}, overlong=OVERLONG)
    assert component_names([first]) == ("correctness", "format", "length", "repetition", "b", "a")
    assert component_names([first, second]) == (
        "correctness", "format", "overlong", "length", "language", "repetition", "b", "a", "c",
    )  # fmt: skip


def test_a_condition_is_judged_though_it_has_no_weight() -> None:
    assert component_names([options(gate="language")])[2:] == ("language",)
    assert component_names([options(format={"requires": "language"})])[2:] == ("language",)
    assert weights(options(gate="language"), ("language",)).tolist() == [0.0]


def test_a_function_that_grades_correctness_is_no_component_of_its_own() -> None:
    grading = options(correctness={"grader": "mine", "weight": 2.0}, functions={"mine": {}, "other": {"weight": 0.5}})
    assert component_names([grading]) == ("correctness", "format", "other")
    assert weights(grading, ("correctness", "mine", "other")).tolist() == [2.0, 0.0, 0.5]
    beside = options(functions={"mine": {}})
    assert component_names([grading, beside]) == ("correctness", "format", "other", "mine"), "where it stands alone"


# What adds up


@pytest.mark.parametrize(("requires", "totals"), [("", [1.25, 1.0, 0.25, 0.0]), ("correctness", [1.25, 1.0, 0.0, 0.0])])
def test_combine(requires: str, totals: list[float]) -> None:
    rewards_BK = np.array([[1.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    table = options(format={"weight": 0.25, "requires": requires}, overlong=OVERLONG)
    totals_B = combine(rewards_BK, table, THREE)
    assert totals_B.dtype == np.float64
    assert totals_B.tolist() == totals
    assert weighted_rewards(rewards_BK, table, THREE)[:, 1].tolist() == [0.25, 0.0, totals[2], 0.0]
    assert rewards_BK[2, 1] == 1.0, "the components stay as they were judged"


def test_weights_of_every_kind() -> None:
    table = options(
        correctness={"weight": 2.0}, format={"weight": 0.5}, overlong={"weight": 0.25, "buffer_tokens": 8},
        length={"weight": 0.125}, language={"weight": 0.75}, repetition={"weight": 4.0},
        functions={"mine": {"weight": -1.5}},
    )  # fmt: skip
    names = component_names([table])
    assert weights(table, names).tolist() == [2.0, 0.5, 0.25, 0.125, 0.75, 4.0, -1.5]
    rewards_BK = np.array([[1.0, 0.5, -1.0, -0.5, 1.0, -0.25, 2.0]])
    # 2 + .25 - .25 - .0625 + .75 - 1 - 3
    assert combine(rewards_BK, table, names).tolist() == [-1.3125]


def test_a_component_that_a_domain_does_not_use_counts_nothing() -> None:
    numbers, code = options(language={"weight": 0.5}), options(functions={"mine": {}}, overlong=OVERLONG)
    names = component_names([numbers, code])
    assert names == ("correctness", "format", "overlong", "language", "mine")
    assert weights(numbers, names).tolist() == [1.0, 0.0, 0.0, 0.5, 0.0]
    assert weights(code, names).tolist() == [1.0, 0.0, 1.0, 0.0, 1.0]
    row = np.array([[1.0, 1.0, -0.5, 1.0, NAN]])
    assert rewarded(row, numbers, names).tolist() == [[1.0, 1.0, 0.0, 1.0, 0.0]], (
        "a column of zeros, whatever stands there"
    )
    assert combine(row, numbers, names).tolist() == [1.5]
    assert np.isnan(combine(row, code, names)).tolist() == [True]


def test_an_error_is_never_a_zero_in_the_total() -> None:
    rewards_BK = np.array([[NAN, 1.0, 0.0], [1.0, NAN, 0.0], [1.0, 1.0, 0.0]])
    for table in (
        options(),
        options(format={"weight": 0.5, "requires": "correctness"}),
        options(format={"weight": 0.5}, gate="correctness"),
        options(correctness={"weight": 0.0}, format={"weight": 1.0, "requires": "correctness"}),
    ):
        assert np.isnan(combine(rewards_BK, table, THREE)).tolist() == [True, True, False]
        totals_B = combine(np.array([[0.0, NAN, 0.0], [0.0, 1.0, 0.0]]), table, THREE)
        assert np.isnan(totals_B).tolist() == [True, False], "also where nothing of it would be paid"


@given(
    row=st.lists(st.floats(-1, 1), min_size=5, max_size=5),
    weighting=st.lists(st.floats(0, 3), min_size=5, max_size=5),
    size=st.integers(2, 70),
)
def test_equal_rewards_have_equal_totals_to_the_last_bit(row: list[float], weighting: list[float], size: int) -> None:
    built_in = ("correctness", "format", "language", "repetition", "length")
    table = options(**{name: {"weight": weight} for name, weight in zip(built_in, weighting, strict=True)})
    names = component_names([table])
    rewards_BK = np.array([row[: len(names)]] * size)
    for order in (rewards_BK, np.asfortranarray(rewards_BK), np.repeat(rewards_BK, 2, axis=1)[:, ::2]):
        assert len(set(combine(order, table, names).tolist())) == 1


def test_the_shape_is_checked() -> None:
    with pytest.raises(ValueError, match="correctness, format, overlong"):
        combine(np.ones((3, 2)), options(), THREE)
    with pytest.raises(ValueError, match="one column"):
        rewarded(np.ones(3), options(), THREE)


# Conditions


def test_a_condition_needs_the_full_component() -> None:
    table = options(functions={"mine": {"requires": "format"}, "cost": {"requires": "mine", "weight": -1.0}})
    names = component_names([table])
    rewards_BK = np.array([[0.0, 1.0, 0.5, 0.25], [0.0, 0.75, 1.0, 0.25], [0.0, NAN, 0.5, 0.5]])
    # `requires` reads what was judged: `mine` of the second is full, though it is not paid there.
    assert rewarded(rewards_BK, table, names)[:2].tolist() == [[0.0, 1.0, 0.5, 0.0], [0.0, 0.75, 0.0, 0.25]]
    assert np.isnan(combine(rewards_BK, table, names)).tolist() == [False, False, True]


def test_behind_a_gate_only_penalties_count() -> None:
    table = options(
        gate="format",
        format={"weight": 0.5},
        overlong=OVERLONG,
        functions={"bonus": {"weight": 2.0}, "cost": {"weight": -1.0}},
    )
    names = component_names([table])
    assert names == ("correctness", "format", "overlong", "bonus", "cost")
    rewards_BK = np.array([[1.0, 1.0, -0.5, 0.25, 0.125], [1.0, 0.75, -0.5, 0.25, 0.125], [0.0, 0.0, 0.0, -1.0, -1.0]])
    assert rewarded(rewards_BK, table, names).tolist() == [
        [1.0, 1.0, -0.5, 0.25, 0.125],
        [0.0, 0.0, -0.5, 0.0, 0.125],
        [0.0, 0.0, 0.0, -1.0, 0.0],
    ]
    assert combine(rewards_BK, table, names).tolist() == [1.375, -0.625, -2.0]


# What is wrong with conditions


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (
            {"format": {"requires": "corectness"}},
            "rewards.format.requires=corectness: there is no such component; did you mean",
        ),
        (
            {"gate": "xyzzy"},
            "rewards.gate=xyzzy: there is no such component; expected one of correctness, format, lang",
        ),
        ({"gate": "overlong"}, "overlong never reaches 1"),
        ({"format": {"requires": "length"}}, "length never reaches 1"),
        ({"functions": {"f": {"requires": "repetition"}}}, "rewards.functions.f.requires=repetition: repetition never"),
        ({"format": {"requires": "format"}}, "rewards.format.requires=format: these conditions go in a circle"),
        ({"functions": {"f": {"requires": "f"}}}, "rewards.functions.f.requires=f: these conditions go in a circle"),
        ({"functions": {"correctness": {}}}, "rewards.functions.correctness: the name is taken"),
        ({"functions": {"math": {}}}, "rewards.functions.math: the name is taken"),
        (
            {"correctness": {"grader": "f"}, "functions": {"f": {}}, "gate": "f"},
            "rewards.gate=f: this function grades correctness; write rewards.gate=correctness",
        ),
        (
            {"correctness": {"grader": "f"}, "functions": {"f": {"weight": 2.0}}},
            "rewards.functions.f.weight has no effect: the function grades correctness",
        ),
    ],
)
def test_what_is_wrong_is_named(table: dict[str, Any], words: str) -> None:
    (error,) = condition_errors(options(**table))
    assert words in error


def test_a_long_circle_is_shown_in_its_order() -> None:
    functions = {"a": {"requires": "b"}, "b": {"requires": "format"}, "c": {"requires": "a"}}
    (error,) = condition_errors(options(format={"requires": "a"}, functions=functions))
    assert "rewards.format.requires=a" in error
    links = re.findall(r"(\w+)\.requires=(\w+)", error)
    assert all(to == links[(i + 1) % 3][0] for i, (_, to) in enumerate(links)), "each link leads to the next"
    assert "functions.c" not in error


def test_sound_conditions_have_no_error() -> None:
    assert condition_errors(options()) == []
    chain = {"a": {"requires": "b"}, "b": {"requires": "correctness"}, "c": {"requires": "language"}}
    assert condition_errors(options(format={"requires": "a"}, functions=chain, gate="correctness")) == []


def test_everything_is_listed_at_once() -> None:
    table = options(
        format={"requires": "x"}, gate="y", functions={"f": {"requires": "g"}, "g": {"requires": "f"}, "format": {}}
    )
    assert len(condition_errors(table)) == 4


# Where a wrong answer is paid like a right one


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"format": {"weight": 1.0}}, "a wrong answer can earn 1 (format), as much as the 1 of a right one without it"),
        ({"format": {"weight": 1.5}}, "1.5 (format), more than the 1"),
        (
            {"format": {"weight": 0.5}, "language": {"weight": 0.5}},
            "0.5 (format) + 0.5 (language) = 1, as much as the 1 of a right one without it: lower "
            "rewards.format.weight, rewards.language.weight to less than 1 together",
        ),
        ({"correctness": {"weight": 0.1}, "language": {"weight": 0.2}}, "0.2 (language), more than the 0.1"),
        (
            {"format": {"weight": 0.2}, "functions": {"f": {"weight": 0.8}}},
            "0.2 (format) + 0.8 (f) = 1, as much as the 1 of a right one without it (what f can return is not known; "
            "taken as 0 to 1)",
        ),
        ({"format": {"weight": 1.0, "requires": "language"}}, "1 (format)"),
        ({"format": {"weight": 0.1}, "gate": "format"}, "earns nothing, and a wrong one that is full in it up to 0.1"),
    ],
)
def test_the_trap_is_shown_with_its_numbers(table: dict[str, Any], words: str) -> None:
    found = trap_of(options(**table))
    assert found is not None
    assert words in found


@pytest.mark.parametrize(
    "table",
    [
        {},
        {"format": {"weight": 0.2}},
        {"format": {"weight": 2.0, "requires": "correctness"}},
        {"format": {"weight": 2.0}, "gate": "correctness"},
        {"correctness": {"weight": 0.0}, "format": {"weight": 1.0}},
        {"length": {"weight": 5.0, "type": "group_relative"}},
        {"functions": {"f": {"weight": -3.0}}},
        {"correctness": {"grader": "f"}, "functions": {"f": {"weight": 3.0}}},
        {"gate": "format"},
    ],
)
def test_where_there_is_no_trap(table: dict[str, Any]) -> None:
    assert trap_of(options(**table)) is None


@given(right=st.floats(0.01, 2), form=st.floats(0, 2), language=st.floats(0, 2), gate=st.sampled_from(["", "format"]))
def test_the_trap_is_where_the_totals_say_so(right: float, form: float, language: float, gate: str) -> None:
    table = options(correctness={"weight": right}, format={"weight": form}, language={"weight": language}, gate=gate)
    names = ("correctness", "format", "language")
    right_alone, wrong_full = combine(np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 1.0]]), table, names)
    assert (trap_of(table) is not None) == bool(wrong_full > 0 and wrong_full >= right_alone)
