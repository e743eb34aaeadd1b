"""Fractions with their intervals: published values, another derivation, and the coverage in simulated measurements."""

import math
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from groupwise.evaluation.estimate import (
    Estimate,
    beta_probability,
    clopper_pearson95,
    estimate_fraction,
    student_t95,
)

# Newcombe (1998), table I: the exact interval of Clopper and Pearson.
PUBLISHED = [(81, 263, 0.2527, 0.3676), (15, 148, 0.0578, 0.1617), (0, 20, 0.0, 0.1684), (1, 29, 0.0009, 0.1776)]


def binomial_tail(successes: int, trials: int, p: float) -> float:
    """The chance of at least so many successes."""
    return math.fsum(math.comb(trials, k) * p**k * (1 - p) ** (trials - k) for k in range(successes, trials + 1))


@pytest.mark.parametrize(("right", "n", "low", "high"), PUBLISHED)
def test_one_sample_a_problem_is_the_exact_interval(right: int, n: int, low: float, high: float) -> None:
    estimate = estimate_fraction([1.0] * right + [0.0] * (n - right), 1)
    assert estimate.value == pytest.approx(right / n)
    assert [estimate.low, estimate.high] == pytest.approx([low, high], abs=5e-5)
    if right:
        assert binomial_tail(right, n, estimate.low) == pytest.approx(0.025)
    assert 1 - binomial_tail(right + 1, n, estimate.high) == pytest.approx(0.025)
    assert estimate.n == n


# Tables of Student's t, two-sided 5 %.
@pytest.mark.parametrize(("freedom", "bound"), [(1, 12.706), (2, 4.303), (7, 2.365), (15, 2.131), (120, 1.980)])
def test_student_t(freedom: int, bound: float) -> None:
    assert student_t95(freedom) == pytest.approx(bound, abs=5e-4)


@given(st.floats(0.1, 500), st.floats(0.1, 500), st.floats(0.001, 0.999))
@settings(deadline=None, max_examples=100)
def test_the_incomplete_beta_function_has_its_symmetry_and_recurrence(a: float, b: float, x: float) -> None:
    """DLMF 8.17.4 and 8.17.20."""
    value = beta_probability(x, a, b)
    assert 0 <= value <= 1 + 1e-9
    assert value == pytest.approx(1 - beta_probability(1 - x, b, a), abs=1e-9)
    log_step = a * math.log(x) + b * math.log1p(-x) + math.lgamma(a + b) - math.lgamma(a + 1) - math.lgamma(b)
    assert value == pytest.approx(beta_probability(x, a + 1, b) + math.exp(log_step), abs=1e-9)


def test_samples_of_one_problem_are_no_independent_trials() -> None:
    """Eight samples that always agree say no more than one of them."""
    agreeing = estimate_fraction([1.0] * 30 + [0.0] * 70, 8)
    assert (agreeing.low, agreeing.high) == clopper_pearson95(30, 100)
    spread = estimate_fraction([0.25] * 50 + [0.375] * 50, 8)
    assert spread.value == pytest.approx(0.3125)
    # 100 problems with a deviation of 1/16 and 2 more of the largest, p(1 - p), are 101 degrees of freedom.
    between = (100 / 256 + 2 * 0.3125 * 0.6875) / 101
    trials = 100 * 0.3125 * 0.6875 / between * (1.959963984540054 / student_t95(99)) ** 2
    assert trials > 800
    assert (spread.low, spread.high) == clopper_pearson95(0.3125 * 800, 800)
    uneven = estimate_fraction([0.125] * 50 + [0.5] * 50, 8)
    between = (100 * 9 / 256 + 2 * 0.3125 * 0.6875) / 101
    trials = 100 * 0.3125 * 0.6875 / between * (1.959963984540054 / student_t95(99)) ** 2
    assert 100 < trials < 800
    assert (uneven.low, uneven.high) == pytest.approx(clopper_pearson95(0.3125 * trials, trials))
    assert spread.high - spread.low < 0.5 * (agreeing.high - agreeing.low)


@given(st.lists(st.integers(0, 8), min_size=1, max_size=60))
@settings(deadline=None, max_examples=100)
def test_an_interval_holds_its_share_and_stays_between_0_and_1(right: list[int]) -> None:
    shares = [count / 8 for count in right]
    estimate = estimate_fraction(shares, 8)
    assert 0 <= estimate.low <= estimate.value + 1e-12
    assert estimate.value - 1e-12 <= estimate.high <= 1
    assert estimate.low < estimate.high
    mean, n = math.fsum(shares) / len(shares), len(shares)
    narrowest, widest = clopper_pearson95(8 * n * mean, 8 * n), clopper_pearson95(n * mean, n)
    assert widest[0] - 1e-9 <= estimate.low <= narrowest[0] + 1e-9
    assert narrowest[1] - 1e-9 <= estimate.high <= widest[1] + 1e-9


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_nothing_or_all_is_not_certain(share: float) -> None:
    estimate = estimate_fraction([share] * 40, 8)
    assert estimate.value == share
    # The p at which none of 40 succeeds in 2.5 % of cases: 8.8 % of 40 problems.
    width = 1 - 0.025 ** (1 / 40)
    assert estimate.low == pytest.approx(share * (1 - width))
    assert estimate.high == pytest.approx(share * 1.0 + (1 - share) * width)
    assert str(Estimate(0.125, 0.0501, 0.3, 8)) == "12.5 % [5.0, 30.0]"


def test_a_few_equal_shares_are_no_proof_that_problems_are_alike() -> None:
    """256 answers alone would leave ±6 points to chance."""
    estimate = estimate_fraction([0.5] * 15 + [0.5625], 16)
    assert estimate.low < 0.44
    assert estimate.high > 0.57
    alone = estimate_fraction([0.5], 16)
    assert (alone.low, alone.high) == clopper_pearson95(0.5, 1)


def test_a_share_of_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match="no problems"):
        estimate_fraction([], 1)


# Coverage

Draw = Callable[[np.random.Generator, tuple[int, int]], NDArray[np.float64]]

# How able a policy is from problem to problem, and the mean of it.
ABILITIES: dict[str, tuple[Draw, float]] = {
    "Beta(.2, 2)": (lambda g, shape: g.beta(0.2, 2, shape), 0.2 / 2.2),
    "Beta(2, .2)": (lambda g, shape: g.beta(2, 0.2, shape), 2 / 2.2),
    "Beta(.1, 2)": (lambda g, shape: g.beta(0.1, 2, shape), 0.1 / 2.1),
    "uniform": (lambda g, shape: g.random(shape), 0.5),
    "all .5": (lambda g, shape: np.full_like(g.random(shape), 0.5), 0.5),
    "all .1": (lambda g, shape: np.full_like(g.random(shape), 0.1), 0.1),
    "0 or 1": (lambda g, shape: (g.random(shape) < 0.3).astype(float), 0.3),
    "one in ten": (lambda g, shape: (g.random(shape) < 0.1) * g.random(shape), 0.05),
}


def coverage(ability: str, problems: int, samples: int, times: int) -> tuple[float, float]:
    """How often the interval of a simulated measurement holds the true mean, and its mean width."""
    draw, truth = ABILITIES[ability]
    generator = np.random.default_rng(0)
    right_RP = generator.binomial(samples, draw(generator, (times, problems)))

    @cache
    def interval(right_P: tuple[int, ...]) -> Estimate:
        return estimate_fraction([right / samples for right in right_P], samples)

    made = [interval(tuple(sorted(right_P))) for right_P in right_RP.tolist()]
    held = sum(one.low <= truth <= one.high for one in made)
    return held / times, sum(one.high - one.low for one in made) / times


@pytest.mark.parametrize(
    ("ability", "problems", "samples"),
    [("Beta(.2, 2)", 16, 8), ("Beta(.2, 2)", 8, 8), ("Beta(.1, 2)", 24, 16), ("all .5", 8, 4), ("0 or 1", 8, 1)],
)
def test_the_interval_holds_the_true_value(ability: str, problems: int, samples: int) -> None:
    held, width = coverage(ability, problems, samples, 500)
    assert held >= 0.94
    assert width < width_of_single_answers(problems)


@pytest.mark.slow
@pytest.mark.parametrize("ability", ABILITIES)
@pytest.mark.parametrize("samples", [1, 4, 16])
@pytest.mark.parametrize("problems", [8, 16, 32, 128])
def test_the_interval_holds_the_true_value_everywhere(ability: str, problems: int, samples: int) -> None:
    held, width = coverage(ability, problems, samples, 1500)
    assert held >= 0.94
    assert width < width_of_single_answers(problems)
    if ability == "all .5" and samples == 16:
        # Problems that are alike: from 4 times the answers on the interval is half as wide.
        assert width < (0.7 if problems == 8 else 0.5) * width_of_single_answers(problems)


def width_of_single_answers(problems: int) -> float:
    low, high = clopper_pearson95(problems / 2, problems)
    return high - low
