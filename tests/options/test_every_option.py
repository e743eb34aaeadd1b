"""Every option of `groupwise train` changes the number that it claims to change, by the amount that it claims."""

import functools
import itertools
from typing import Any

import pytest

from groupwise.config import TrainConfig
from groupwise.config.compose import compose_train_config
from groupwise.config.describe import OptionRow, describe_options
from tests.options import (
    adapter_cases,
    advantage_cases,
    answer_cases,
    engine_cases,
    form_cases,
    function_cases,
    guard_cases,
    objective_cases,
    optimizer_cases,
    penalty_cases,
    sampling_cases,
    sandbox_cases,
    source_cases,
)
from tests.options.case import ByHand, Case, equal, overrides
from tests.options.files import write_files
from tests.options.runs import Runs, Trace

RUNS: dict[str, Case] = {
    **source_cases.CASES,
    **adapter_cases.CASES,
    **sampling_cases.CASES,
    **penalty_cases.DOMAINS,
    **advantage_cases.CASES,
    **objective_cases.CASES,
    **penalty_cases.CASES,
    **optimizer_cases.CASES,
}
BY_HAND: dict[str, ByHand] = {
    **source_cases.RESUMED,
    **answer_cases.ANSWERS,
    **form_cases.FORM,
    **form_cases.LENGTH,
    **form_cases.TEXT,
    **function_cases.FUNCTIONS,
    **form_cases.TABLES,
    **function_cases.GRADING,
    **sandbox_cases.SANDBOX,
    **guard_cases.GUARDS,
    **engine_cases.ENGINES,
}
CASES: dict[str, Case | ByHand] = {**RUNS, **BY_HAND}


def options_by_name() -> dict[str, OptionRow]:
    """Every option of every technique by `key (technique)`, and by the key alone where that can mean only one."""
    rows = describe_options(TrainConfig)
    named = {f"{row.key} ({row.technique})": row for row in rows if row.technique}
    for row in rows:
        meanings = [other._replace(technique="") for other in rows if other.key == row.key]
        if all(meaning == meanings[0] for meaning in meanings):
            named[row.key] = meanings[0]
    return named


OPTIONS = options_by_name()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return write_files(tmp_path_factory.mktemp("files"))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, files: dict[str, str]) -> Runs:
    return Runs(tmp_path_factory.mktemp("runs"), files)


def traces(runs: Runs, key: str) -> dict[str, Trace]:
    """The run of every value."""
    return {value: runs.of(overrides(key, RUNS[key], value)) for value in RUNS[key].values}


def test_every_option_has_a_case() -> None:
    """An option that no code reads cannot have one that passes."""
    assert set(CASES) <= set(OPTIONS)
    without = [
        (row.key, row.technique)
        for row in describe_options(TrainConfig)
        if not {f"{row.key} ({row.technique})", row.key} & set(CASES)
    ]
    assert without == []
    assert len(CASES) == len(RUNS) + len(BY_HAND)


@pytest.mark.parametrize("key", CASES)
def test_every_choice_has_a_run(key: str) -> None:
    kind, _, choices = OPTIONS[key].type.partition("one of ")
    if not kind:
        # A technique with options is written with its type.
        named = [value.removeprefix("{type: ").partition(",")[0] for value in CASES[key].values]
        assert sorted(named) == sorted(choices.split(", "))
    assert len(set(CASES[key].values)) > 1


@pytest.mark.slow
@pytest.mark.parametrize("key", RUNS)
def test_the_option_changes_what_it_claims(key: str, runs: Runs) -> None:
    case = RUNS[key]
    made = traces(runs, key)
    numbers: dict[str, Any] = {value: case.number(trace) for value, trace in made.items()}
    for (value, one), (other_value, other) in itertools.combinations(numbers.items(), 2):
        assert not equal(one, other, 10 * case.tolerance), f"{value} and {other_value} are the same"
    for value, trace in made.items():
        if case.expected is not None:
            expected = case.expected(trace)
            assert equal(numbers[value], expected, case.tolerance), f"{value}: {numbers[value]}, not {expected}"
    if case.same is not None:
        first, *others = (case.same(trace) for trace in made.values())
        for same in others:
            assert equal(first, same, case.same_tolerance), "something else has changed"


@pytest.mark.parametrize(
    "key", [pytest.param(key, marks=[pytest.mark.slow] if case.slow else []) for key, case in BY_HAND.items()]
)
def test_the_option_gives_what_follows_by_hand(key: str, files: dict[str, str]) -> None:
    case = BY_HAND[key]
    for one, other in itertools.combinations(case.by_hand.values(), 2):
        assert one != other, "every value claims something else"
    for value, expected in case.by_hand.items():
        arguments = [functools.reduce(filled, files.items(), override) for override in overrides(key, case, value)]
        assert case.observe(compose_train_config(arguments)) == expected, value


def filled(override: str, file: tuple[str, str]) -> str:
    name, path = file
    return override.replace(f"{{{name}}}", path)


@pytest.mark.slow
@pytest.mark.parametrize("key", ["objective.surrogate.clip_low (ppo_clip)", "objective.surrogate.clip_high (ppo_clip)"])
def test_a_narrower_bound_takes_the_gradient_of_more_tokens(key: str, runs: Runs) -> None:
    shares = [RUNS[key].number(trace)["clipped"] for trace in traces(runs, key).values()]
    assert (shares[0][1:] > 0).any()
    assert shares[0][1] >= shares[1][1]
