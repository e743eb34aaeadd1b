"""Every option of `groupwise train` changes the number that it claims to change, by the amount that it claims."""

import itertools
import typing
from typing import Any

import pytest

from groupwise.config import TrainConfig
from groupwise.config_options import describe_options, field_at
from tests.options import (
    advantage_cases,
    objective_cases,
    optimizer_cases,
    penalty_cases,
    sampling_cases,
    source_cases,
)
from tests.options.case import Case, equal
from tests.options.files import write_files
from tests.options.runs import Runs, Trace

CASES: dict[str, Case] = {
    **source_cases.CASES,
    **sampling_cases.CASES,
    **advantage_cases.CASES,
    **objective_cases.CASES,
    **penalty_cases.CASES,
    **optimizer_cases.CASES,
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return Runs(tmp_path_factory.mktemp("runs"), write_files(tmp_path_factory.mktemp("files")))


def traces(runs: Runs, key: str) -> dict[str, Trace]:
    """The run of every value."""
    case = CASES[key]
    return {value: runs.of([*case.base, *case.beside.get(value, ()), f"{key}={value}"]) for value in case.values}


def test_every_option_has_a_case() -> None:
    """An option that no code reads cannot have one that passes."""
    assert list(CASES) == [row.key for row in describe_options(TrainConfig)]


@pytest.mark.parametrize("key", CASES)
def test_every_choice_has_a_run(key: str) -> None:
    info = field_at(TrainConfig, key.split("."))
    assert info is not None
    choices = [str(choice) for choice in typing.get_args(info.annotation)]
    if typing.get_origin(info.annotation) is typing.Literal:
        assert sorted(CASES[key].values) == sorted(choices)
    assert len(set(CASES[key].values)) > 1


@pytest.mark.slow
@pytest.mark.parametrize("key", CASES)
def test_the_option_changes_what_it_claims(key: str, runs: Runs) -> None:
    case = CASES[key]
    made = traces(runs, key)
    numbers: dict[str, Any] = {value: case.number(trace) for value, trace in made.items()}
    for (value, one), (other_value, other) in itertools.combinations(numbers.items(), 2):
        assert not equal(one, other, 10 * case.tolerance), f"{value} and {other_value} are the same"
    for value, trace in made.items():
        if case.expected is not None:
            expected = case.expected(trace)
            assert equal(numbers[value], expected, case.tolerance), f"{value}: {numbers[value]}, not {expected}"


@pytest.mark.slow
@pytest.mark.parametrize("key", [key for key, case in CASES.items() if case.same is not None])
def test_the_option_changes_nothing_else(key: str, runs: Runs) -> None:
    case = CASES[key]
    assert case.same is not None
    first, *others = (case.same(trace) for trace in traces(runs, key).values())
    for other in others:
        assert equal(first, other, case.same_tolerance)


@pytest.mark.slow
@pytest.mark.parametrize("key", ["objective.clip_low", "objective.clip_high"])
def test_a_narrower_bound_takes_the_gradient_of_more_tokens(key: str, runs: Runs) -> None:
    shares = [CASES[key].number(trace)["clipped"] for trace in traces(runs, key).values()]
    assert (shares[0][1:] > 0).any()
    assert shares[0][1] >= shares[1][1]
