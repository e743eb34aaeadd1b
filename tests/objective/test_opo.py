"""OPO's length-weighted baseline, with numbers worked out by hand."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from groupwise.objective.advantages.opo import Opo
from tests.objective.fixture import close


def test_golden() -> None:
    """b = (4·1 + 2·0 + 3·0.5) / 9 = 0.611111."""
    advantages_PG = Opo().of(torch.tensor([[1.0, 0.0, 0.5]]), torch.tensor([[4, 2, 3]]))
    assert advantages_PG.dtype == torch.float64
    close(advantages_PG, [[1 - 5.5 / 9, -5.5 / 9, 0.5 - 5.5 / 9]])
    assert advantages_PG.flatten().tolist() == pytest.approx([0.388889, -0.611111, -0.111111], abs=5e-7)


def test_an_answer_without_trained_tokens_has_no_weight() -> None:
    close(Opo().of(torch.tensor([[1.0, 0.0, 5.0]]), torch.tensor([[3, 1, 0]])), [[0.25, -0.75, 4.25]])


def test_without_any_trained_token_the_baseline_is_zero() -> None:
    assert Opo().of(torch.tensor([[1.0, 0.25]]), torch.tensor([[0, 0]])).tolist() == [[1.0, 0.25]]


@pytest.mark.parametrize("size", [1, 7])
@pytest.mark.parametrize("length", [0, 3])
def test_equal_rewards_are_no_signal(size: int, length: int) -> None:
    """A group of one is compared with itself."""
    assert Opo().of(torch.full((1, size), 1.05), torch.full((1, size), length)).tolist() == [[0.0] * size]


def test_a_reward_that_is_not_finite_is_refused() -> None:
    with pytest.raises(ValueError, match="not finite"):
        Opo().of(torch.tensor([[1.0, float("nan")]]), torch.tensor([[1, 1]]))


answers = st.lists(st.tuples(st.floats(-10, 10), st.integers(0, 50)), min_size=2, max_size=6)


@given(answers=answers, shift=st.sampled_from([-4.0, 0.5]))
def test_the_tokens_of_a_group_are_centred(answers: list[tuple[float, int]], shift: float) -> None:
    rewards_PG = torch.tensor([[reward for reward, _ in answers]], dtype=torch.float64)
    lengths_PG = torch.tensor([[length for _, length in answers]])
    advantages_PG = Opo().of(rewards_PG, lengths_PG)
    assert float((lengths_PG * advantages_PG).sum()) == pytest.approx(0, abs=1e-9)
    if lengths_PG.any():
        torch.testing.assert_close(Opo().of(rewards_PG + shift, lengths_PG), advantages_PG, atol=1e-9, rtol=0)
