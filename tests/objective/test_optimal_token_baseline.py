"""The optimal token baseline against values worked out by hand: three ragged answers of one group."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from groupwise.objective.advantages.optimal_token_baseline import OptimalTokenBaseline, TokenReturns, token_weights
from groupwise.objective.segments import segment_reverse_cumsum

LENGTHS = torch.tensor([4, 2, 3])
OLD = torch.tensor([-0.2107, -1.6094, -0.6931, -2.3026, -0.1054, -0.9163, -0.5108, -3.2189, -0.3567]).double()
ENGINE = torch.tensor([-0.1863, -1.5141, -0.734, -2.4079, -0.1278, -0.9676, -0.478, -3.5066, -0.3425]).double()
SQUARES = torch.tensor([0.67, 0.15, 0.32, 0.08, 0.813, 0.24, 0.41, 0.07, 0.52]).double()
OUTCOME = torch.tensor([1.0, 0.0, 0.5]).double().repeat_interleave(LENGTHS)
# Rewards of single tokens.
OF_TOKENS = torch.tensor([0.1, 0, 0.2, 0.7, -0.3, 0.3, 0, 0.25, 0.25]).double()


def tokens(returns_N: Tensor = OUTCOME, engine_weights_N: Tensor | None = None) -> TokenReturns:
    return TokenReturns(returns_N, OLD, SQUARES, LENGTHS, torch.zeros(3, dtype=torch.int64), engine_weights_N)


def near(actual: Tensor, expected: list[float]) -> None:
    """To six printed digits of log-probabilities that have four."""
    assert actual.dtype == torch.float64
    assert actual.tolist() == pytest.approx(expected, abs=2e-6)


def test_the_weight_of_a_token_adds_up() -> None:
    sums = [part.cumsum(0) for part in token_weights(OLD, SQUARES).split(LENGTHS.tolist())]
    expected = [0.0499659, 0.799951, 1.1199, 1.99991, 0.0130711, 0.453078, 0.209969, 1.19997, 1.32001]
    assert torch.cat(sums).tolist() == pytest.approx(expected, rel=5e-5)


GOLDEN: dict[str, tuple[TokenReturns, list[float]]] = {
    "outcome": (
        tokens(),
        [0.432429, 0.429296, 0.270503, 1, -0.567571, -0.570704, -0.0675714, -0.0707037, -0.229497],
    ),
    "rewards of tokens": (
        tokens(segment_reverse_cumsum(OF_TOKENS, LENGTHS)),
        [0.432429, 0.306496, 0.351654, 0.7, -0.567571, -0.293504, -0.0675714, -0.0935037, -0.298346],
    ),
    "engine weights": (
        tokens(OUTCOME, (OLD - ENGINE).exp().clamp(max=2)),
        [0.434244, 0.473411, 0.335713, 1, -0.565756, -0.526589, -0.0657561, -0.0265893, -0.164287],
    ),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_golden(name: str) -> None:
    """The fourth token of the first answer is alone: its baseline is its own return, or nothing."""
    given, expected = GOLDEN[name]
    near(OptimalTokenBaseline(tail="return").of(given), expected)
    near(OptimalTokenBaseline().of(given), [*expected[:3], 0.0, *expected[4:]])


def test_the_first_column_by_hand() -> None:
    """w = 1 - 2·0.81 + 0.67, 1 - 2·0.9 + 0.813, 1 - 2·0.6 + 0.41 with the returns 1, 0, 0.5."""
    baseline = (0.05 * 1 + 0.21 * 0.5) / (0.05 + 0.013 + 0.21)
    logps_N = torch.tensor([0.81, 0.9, 0.6], dtype=torch.float64).log()
    one_each = torch.ones(3, dtype=torch.int64)
    squares_N = torch.tensor([0.67, 0.813, 0.41], dtype=torch.float64)
    returns_N = torch.tensor([1.0, 0.0, 0.5])
    given = TokenReturns(returns_N, logps_N, squares_N, one_each, torch.zeros(3, dtype=torch.int64))
    torch.testing.assert_close(OptimalTokenBaseline().of(given), returns_N.double() - baseline)


@pytest.mark.parametrize(("tail", "expected"), [("zero", [0.0] * 2), ("return", [0.3] * 2)])
def test_an_answer_alone_in_its_group(tail: Any, expected: list[float]) -> None:
    group = torch.zeros(1, dtype=torch.int64)
    given = TokenReturns(torch.full((2,), 0.3).double(), OLD[:2], SQUARES[:2], torch.tensor([2]), group)
    assert OptimalTokenBaseline(tail=tail).of(given).tolist() == pytest.approx(expected)


def test_equal_returns_are_no_signal() -> None:
    """Although their weighted mean is not exact in binary."""
    equal = tokens(torch.full((9,), 1.05, dtype=torch.float64))
    assert OptimalTokenBaseline().of(equal).tolist() == [0.0] * 9
    returned = OptimalTokenBaseline(tail="return").of(equal)
    assert returned.tolist() == [0.0] * 3 + [1.05] + [0.0] * 5


def test_without_any_gradient_so_far_all_answers_count_the_same() -> None:
    """A token that is certain has none."""
    certain = torch.zeros(9).double()
    given = TokenReturns(OUTCOME, certain, torch.ones(9).double(), LENGTHS, torch.zeros(3, dtype=torch.int64))
    expected = [0.5, 0.5, 0.25, 0, -0.5, -0.5, 0, 0, -0.25]
    assert OptimalTokenBaseline().of(given).tolist() == pytest.approx(expected)


def test_no_tokens() -> None:
    nothing, none = torch.zeros(0), torch.zeros(0, dtype=torch.int64)
    assert OptimalTokenBaseline().of(TokenReturns(nothing, nothing, nothing, none, none)).tolist() == []


def random_tokens(lengths: list[int], groups: list[int], seed: int) -> TokenReturns:
    """Answers that are drawn from random distributions over five tokens; rewards of their own."""
    generator = torch.Generator().manual_seed(seed)
    probabilities_NV = (3 * torch.randn(sum(lengths), 5, generator=generator).double()).softmax(-1)
    chosen_N1 = probabilities_NV.multinomial(1, generator=generator)
    logps_N = probabilities_NV.gather(1, chosen_N1).squeeze(1).log()
    lengths_E = torch.tensor(lengths)
    rewards_E = torch.randn(len(lengths), generator=generator).double()
    squares_N = probabilities_NV.square().sum(-1)
    group_E = torch.arange(len(groups)).repeat_interleave(torch.tensor(groups))
    return TokenReturns(rewards_E.repeat_interleave(lengths_E), logps_N, squares_N, lengths_E, group_E)


SIZES = st.lists(st.lists(st.integers(1, 7), min_size=1, max_size=5), min_size=1, max_size=4)


@given(SIZES, st.integers(0, 1000), st.sampled_from([-2.0, 0.5]))
@settings(deadline=None, max_examples=60)
def test_properties(sizes: list[list[int]], seed: int, shift: float) -> None:
    lengths = [length for group in sizes for length in group]
    given = random_tokens(lengths, [len(group) for group in sizes], seed)
    weights_N = token_weights(given.logps_N, given.square_sums_N)
    assert float(weights_N.min()) >= 0
    until_EL = [part.cumsum(0) for part in weights_N.split(lengths)]
    # Running sums of what is not negative never fall.
    assert all(bool((part.diff() >= 0).all()) for part in until_EL)
    advantages_N = OptimalTokenBaseline().of(given)
    # At every column of a group, weighted by W, advantages have the mean 0, whatever the rewards' zero is.
    rows_EL = advantages_N.split(lengths)
    for group in range(len(sizes)):
        own = [e for e in range(len(lengths)) if int(given.group_E[e]) == group]
        for t in range(max(lengths[e] for e in own)):
            alive = [e for e in own if lengths[e] > t]
            assert float(sum(until_EL[e][t] * rows_EL[e][t] for e in alive)) == pytest.approx(0, abs=1e-9)
    shifted = OptimalTokenBaseline().of(
        TokenReturns(given.returns_N + shift, given.logps_N, given.square_sums_N, given.lengths_E, given.group_E)
    )
    torch.testing.assert_close(shifted, advantages_N, atol=1e-9, rtol=0)
    # Groups do not know of each other, so that it does not matter which rank holds which.
    first = len(sizes[0])
    tokens_first = sum(lengths[:first])
    alone = TokenReturns(
        given.returns_N[:tokens_first],
        given.logps_N[:tokens_first],
        given.square_sums_N[:tokens_first],
        given.lengths_E[:first],
        given.group_E[:first],
    )
    torch.testing.assert_close(OptimalTokenBaseline().of(alone), advantages_N[:tokens_first], atol=1e-12, rtol=0)
