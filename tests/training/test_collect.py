"""Active sampling: which groups a step trains on, what it costs, and what is measured of it."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groupwise.completion import Completion, FinishReason, Prompt
from groupwise.config import TrainConfig
from groupwise.config.checks import contradictions
from groupwise.grading.graded_group import GradedGroup
from groupwise.grading.grader import Grader
from groupwise.model.load import load_policy
from groupwise.objective.advantages import EstimatorOption
from groupwise.objective.metric import Metric
from groupwise.problem import Message, Problem
from groupwise.ranks import Ranks
from groupwise.rollout.sampling import derive_seed
from groupwise.track.clock import Clock
from groupwise.training.advantages import advantage_metrics, advantages_of, group_rewards
from groupwise.training.checkpoint import TrainState
from groupwise.training.collect import Collected, Sampler, collect, passes_filter
from groupwise.training.loop import advance, over_ranks
from groupwise.training.rollout_metrics import rollout_metrics
from groupwise.training.rollout_rows import group_rows
from groupwise.training.step_batch import step_batch
from groupwise.training.update import Updated
from tests.objective.fixture import techniques
from tests.support.fakes import Engine, Pay, fake_sampler

RIGHT: Pay = (1.0, 0.0)
WRONG: Pay = (0.0, 0.0)
FAILED: Pay = None
NOTHING = Updated({}, np.empty(0, dtype=np.float32))


def config_of(wanted: int = 4, samples: int = 2, **active: Any) -> TrainConfig:
    return TrainConfig.model_validate(
        {
            "run": {"seed": 7},
            "batch": {"prompts_per_step": wanted, "samples_per_prompt": samples},
            "active_sampling": active,
            "rewards": {"format": {"weight": 0.2}},
        }
    )


def sampler_of(passing: set[int], config: TrainConfig, engine: Engine | None = None) -> Sampler:
    """Only groups at these positions have a right and a wrong answer."""
    return fake_sampler(config, lambda position: [RIGHT, WRONG if position in passing else RIGHT], engine)


def positions(groups: list[GradedGroup]) -> list[int]:
    return [group.position for group in groups]


# What is admitted


def test_a_full_first_round_is_all() -> None:
    engine = Engine()
    collected = collect(sampler_of(set(range(100)), config_of(), engine), 1, 10, frozenset(), Ranks())
    assert engine.positions() == [[10, 11, 12, 13]]
    assert positions(collected.admitted) == positions(collected.sampled) == [10, 11, 12, 13]
    assert collected.next_position == 14


def test_refill_until_the_step_is_full() -> None:
    engine = Engine()
    collected = collect(sampler_of({0, 3, 6, 9, 12}, config_of(), engine), 1, 0, frozenset(), Ranks())
    assert positions(collected.admitted) == [0, 3, 6, 9]
    asked = [position for call in engine.positions() for position in call]
    assert asked == list(range(collected.next_position))
    assert positions(collected.sampled) == asked
    assert len(engine.positions()) > 1


def test_the_budget_is_hard() -> None:
    collected = collect(
        sampler_of(set(), config_of(wanted=5, max_prompts_per_step_factor=2.5)), 1, 0, frozenset(), Ranks()
    )
    assert collected.admitted == []
    assert collected.next_position == 12
    assert len(collected.sampled) == 12


def test_surplus_groups_are_dropped_and_the_next_step_begins_behind_them() -> None:
    """One in four of the first round passes, and of the refill all do."""
    collected = collect(sampler_of({0, *range(4, 100)}, config_of()), 1, 0, frozenset(), Ranks())
    assert positions(collected.admitted) == [0, 4, 5, 6]
    assert collected.next_position > 7
    metrics = rollout_metrics(collected, config_of())
    assert metrics["groups/admitted"].value == 4
    assert metrics["groups/sampled"].value == collected.next_position
    # They pass and have no room: the rate is not admitted ÷ sampled.
    rate = metrics["groups/accept_rate"].value
    assert rate == (collected.next_position - 3) / collected.next_position > 4 / collected.next_position


def test_without_refill_there_is_one_round() -> None:
    engine = Engine()
    collected = collect(sampler_of({1}, config_of(refill=False), engine), 1, 0, frozenset(), Ranks())
    assert engine.positions() == [[0, 1, 2, 3]]
    assert positions(collected.admitted) == [1]
    assert collected.next_position == 4


@given(
    passing=st.sets(st.integers(0, 120)),
    wanted=st.integers(1, 9),
    factor=st.floats(1, 6),
    start=st.integers(0, 20),
)
@settings(deadline=None, max_examples=150)
def test_admitted_are_the_first_that_pass_within_the_budget(
    passing: set[int], wanted: int, factor: float, start: int
) -> None:
    config = config_of(wanted, max_prompts_per_step_factor=factor)
    engine = Engine()
    collected = collect(sampler_of(passing, config, engine), 1, start, frozenset(), Ranks())
    budget = math.floor(factor * wanted)
    sampled = range(start, collected.next_position)
    assert [position for call in engine.positions() for position in call] == list(sampled)
    assert wanted <= len(sampled) <= budget
    assert positions(collected.admitted) == [p for p in sampled if p in passing][:wanted]
    # A step that is not full has used up its budget, and one that was full after some round went no further.
    assert len(collected.admitted) == wanted or len(sampled) == budget
    before_last = sampled[: -len(engine.positions()[-1])]
    assert sum(p in passing for p in before_last) < wanted

    again = collect(sampler_of(passing, config), 1, start, frozenset(), Ranks())
    assert positions(again.sampled) == positions(collected.sampled)
    assert positions(again.admitted) == positions(collected.admitted)


def test_seeds_follow_from_run_step_position_and_sample() -> None:
    engine = Engine()
    sampler = sampler_of({5}, config_of(samples=2), engine)
    collect(sampler, 9, 4, frozenset(), Ranks())
    for call in engine.asked:
        for request in call:
            position = int(request.prompt_ids[0])
            assert request.seeds == tuple(derive_seed(7, "sample", 9, position, g) for g in range(2))


# The filters


def group_of(pay: Sequence[Pay], config: TrainConfig | None = None, **rewards: Any) -> GradedGroup:
    config = config or TrainConfig.model_validate({"rewards": rewards, "batch": {"samples_per_prompt": len(pay)}})
    (group,) = fake_sampler(config, lambda position: pay).groups([0], 1)  # noqa: ARG005
    return group


def passes(pay: Sequence[Pay], what: str, estimator: Any = "group", **rewards: Any) -> bool:
    config = TrainConfig.model_validate(
        {
            "rewards": rewards,
            "batch": {"samples_per_prompt": len(pay)},
            "active_sampling": {"filter": what, "refill": what != "none"},
            "advantage": {"estimator": estimator},
        }
    )
    group = group_of(pay, config)
    passed = passes_filter(group, config)
    if passed and what != "none":
        assert (advantages_of([group], config, Ranks()) != 0).any(), "a group that teaches nothing is admitted"
    return passed


@pytest.mark.parametrize(
    ("pay", "correctness", "total"),
    [
        ([RIGHT, RIGHT], False, False),
        ([WRONG, WRONG], False, False),
        ([RIGHT, WRONG], True, True),
        # Only the format differs.
        ([(1.0, 1.0), (1.0, 0.0)], False, True),
        # A right answer without format pays what a wrong one with it does, and no advantage is left.
        ([(1.0, 0.0), (0.0, 1.0)], False, False),
    ],
)
def test_what_the_filter_names_has_to_differ(pay: list[Pay], correctness: bool, total: bool) -> None:
    weights = {"correctness": {"weight": 0.5}, "format": {"weight": 0.5}}
    assert passes(pay, "correctness", **weights) == correctness
    assert passes(pay, "total", **weights) == total
    assert passes(pay, "none", **weights)


def test_signal_is_an_exact_difference_and_not_a_small_spread() -> None:
    assert passes([(1.0, 1.0), (1.0, 1.0 - 1e-15)], "total", format={"weight": 1e-6}) is False
    assert passes([(1.0, 1.0), (1.0, 0.0)], "total", format={"weight": 1e-12}) is True


ONLY_FORMAT_DIFFERS: list[Pay] = [(0.0, 1.0), (0.0, 0.0), (0.0, 1.0), (0.0, 0.0)]


@pytest.mark.parametrize(
    ("rewards", "admitted"),
    [
        ({"format": {"weight": 0.2}}, True),
        ({"format": {"weight": 0.0}}, False),
        ({"format": {"weight": 0.2, "requires": "correctness"}}, False),
        ({"format": {"weight": 0.2}, "gate": "correctness"}, False),
    ],
)
@pytest.mark.parametrize("estimator", ["group", "gdpo"])
def test_a_reward_that_is_not_granted_is_no_signal(rewards: dict[str, Any], admitted: bool, estimator: str) -> None:
    assert passes(ONLY_FORMAT_DIFFERS, "any_component", estimator, **rewards) is admitted
    all_right: list[Pay] = [(1.0, earned[1]) for earned in ONLY_FORMAT_DIFFERS if earned]
    assert passes(all_right, "any_component", estimator, **rewards) is (rewards["format"]["weight"] > 0)


@pytest.mark.parametrize("right", range(9))
def test_a_group_that_fills_no_draw_of_wrong_answers_is_no_signal_to_pass_at_k(right: int) -> None:
    estimator = {"type": "pass_at_k", "k": 4}
    pay = [RIGHT] * right + [WRONG] * (8 - right)
    assert passes(pay, "correctness", estimator) is (1 <= right <= 4)
    assert passes(pay, "none", estimator)


@pytest.mark.parametrize("samples", [2, 3, 4, 5])
@pytest.mark.parametrize("estimator", [technique.type for technique in techniques(EstimatorOption)])
def test_an_estimator_whose_advantages_are_always_0_is_refused(estimator: str, samples: int) -> None:
    """Over every way in which the answers of a group can be right and wrong."""
    config = TrainConfig.model_validate(
        {"batch": {"samples_per_prompt": samples}, "advantage": {"estimator": estimator}}
    )
    errors = [f for f in contradictions(config) if f.level == "error" and f.keys[0].startswith("advantage.estimator")]
    groups = [group_of(pay, config) for pay in itertools.product([RIGHT, WRONG], repeat=samples)]
    if not errors:
        advantages = [advantages_of([group], config, Ranks()) for group in groups]
        assert any((advantages_PG != 0).any() for advantages_PG in advantages)
    assert (estimator == "pass_at_k" and samples <= 4) == bool(errors)


@pytest.mark.parametrize("estimator", ["group", "gdpo", "max_rl", {"type": "pass_at_k", "k": 2}])
@pytest.mark.parametrize("what", ["correctness", "total", "any_component"])
@given(st.lists(st.tuples(*[st.sampled_from([0.0, 1.0])] * 2), min_size=4, max_size=4))
@settings(deadline=None, max_examples=30)
def test_a_group_that_is_admitted_has_an_advantage(what: str, estimator: Any, pay: list[tuple[float, float]]) -> None:
    rewards = {} if isinstance(estimator, dict) else {"format": {"weight": 1.0}}
    if passes(pay, what, estimator, **rewards):
        assert len(set(pay)) > 1


@pytest.mark.parametrize("what", ["none", "correctness", "total"])
def test_a_group_that_could_not_be_judged_is_never_trained_on(what: str) -> None:
    assert not passes([RIGHT, FAILED, WRONG], what)


@pytest.mark.parametrize("estimator", ["gdpo", {"type": "group", "scale": "group_std"}])
def test_what_is_not_granted_has_no_advantage(estimator: Any) -> None:
    """A format that is rewarded of right answers alone, and all answers are wrong."""
    config = TrainConfig.model_validate(
        {
            "rewards": {"format": {"weight": 0.5, "requires": "correctness"}},
            "batch": {"samples_per_prompt": 4},
            "advantage": {"estimator": estimator},
        }
    )
    wrong, mixed = group_of(ONLY_FORMAT_DIFFERS, config), group_of([RIGHT, WRONG, WRONG, WRONG], config)
    advantages_PG = advantages_of([wrong, mixed], config, Ranks())
    assert np.abs(advantages_PG[0]).max() < 1e-12
    assert advantages_PG[1, 0] > 0


def test_the_batch_deviation_is_of_rewards_that_are_not_centred() -> None:
    """One group at 1 and 0, one at 1, 1: rewards 1, 0, 1, 1 have the deviation 1/2, centred ones √(1/6)."""
    config = TrainConfig.model_validate(
        {
            "batch": {"samples_per_prompt": 2},
            "advantage": {"estimator": {"type": "group", "scale": "batch_std", "std_epsilon": 1e-12}},
        }
    )
    advantages_PG = advantages_of([group_of([RIGHT, WRONG], config), group_of([RIGHT, RIGHT], config)], config, Ranks())
    np.testing.assert_allclose(advantages_PG, [[1.0, -1.0], [0.0, 0.0]], atol=1e-9)


@pytest.mark.parametrize("factor", [1.0, 1.5, 4.0])
def test_a_step_without_any_signal_stops_asking_at_its_budget(factor: float) -> None:
    class Impatient(Engine):
        def stream(self, *arguments: Any) -> Any:
            assert sum(map(len, self.asked)) < 4 * factor, "asked beyond the budget"
            return super().stream(*arguments)

    engine = Impatient()
    collected = collect(
        sampler_of(set(), config_of(wanted=4, max_prompts_per_step_factor=factor), engine), 1, 0, frozenset(), Ranks()
    )
    assert collected.admitted == []
    assert len(collected.sampled) == sum(map(len, engine.asked)) == int(4 * factor)


def test_failed_groups_are_refilled_and_left_out_of_the_statistics() -> None:
    config = config_of(wanted=2, filter="none", refill=True)
    sampler = fake_sampler(config, lambda position: [RIGHT, FAILED] if position == 0 else [RIGHT, WRONG])
    collected = collect(sampler, 1, 0, frozenset(), Ranks())
    assert positions(collected.admitted) == [1, 2]
    metrics = rollout_metrics(collected, config)
    assert metrics["groups/failed"].value == 1
    assert metrics["reward/correctness/mean"] == Metric(0.5, "mean", 2 * (collected.next_position - 1))
    assert all(math.isfinite(float(metric.value)) for metric in metrics.values())


# Measurements


def test_rollout_metrics_by_hand() -> None:
    """Three groups of two: one right and one wrong, both right (one with format), both wrong."""
    pay: dict[int, list[Pay]] = {0: [RIGHT, WRONG], 1: [(1.0, 1.0), (1.0, 0.0)], 2: [WRONG, WRONG]}
    engine = Engine(length_of=lambda position, sample: 2 + 4 * sample + position)
    config = config_of(3, refill=False)
    metrics = rollout_metrics(
        collect(fake_sampler(config, pay.__getitem__, engine), 1, 0, frozenset(), Ranks()), config
    )
    expected = {
        "groups/sampled": Metric(3, "sum"),
        "groups/admitted": Metric(1, "sum"),
        "groups/failed": Metric(0, "sum"),
        "grading/correctness/failed": Metric(0, "sum"),
        "grading/format/failed": Metric(0, "sum"),
        "grading/dropped_samples": Metric(0, "sum"),
        "groups/wanted": Metric(3, "max"),
        "groups/accept_rate": Metric(1 / 3, "mean", 3),
        "tokens/sampled": Metric(30, "sum"),
        # Every token of the engine has log-probability -1.
        "completion/neg_logp": Metric(1.0, "mean", 30),
        # Of the right ones 2, 3 and 7.
        "completion/tokens_right": Metric(4.0, "mean", 3),
        "completion/tokens_wrong": Metric(6.0, "mean", 3),
        # Lengths 2 6, 3 7, 4 8; longer than 5 is truncated.
        "completion/tokens": Metric(5.0, "mean", 6),
        "completion/truncated_fraction": Metric(0.5, "mean", 6),
        "completion/no_answer_fraction": Metric(0.5, "mean", 6),
        "reward/correctness/mean": Metric(0.5, "mean", 6),
        "reward/correctness/square_mean": Metric(0.5, "mean", 6),
        "reward/correctness/std_within_group": Metric(0.5 / 3, "mean", 3),
        "reward/format/mean": Metric(1 / 6, "mean", 6),
        "reward/format/square_mean": Metric(1 / 6, "mean", 6),
        "reward/format/std_within_group": Metric(0.5 / 3, "mean", 3),
        "reward/total/mean": Metric(3.2 / 6, "mean", 6),
        # Totals 1 0, 1.2 1, 0 0; the sum of squares within groups is 0.5 of correctness and 0.02 of format.
        "reward/total/square_mean": Metric((1 + 1.44 + 1) / 6, "mean", 6),
        "reward/correctness/covariance_within": Metric(0.5 / 6, "mean", 6),
        "reward/format/covariance_within": Metric(0.02 / 6, "mean", 6),
        "reward/total/variance_within": Metric(0.52 / 6, "mean", 6),
        "reward/total/std_within_group": Metric((0.5 + 0.1) / 3, "mean", 3),
        "groups/all_right": Metric(1 / 3, "mean", 3),
        "groups/all_wrong": Metric(1 / 3, "mean", 3),
        "groups/zero_std": Metric(1 / 3, "mean", 3),
    }
    assert metrics.keys() == expected.keys()
    for name, metric in expected.items():
        assert (metrics[name].reduction, metrics[name].weight) == (metric.reduction, metric.weight), name
        assert metrics[name].value == pytest.approx(metric.value), name


def test_spreads_are_those_of_all_samples_however_they_were_divided() -> None:
    pay: dict[int, list[Pay]] = {0: [RIGHT, WRONG], 1: [(1.0, 1.0), (1.0, 0.0)], 2: [WRONG, WRONG]}
    config = config_of(3, refill=False)
    sampled = collect(fake_sampler(config, pay.__getitem__), 1, 0, frozenset(), Ranks()).sampled
    whole, divided = (
        over_ranks([rollout_metrics(Collected([], part, 3), config) for part in parts], NOTHING, Ranks())
        for parts in ([sampled], [sampled[:1], sampled[1:]])
    )
    assert divided == pytest.approx(whole, rel=1e-12)
    totals = np.array([1.0, 0.0, 1.2, 1.0, 0.0, 0.0])
    assert whole["reward/total/std"] == pytest.approx(float(totals.std()))
    assert whole["reward/correctness/std"] == pytest.approx(0.5)
    assert whole["reward/correctness/variance_fraction"] == pytest.approx(0.5 / 0.52)
    assert whole["reward/format/variance_fraction"] == pytest.approx(0.02 / 0.52)
    assert not any("square_mean" in name or "_within" in name.removesuffix("std_within_group") for name in whole)


def test_equal_rewards_have_no_spread_and_no_shares() -> None:
    config = config_of(3, refill=False)
    sampled = collect(fake_sampler(config, lambda position: [(1.0, 0.7)] * 2), 1, 0, frozenset(), Ranks())  # noqa: ARG005
    values = over_ranks([rollout_metrics(sampled, config)], NOTHING, Ranks())
    assert values["reward/total/std"] == 0
    assert not any("variance_fraction" in name for name in values)


def test_advantages_are_measured_before_and_after_their_scale() -> None:
    groups = [group_of([RIGHT, WRONG, WRONG, WRONG]), group_of([RIGHT, RIGHT, WRONG, WRONG])]
    advantages = np.array([[3.0, -1.0, -1.0, -1.0], [1.0, 1.0, -1.0, -1.0]])
    parts = [advantage_metrics([group], advantages[[index]]) for index, group in enumerate(groups)]
    values = over_ranks(parts, NOTHING, Ranks())
    centred = np.array([[0.75, -0.25, -0.25, -0.25], [0.5, 0.5, -0.5, -0.5]])
    assert values["advantage/mean"] == 0
    assert values["advantage/std"] == pytest.approx(float(advantages.std()))
    assert values["advantage/std_before_scaling"] == pytest.approx(float(centred.std()))
    assert values["advantage/max_abs"] == 3
    assert advantage_metrics([], np.zeros((0, 4))) == {}


def test_a_rank_without_groups_measures_nothing_but_counts() -> None:
    metrics = rollout_metrics(Collected([], [], 4), config_of())
    assert {name: metric.value for name, metric in metrics.items()} == {
        "groups/sampled": 0,
        "groups/admitted": 0,
        "groups/failed": 0,
        "groups/wanted": 4,
        "groups/accept_rate": 0,
        "tokens/sampled": 0,
    }


def test_advancing_counts_all_that_was_sampled() -> None:
    state = TrainState(step=3, problem_position=40, optimizer_updates=5, sampled_tokens=100)
    values = {"optimizer/updates": 2.0, "tokens/sampled": 20.0}
    advance(state, Collected([], [], 51), values, Clock(), config_of(), Ranks())
    assert (state.step, state.problem_position, state.optimizer_updates, state.sampled_tokens) == (4, 51, 7, 120)


# From groups to the update


def test_advantages_of_groups() -> None:
    groups = [
        group_of([RIGHT, WRONG, WRONG, WRONG], format={"weight": 0.2}),
        group_of([(1.0, 1.0), RIGHT, RIGHT, WRONG]),
    ]
    plain = advantages_of(groups, config_of(samples=4), Ranks())
    assert plain.dtype == np.float64
    np.testing.assert_allclose(plain, [[0.75, -0.25, -0.25, -0.25], [0.25, 0.25, 0.25, -0.75]], rtol=1e-15)
    scaled = advantages_of(
        groups,
        TrainConfig.model_validate(
            {"advantage": {"estimator": {"type": "group", "scale": "group_std"}}, "batch": {"samples_per_prompt": 4}}
        ),
        Ranks(),
    )
    np.testing.assert_allclose(scaled[0], np.array([0.75, -0.25, -0.25, -0.25]) / (0.5 + 1e-4), rtol=1e-12)
    assert advantages_of([], config_of(samples=3), Ranks()).shape == (0, 3)


def test_the_update_gets_the_ids_of_the_engine() -> None:
    group = group_of([RIGHT, WRONG])
    batch = step_batch([group], np.array([[0.5, -0.5]]), config_of())
    assert all(ids is c.ids for ids, c in zip(batch.token_ids_B, group.completions, strict=True))
    recorded = np.concatenate([completion.logps for completion in group.completions])
    assert batch.old_logps_N is batch.sampler_logps_N
    assert batch.sampler_logps_N.tolist() == recorded.tolist()
    assert batch.trained_E.tolist() == [True, True]
    assert batch.prompt_ids_P[0] is group.prompt.ids
    first, second = (len(completion.ids) for completion in group.completions)
    assert batch.advantages_N.tolist() == [0.5] * first + [-0.5] * second


def test_each_episode_has_the_kl_coefficient_of_its_domain() -> None:
    group = group_of([RIGHT, WRONG])
    groups = [replace(group, problem=replace(group.problem, domain=name)) for name in ("code", "math")]
    config = TrainConfig.model_validate({"kl": {"coefficient": 0.25}, "domains": {"code": {"kl_coefficient": 0.5}}})
    batch = step_batch(groups, np.zeros((2, 2)), config)
    assert batch.kl_coefficient_E.tolist() == [0.5, 0.5, 0.25, 0.25]


def test_truncated_answers_are_left_out_on_request() -> None:
    engine = Engine(length_of=lambda position, sample: 9 * sample + 1)  # noqa: ARG005
    config = TrainConfig.model_validate({"objective": {"mask_truncated": True}, "batch": {"samples_per_prompt": 2}})
    (group,) = fake_sampler(config, lambda position: [RIGHT, WRONG], engine).groups([0], 1)  # noqa: ARG005
    batch = step_batch([group], np.array([[0.5, -0.5]]), config)
    assert batch.trained_E.tolist() == [True, False]
    assert batch.advantages_N[[0, -1]].tolist() == [0.5, -0.5]
    assert batch.group_tokens_E.tolist() == [len(group.completions[0].ids)] * 2
    # A baseline that weighs answers by their tokens gives them no weight.
    for masked, lengths in ((True, [[1, 0]]), (False, [[1, 10]])):
        config = TrainConfig.model_validate({"objective": {"mask_truncated": masked}})
        assert group_rewards([group], config).lengths_PG.tolist() == lengths


def test_an_answer_that_could_not_be_judged_has_no_length_to_weigh_it_by() -> None:
    engine = Engine(length_of=lambda position, sample: sample + 1)  # noqa: ARG005
    config = TrainConfig.model_validate({"batch": {"samples_per_prompt": 3}, "grading": {"on_error": "drop_sample"}})
    (group,) = fake_sampler(config, lambda position: [RIGHT, None, WRONG], engine).groups([0], 1)  # noqa: ARG005
    assert group_rewards([group], config).lengths_PG.tolist() == [[1, 3]]
    assert group.trained(mask_truncated=False).tolist() == [True, False, True]


# The real grader, on ids


def completion_of(policy: Any, text: str, finish_reason: FinishReason = "stop") -> Completion:
    ids = np.asarray(policy.tokenizer.encode(text, add_special_tokens=False), dtype=np.int64)
    return Completion(ids, np.zeros(len(ids), dtype=np.float32), finish_reason, 0)


def test_the_grader_reads_ids_without_the_stop_token() -> None:
    policy = load_policy("bundled")
    config = TrainConfig.model_validate({"rewards": {"format": {"weight": 0.2}}})
    grader = Grader(config, policy.tokenizer, policy.think_ids)
    problem = Problem("p", (Message("user", "3+4"),), "7")
    completions = [
        completion_of(policy, r"<think>3+4=7</think>\boxed{7}<|im_end|>"),
        completion_of(policy, r"\boxed{7}<|im_end|>"),
        completion_of(policy, r"<think></think>\boxed{7}<|im_end|>"),
        completion_of(policy, r"<think>3+4=8</think>\boxed{8}<|im_end|>"),
        completion_of(policy, r"<think>3+4=7 \boxed{7}", "length"),
        completion_of(policy, r"<think>3+4=7</think><|im_end|>"),
    ]
    prompt = Prompt(np.array([5]), "", opened=False)
    group = grader.grade(0, problem, prompt, completions, policy.stop_ids)
    assert group.rewards_GK.tolist() == [[1, 1], [1, 0], [1, 0], [0, 1], [0, 0], [0, 0]]
    assert group.totals_G.tolist() == [1.2, 1, 1, 0.2, 0, 0]
    assert [row[0].status for row in group.scores_GK] == ["scored"] * 4 + ["no_answer"] * 2
    assert group.texts_G[1] == r"\boxed{7}"
    assert not group.failed
    rows = group_rows(group, [1, 2, 3, 4, 5, 6], {}, by_token=False)
    assert rows[4]["finish_reason"] == "length"
    assert [row["advantage"] for row in rows] == [1, 2, 3, 4, 5, 6]
    assert rows[0]["rewards"] == {"correctness": 1.0, "format": 1.0}


def test_the_grader_knows_of_a_prompt_that_opens_the_reasoning() -> None:
    policy = load_policy("bundled")
    grader = Grader(TrainConfig(), policy.tokenizer, policy.think_ids)
    problem = Problem("p", (Message("user", "3+4"),), "7")
    completions = [
        completion_of(policy, r"3+4=7</think>\boxed{7}<|im_end|>"),
        completion_of(policy, r"</think>\boxed{7}<|im_end|>"),
        completion_of(policy, r"\boxed{7}<|im_end|>"),
    ]
    opened = Prompt(np.array([5]), "<think>", opened=True)
    group = grader.grade(0, problem, opened, completions, policy.stop_ids)
    assert group.rewards_GK.tolist() == [[1, 1], [1, 0], [0, 0]]


def test_a_reference_answer_that_cannot_be_judged_fails_the_group() -> None:
    policy = load_policy("bundled")
    grader = Grader(TrainConfig(), policy.tokenizer, policy.think_ids)
    problem = Problem("p", (Message("user", "3+4"),), " ")
    group = grader.grade(0, problem, Prompt(np.array([5]), "", False), [completion_of(policy, "7")], policy.stop_ids)
    assert group.failed
    assert not passes_filter(group, TrainConfig())
