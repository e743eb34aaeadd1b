"""The sample optimal length of ShorterBetter (2504.21370), by hand."""

import math

import pytest

from groupwise.config import TrainConfig
from groupwise.explaining.equation import equation_of
from groupwise.grading.components.optimal_length import OptimalLength, score_optimal_length


@pytest.mark.parametrize(
    ("tokens_G", "correctness_G", "expected_G"),
    [
        # The shortest right answer has 20 tokens; the shorter wrong one is as far from it as it is short.
        ([10, 20, 60, 100], [0.0, 1.0, 1.0, 0.0], [-0.1, 0.0, -0.4, -0.8]),
        # Without a right answer the mean, 40, is the optimum.
        ([10, 70], [0.0, 0.5], [-0.3, -0.3]),
        ([30, 30], [1.0, 0.0], [0.0, 0.0]),
        # Never below -1, also for an answer longer than the limit.
        ([5, 130], [1.0, 0.0], [0.0, -1.0]),
    ],
)
def test_by_hand(tokens_G: list[int], correctness_G: list[float], expected_G: list[float]) -> None:
    scores = score_optimal_length(tokens_G, correctness_G, 100)
    assert [score.value for score in scores] == pytest.approx(expected_G, abs=1e-15)
    assert {score.status for score in scores} == {"scored"}


def test_an_unknown_correctness_is_an_error_of_the_whole_group() -> None:
    scores = score_optimal_length([10, 20], [1.0, math.nan], 100)
    assert [score.status for score in scores] == ["error", "error"]
    assert all(math.isnan(score.value) for score in scores)


def test_it_is_an_option_of_the_length() -> None:
    config = TrainConfig.model_validate({"rewards": {"length": {"type": "optimal", "weight": 0.5}}})
    assert isinstance(config.rewards.length, OptimalLength)
    assert dict(equation_of(config).terms)["R"] == (
        "correct + 0.5·length (0 at the shortest right answer of the group, -1 at 512 tokens from it)"
    )
    assert config.rewards.range_of("length") == (-0.5, 0.0)
