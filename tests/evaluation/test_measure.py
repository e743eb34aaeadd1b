"""Shares with their intervals, pass@k, and what a measurement says of graded groups."""

import itertools
from statistics import fmean
from typing import Any, cast

import numpy as np
import pytest

from groupwise.config import TrainConfig
from groupwise.evaluation.estimate import estimate_fraction, pass_at_k
from groupwise.evaluation.measure import answers_of, counts_of, measure_all, summarise
from groupwise.grading.grader import Grader
from groupwise.model.load import load_policy
from groupwise.problem import Message, Problem
from groupwise.ranks import Ranks
from groupwise.rollout.inprocess import InProcessEngine
from groupwise.rollout.sampling import derive_seed
from tests.support.fakes import Engine, Pay, fake_sampler


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
    measured = summarise([counts_of(group) for group in groups], 4, temperature=0.7)
    assert measured.samples_per_prompt == 4
    assert measured.temperature == 0.7
    assert measured.accuracy == estimate_fraction([0, 0.25, 0.5, 1], 4)
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
    # Variance of 0, 1/4, 1/2, 1 with three degrees of freedom: 35/192.
    assert measured.standard_error == pytest.approx((35 / 192 / 4) ** 0.5)
    assert measured.to_metrics() == {
        "accuracy": 7 / 16,
        "standard_error": measured.standard_error,
        "problems": 4,
        "format_rate": 4 / 16,
        "tokens": 5.0,
        "truncated_fraction": 6 / 16,
    }
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
    measured = measure_all(policy, engine, grader, PROBLEMS, options, Ranks())
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


@pytest.mark.parametrize("narrow", [{"top_k": 1}, {"top_p": 0.01}, {"min_p": 0.9999}])
@pytest.mark.parametrize("replay", [False, True])
def test_answers_are_sampled_from_the_tokens_that_training_samples_from(narrow: dict[str, Any], replay: bool) -> None:
    """Where only the most likely token is left, sampling is greedy."""
    sampling = {"max_new_tokens": 24, "temperature": 1.3, "replay_mask": replay, **narrow}
    measured = measured_bundled(sampling=sampling)
    assert measured["sampled"]["mean_tokens"] == measured["greedy"]["mean_tokens"]
    assert measured["sampled"]["accuracy"]["value"] == measured["greedy"]["accuracy"]["value"]
    wide = measured_bundled(sampling={"max_new_tokens": 24, "temperature": 1.3})
    assert wide["sampled"]["mean_tokens"] != wide["greedy"]["mean_tokens"]


def test_every_problem_has_random_numbers_of_its_own_wherever_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, ...]] = []
    stream = InProcessEngine.stream

    def recorded(self: InProcessEngine, requests: Any, sampling: Any) -> Any:
        asked.extend(request.seeds for request in requests)
        return stream(self, requests, sampling)

    monkeypatch.setattr(InProcessEngine, "stream", recorded)
    measured_bundled(sampling={"max_new_tokens": 2})
    sampled = [seeds for seeds in asked if len(seeds) == 2]
    assert sampled == [tuple(derive_seed(0, "measure", f"p{a}", g) for g in range(2)) for a in range(6)] * 2
    assert len({seed for seeds in sampled for seed in seeds}) == 12


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
    measured = measure_all(policy, InProcessEngine(policy, 64), grader, PROBLEMS, options, Ranks())
    assert set(measured) == {"greedy", "sampled"}
    assert measured["greedy"].thinks.value == 1


def test_problems_that_cannot_be_judged_are_left_out() -> None:
    pay: dict[int, list[Pay]] = {0: [(1.0, 0.0), (0.0, 0.0)], 1: [(1.0, 1.0), None]}
    config = TrainConfig.model_validate({"batch": {"samples_per_prompt": 2}})
    groups = fake_sampler(config, lambda position: pay[position]).groups([0, 1], 1)
    measured = summarise([counts for counts in map(counts_of, groups) if not counts.fault], 2, 1.0)
    assert measured.accuracy.n == 1
    assert np.isfinite(measured.accuracy.value)


def test_the_number_of_answers_is_known_before(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    real = InProcessEngine.stream

    def counted(engine: InProcessEngine, requests: Any, sampling: Any) -> Any:
        asked.append(sum(len(request.seeds) for request in requests))
        return real(engine, requests, sampling)

    monkeypatch.setattr(InProcessEngine, "stream", counted)
    measured = measured_bundled(samples=3)
    options = TrainConfig.model_validate({"problems": {"eval_samples_per_prompt": 3}})
    assert sum(asked) == answers_of(load_policy("bundled"), PROBLEMS, options)
    # Greedy and sampled, and both with the reasoning forced.
    assert len(measured) == 4
    assert sum(asked) == 6 * 2 * (1 + 3)
