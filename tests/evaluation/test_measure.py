"""Shares with their intervals, pass@k, and what a measurement says of graded groups."""

import itertools
import math
from statistics import fmean, pvariance
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groupwise.config import TrainConfig
from groupwise.evaluation.estimate import Estimate, estimate_fraction, pass_at_k
from groupwise.evaluation.measure import measure_all, summarise
from groupwise.grading.grader import Grader
from groupwise.model.load import load_policy
from groupwise.problem import Message, Problem
from groupwise.rollout.inprocess import InProcessEngine
from tests.support.fakes import Engine, Pay, fake_sampler

Z = 1.959963984540054


def wilson(successes: float, trials: float) -> tuple[float, float]:
    """The two shares p at which (p̂ - p)² = z² p (1 - p) / n, from the formula of the roots of that equation."""
    share = successes / trials
    a, b, c = 1 + Z**2 / trials, -(2 * share + Z**2 / trials), share**2
    root = math.sqrt(b**2 - 4 * a * c)
    return (-b - root) / (2 * a), (-b + root) / (2 * a)


# Newcombe (1998), table I, case 81 of 263 and its neighbours: Wilson's interval without continuity correction.
PUBLISHED = [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)]


@pytest.mark.parametrize(("right", "n", "low", "high"), PUBLISHED)
def test_one_sample_a_problem_is_wilsons_interval(right: int, n: int, low: float, high: float) -> None:
    estimate = estimate_fraction([1.0] * right + [0.0] * (n - right))
    assert estimate.value == pytest.approx(right / n)
    assert [estimate.low, estimate.high] == pytest.approx([low, high], abs=5e-5)
    assert (estimate.low, estimate.high) == pytest.approx(wilson(right, n), abs=1e-12)
    assert estimate.n == n


def test_samples_of_one_problem_are_no_independent_trials() -> None:
    """Eight samples that always agree say no more than one of them."""
    agreeing = estimate_fraction([1.0] * 30 + [0.0] * 70)
    assert (agreeing.low, agreeing.high) == pytest.approx(wilson(30, 100), abs=1e-12)
    # Half of the problems at 0.2 and half at 0.4: the variance between them is 0.01 instead of 0.21.
    spread = estimate_fraction([0.2] * 50 + [0.4] * 50)
    assert spread.value == pytest.approx(0.3)
    assert (spread.low, spread.high) == pytest.approx(wilson(0.3 * 2100, 2100), abs=1e-12)
    assert spread.high - spread.low < 0.5 * (agreeing.high - agreeing.low)


@given(st.lists(st.integers(0, 8), min_size=1, max_size=60))
@settings(deadline=None, max_examples=200)
def test_an_interval_holds_its_share_and_stays_between_0_and_1(right: list[int]) -> None:
    shares = [count / 8 for count in right]
    estimate = estimate_fraction(shares)
    assert 0 <= estimate.low <= estimate.value + 1e-12
    assert estimate.value - 1e-12 <= estimate.high <= 1
    assert estimate.low < estimate.high
    mean, between = fmean(shares), pvariance(shares)
    if between > 1e-12:
        trials = len(shares) * mean * (1 - mean) / between
        assert trials >= len(shares) * (1 - 1e-9)
        assert (estimate.low, estimate.high) == pytest.approx(wilson(mean * trials, trials), abs=1e-9)


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_nothing_or_all_is_not_certain(share: float) -> None:
    estimate = estimate_fraction([share] * 40)
    assert estimate.value == share
    # z² / (n + z²): 8.8 % of 40 problems.
    width = Z**2 / (40 + Z**2)
    assert estimate.low == pytest.approx(share * (1 - width))
    assert estimate.high == pytest.approx(share * 1.0 + (1 - share) * width)
    assert str(Estimate(0.125, 0.0501, 0.3, 8)) == "12.5 % [5.0, 30.0]"


def test_equal_shares_between_0_and_1_have_an_interval() -> None:
    """No variance between problems was seen; that is no proof that there is none."""
    estimate = estimate_fraction([0.5] * 10)
    assert (estimate.low, estimate.high) == pytest.approx(wilson(5, 10), abs=1e-12)


def test_a_share_of_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match="no problems"):
        estimate_fraction([])


@pytest.mark.parametrize("samples", range(1, 8))
def test_pass_at_k_is_the_share_of_all_choices(samples: int) -> None:
    for correct in range(samples + 1):
        answers = [True] * correct + [False] * (samples - correct)
        for k in range(1, samples + 1):
            choices = list(itertools.combinations(answers, k))
            assert pass_at_k(samples, correct, k) == pytest.approx(fmean(map(any, choices)), abs=1e-14)


@pytest.mark.parametrize(("samples", "correct", "k"), [(4, 5, 1), (4, -1, 1), (4, 2, 5), (4, 2, 0), (0, 0, 1)])
def test_pass_at_k_is_refused_where_it_is_not_defined(samples: int, correct: int, k: int) -> None:
    with pytest.raises(ValueError, match=f"pass@{k} is not defined"):
        pass_at_k(samples, correct, k)


def test_a_measurement_by_hand() -> None:
    """Four problems of four samples with 0, 1, 2 and 4 right ones; the format is kept by the right ones of the last."""
    right = [0, 1, 2, 4]
    pay: dict[int, list[Pay]] = {
        p: [*[(1.0, float(p == 3))] * count, *[(0.0, 0.0)] * (4 - count)] for p, count in enumerate(right)
    }
    engine = Engine(length_of=lambda position, sample: 2 + sample + position)
    config = TrainConfig.model_validate({"batch": {"samples_per_prompt": 4}})
    groups = fake_sampler(config, lambda position: pay[position], engine).groups([0, 1, 2, 3], 1)
    measured = summarise(groups, temperature=0.7)
    assert measured.samples_per_prompt == 4
    assert measured.temperature == 0.7
    assert measured.accuracy == estimate_fraction([0, 0.25, 0.5, 1])
    assert measured.accuracy.value == 7 / 16
    assert set(measured.pass_at) == {2, 4}
    # Two of four: 1 - C(2,2)/C(4,2) = 5/6.
    assert measured.pass_at[2].value == pytest.approx((0 + 1 / 2 + 5 / 6 + 1) / 4)
    assert measured.pass_at[4].value == pytest.approx(3 / 4)
    assert measured.format_rate.value == 4 / 16
    # Lengths 2-5, 3-6, 4-7, 5-8; those above 5 are truncated.
    assert measured.mean_tokens == 5.0
    assert measured.truncated.value == 6 / 16
    assert measured.no_answer.value == 9 / 16
    assert measured.to_json()["accuracy"] == {
        "value": 7 / 16,
        "low": measured.accuracy.low,
        "high": measured.accuracy.high,
        "n": 4,
    }


PROBLEMS = [Problem(f"p{a}", (Message("user", f"{a} + 3 = ?"),), str(a + 3)) for a in range(6)]


def measured_bundled(samples: int = 2, batch_sequences: int = 64, **config: Any) -> dict[str, Any]:
    policy = load_policy("bundled")
    options = TrainConfig.model_validate(
        {"sampling": {"max_new_tokens": 24}, "problems": {"eval_samples_per_prompt": samples}, **config}
    )
    grader = Grader(options, policy.tokenizer, policy.think_ids)
    engine = InProcessEngine(policy, batch_sequences)
    measured = measure_all(policy, engine, grader, PROBLEMS, options)
    return {way: measurement.to_json() for way, measurement in measured.items()}


def test_all_ways_of_answering_are_measured() -> None:
    measured = measured_bundled()
    assert set(measured) == {"greedy", "sampled", "forced_think_greedy", "forced_think_sampled"}
    for way, result in measured.items():
        assert result["temperature"] == (0 if "greedy" in way else 1)
        assert result["samples_per_prompt"] == (1 if "greedy" in way else 2)
        assert result["accuracy"]["n"] == len(PROBLEMS)
        assert set(result["pass_at"]) == (set() if "greedy" in way else {2})
    assert measured["forced_think_greedy"]["thinks"]["value"] == 1
    assert measured["forced_think_sampled"]["thinks"]["value"] == 1
    assert measured["sampled"]["thinks"]["value"] < 1


def test_a_measurement_repeats_itself_whatever_the_batch() -> None:
    assert measured_bundled(batch_sequences=5) == measured_bundled()
    assert measured_bundled(run={"seed": 1})["sampled"] != measured_bundled()["sampled"]
    assert measured_bundled(run={"seed": 1})["greedy"] == measured_bundled()["greedy"]


def test_thinking_is_forced_only_where_it_is_not_open_already() -> None:
    by_prefill = measured_bundled(prompt={"prefill": "<think>"})
    assert set(by_prefill) == {"greedy", "sampled"}
    assert by_prefill["greedy"]["thinks"]["value"] == 1


def test_thinking_is_not_forced_twice_where_the_template_opens_it() -> None:
    """A second <think> behind the template's own would be a prompt that the model has never seen."""
    policy = load_policy("bundled")
    template = policy.tokenizer.chat_template
    policy.tokenizer.chat_template = cast(str, template).replace(
        "<|im_start|>assistant\n", "<|im_start|>assistant\n<think>"
    )
    options = TrainConfig.model_validate(
        {"sampling": {"max_new_tokens": 8}, "problems": {"eval_samples_per_prompt": 1}}
    )
    grader = Grader(options, policy.tokenizer, policy.think_ids)
    measured = measure_all(policy, InProcessEngine(policy, 64), grader, PROBLEMS, options)
    assert set(measured) == {"greedy", "sampled"}
    assert measured["greedy"].thinks.value == 1


def test_problems_that_cannot_be_judged_are_left_out() -> None:
    pay: dict[int, list[Pay]] = {0: [(1.0, 0.0), (0.0, 0.0)], 1: [(1.0, 1.0), None]}
    config = TrainConfig.model_validate({"batch": {"samples_per_prompt": 2}})
    groups = fake_sampler(config, lambda position: pay[position]).groups([0, 1], 1)
    measured = summarise([group for group in groups if not group.failed], 1.0)
    assert measured.accuracy.n == 1
    assert np.isfinite(measured.accuracy.value)
