"""The soft overlong penalty of DAPO."""

import pytest

from groupwise.grading.components.overlong import score_overlong


@pytest.mark.parametrize(
    ("tokens", "penalty"),
    [(1, 0.0), (16384, 0.0), (16385, -1 / 4096), (17408, -0.25), (18432, -0.5), (20480, -1.0), (20481, -1.0)],
)
def test_golden(tokens: int, penalty: float) -> None:
    assert score_overlong(tokens, 20480, 4096).value == penalty


def test_without_a_buffer_nothing_is_penalised() -> None:
    assert score_overlong(20480, 20480, 0).value == 0.0


def test_a_buffer_as_long_as_the_answer_begins_with_the_first_token() -> None:
    assert [score_overlong(tokens, 4, 4).value for tokens in range(1, 5)] == [-0.25, -0.5, -0.75, -1.0]
