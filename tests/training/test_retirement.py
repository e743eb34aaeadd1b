"""Retirement: problems that are solved often enough are drawn no more."""

from groupwise.config import TrainConfig
from groupwise.data.stream import ProblemStream, shuffled_stream
from groupwise.problem import Message, Problem
from groupwise.ranks import Ranks
from groupwise.training.collect import collect, next_positions, retired_problems
from tests.support.fakes import Pay, fake_sampler

RIGHT: Pay = (1.0, 0.0)
WRONG: Pay = (0.0, 0.0)


def stream(size: int) -> ProblemStream:
    return shuffled_stream([Problem(f"p{i}", (Message("user", str(i)),), answer=str(i)) for i in range(size)], seed=0)


def test_solved_problems_are_retired() -> None:
    """Positions 0, 1, 2, 3 have 0, 1, 2 and 4 of 4 answers right; one that cannot be judged is never retired."""
    right = {0: 0, 1: 1, 2: 2, 3: 4}

    def pay(position: int) -> list[Pay]:
        return [None] * 4 if position == 4 else [RIGHT] * right[position] + [WRONG] * (4 - right[position])

    config = TrainConfig.model_validate(
        {
            "batch": {"prompts_per_step": 5, "samples_per_prompt": 4},
            "active_sampling": {"filter": "none", "refill": False},
        }
    )
    collected = collect(fake_sampler(config, pay), 1, 0, frozenset(), Ranks())
    assert retired_problems(collected, 1.0) == ["p3"]
    assert retired_problems(collected, 0.5) == ["p2", "p3"]
    assert retired_problems(collected, 0.25) == ["p1", "p2", "p3"]
    assert retired_problems(collected, 0.0) == []


def test_retired_problems_are_passed_over() -> None:
    problems = stream(4)
    retired = problems.at(1).id
    drawn = next_positions(problems, 0, 7, frozenset([retired]))
    assert [problems.at(position).id for position in drawn].count(retired) == 0
    assert drawn[0] == 0
    assert drawn[1] == 2
    assert len(drawn) == 7


def test_where_all_are_retired_all_count_again() -> None:
    problems = stream(3)
    everything = frozenset(problems.at(position).id for position in range(3))
    assert len(next_positions(problems, 0, 3, everything)) == 3
