"""The order of problems is a function of the position."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupwise.data.stream import ProblemStream, epoch_order, shuffled_stream
from groupwise.problem import Message, Problem


def problem(index: int) -> Problem:
    return Problem(id=str(index), messages=(Message("user", f"{index}?"),), answer=str(index))


@given(count=st.integers(1, 40), seed=st.integers(0, 2**70), epoch=st.integers(0, 10**6))
def test_each_problem_exactly_once_an_epoch(count: int, seed: int, epoch: int) -> None:
    stream = shuffled_stream([problem(i) for i in range(count)], seed)
    drawn = [stream.at(epoch * count + i).id for i in range(count)]
    assert sorted(drawn, key=int) == [str(i) for i in range(count)]


def test_the_position_is_the_whole_state() -> None:
    problems = [problem(i) for i in range(10)]
    whole = [shuffled_stream(problems, 3).at(i) for i in range(35)]
    backwards = shuffled_stream(problems, 3)
    assert [backwards.at(i) for i in reversed(range(35))] == whole[::-1]
    assert [shuffled_stream(problems, 3).at(i) for i in range(17, 35)] == whole[17:]


def test_orders_differ_between_epochs_and_seeds() -> None:
    orders = {tuple(epoch_order(20, seed, epoch)) for seed in range(5) for epoch in range(5)}
    assert len(orders) == 25


def test_the_order_is_the_same_on_every_machine() -> None:
    assert epoch_order(10, 0, 0).tolist() == [0, 3, 5, 8, 2, 7, 1, 6, 4, 9]


def test_epochs() -> None:
    stream = shuffled_stream([problem(i) for i in range(4)], 0)
    assert stream.problems_per_epoch == 4
    endless = ProblemStream(problem)
    assert endless.problems_per_epoch is None
    assert [endless.at(i).id for i in (5, 0, 10**9)] == ["5", "0", "1000000000"]


def test_impossible_positions() -> None:
    with pytest.raises(ValueError, match="from 0"):
        ProblemStream(problem).at(-1)
    with pytest.raises(ValueError, match="no problems"):
        shuffled_stream([], 0)
