"""Numerics: 16 points."""

import math

import torch
from hypothesis import given
from hypothesis import strategies as st

from groupwise.objective.advantages.group import Group
from tests.battery.case import Case

HERE = "tests/battery/test_numerics.py::"
UPDATE, PROPERTIES = "tests/training/test_update.py::test_", "tests/training/test_update_properties.py::test_"
SCORING, SILENT = "tests/model/test_scoring.py::test_", "tests/training/test_without_signal.py::test_"
GUARDS = "tests/training/test_guards.py::test_"

CASES = (
    Case(
        12,
        3,
        "the same seed twice",
        "metrics, completions and weights the same to the last bit",
        ("tests/training/test_run.py::test_the_same_seed_gives_the_same_run",),
    ),
    Case(
        13,
        3,
        "micro-batches of any size, packed and padded, rows in any order",
        "the same loss and gradient within 1e-6 in float32",
        (
            UPDATE + "the_gradient_does_not_depend_on_micro_batches",
            PROPERTIES + "the_order_of_groups_and_sequences_does_not_matter",
            SCORING + "scores_and_gradients_are_those_of_the_plain_model",
            "tests/model/backends/test_token_scores.py::test_products_in_bfloat16_are_those_of_autograd",
        ),
    ),
    Case(
        14,
        3,
        "the first update: log-probabilities of engine and trainer",
        "equal, ratio 1 and KL 0; a model for which they are not is refused with a cause",
        (
            UPDATE + "at_step_0_the_ratio_is_1_and_the_engine_agrees",
            SCORING + "the_check_refuses_a_wrong_mask",
            GUARDS + "an_engine_that_disagrees_in_float32_stops_the_run",
        ),
    ),
    Case(
        15,
        3,
        "NaN or infinity in logits, loss, gradient, reward",
        "update skipped and counted, or stopped; the batch is kept, weights unchanged, stopped after several in a row",
        (
            UPDATE + "a_gradient_that_is_not_finite_changes_nothing",
            GUARDS + "weights_that_are_not_finite_never_enter_a_checkpoint",
            GUARDS + "the_batch_of_a_failed_step_is_left_to_look_at",
            GUARDS + "rewards_and_advantages_that_are_not_finite_stop_before_the_update",
            GUARDS + "skipped_updates_are_said_and_stop_the_run_after_several_in_a_row",
        ),
    ),
    Case(
        16,
        2,
        "a group of equal rewards that are no binary fractions; noise of 1e-9",
        "advantage exactly 0; never above (G-1)/√G",
        (
            "tests/objective/test_advantage.py::test_equal_rewards_are_no_signal",
            HERE + "test_noise_is_no_more_than_any_reward_is",
            HERE + "test_equal_rewards_have_the_advantage_0",
        ),
    ),
    Case(
        17,
        1,
        "log-ratios of ±200",
        "clamped, everything finite",
        (PROPERTIES + "log_ratios_of_200_stay_finite",),
    ),
    Case(
        18,
        1,
        "a step without signal; answers of one token; an empty completion",
        "no update, nothing that is not finite, counted",
        (
            SILENT + "a_step_without_signal_moves_neither_weights_nor_momentum",
            "tests/training/test_collect.py::test_a_step_without_any_signal_stops_asking_at_its_budget",
            PROPERTIES + "answers_of_one_token_behind_a_prompt_of_one_token",
            SCORING + "an_empty_prompt_or_completion_is_an_error",
        ),
    ),
)

ESTIMATOR = Group(scale="group_std")


@given(value=st.floats(-1e6, 1e6), size=st.integers(2, 16))
def test_equal_rewards_have_the_advantage_0(value: float, size: int) -> None:
    assert ESTIMATOR.of(torch.full((1, size), value, dtype=torch.float64)).count_nonzero() == 0


@given(
    value=st.sampled_from([0.35, 0.1, 1.05, 0.7]),
    size=st.integers(2, 16),
    other=st.sampled_from([0.4, 1e-9, -1e-9, 1e9]),
    added=st.booleans(),
)
def test_noise_is_no_more_than_any_reward_is(value: float, size: int, other: float, added: bool) -> None:
    """The largest deviate of G numbers, with the squares over G-1 (Samuelson 1968)."""
    rewards_PG = torch.full((1, size), value, dtype=torch.float64)
    rewards_PG[0, -1] = value + other if added else other
    advantages_PG = ESTIMATOR.of(rewards_PG)
    assert advantages_PG.abs().max() <= (size - 1) / math.sqrt(size) + 1e-12
    assert abs(float(advantages_PG.sum())) < 1e-9 * size
