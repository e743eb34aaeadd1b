"""REAL (2602.05630): slopes, loss and gradient of fourteen tokens by hand, its classes, and what is said of it."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from groupwise.config import TrainConfig
from groupwise.config.checks import contradictions
from groupwise.objective.reductions.sequence_mean_token_mean import SequenceMeanTokenMean
from groupwise.objective.segments import segment_mean
from groupwise.objective.step_tokens import StepTokens
from groupwise.objective.surrogates.real import Real
from tests.objective.five_answers import GROUPS, LENGTHS, OLD, REWARDS, close, loss_of_step, part_of, step_of

GRADIENT = [-0.115643] * 4 + [0.149568] * 2 + [0.191003] * 3 + [-0.215227] * 2 + [0.146215] * 3
ALL_RIGHT = torch.tensor([1.0, 0.0, 0.0, 1.0, 1.0], dtype=torch.float64)
BINARY = Real(labels="binary")
PRINTED = Real(labels="binary", one_class="printed")


def loss_of(real: Real, step: StepTokens) -> tuple[float, Tensor]:
    loss, gradient_N = loss_of_step(real, step, SequenceMeanTokenMean())
    return float(loss), gradient_N


@pytest.mark.parametrize("real", [Real(), BINARY])
def test_golden(real: Real) -> None:
    step = step_of()
    close(segment_mean(step.log_ratio_N, LENGTHS), [0.075, 0.425, 0.75, 0.14, -0.123333])
    # Times 5 answers in 2 groups.
    slope_E = real.of_step(step).values_N[LENGTHS.cumsum(0) - 1, 0] * 2 / 5
    close(slope_E, [-0.92514, 0.598273, 1.14602, -0.860908, 0.877288])
    loss, gradient_N = loss_of(real, step)
    close(loss, 1.90906)
    close(gradient_N, GRADIENT)


def test_golden_of_the_policy_that_sampled() -> None:
    loss, gradient_N = loss_of(Real(), step_of(OLD))
    close(loss, 1.58903)
    close(gradient_N, [-1 / 8] * 4 + [1 / 6] * 2 + [1 / 9] * 3 + [-1 / 4] * 2 + [1 / 6] * 3)


@pytest.mark.parametrize(
    ("real", "loss", "of_its_group"),
    [
        (Real(), 1.33891, [0.0] * 5),
        (BINARY, 1.33891, [0.0] * 5),
        (PRINTED, 1.8941, [-0.124489] * 2 + [-0.14053] * 3),
    ],
)
def test_golden_of_a_group_of_one_class(real: Real, loss: float, of_its_group: list[float]) -> None:
    step = step_of(rewards_E=ALL_RIGHT)
    found, gradient_N = loss_of(real, step)
    close(found, loss)
    close(gradient_N, [*GRADIENT[:9], *of_its_group])
    assert real.of_step(step).metrics["policy/real_one_class_fraction"].value == 0.5


def test_the_loss_is_that_of_the_equation() -> None:
    """Its value and its slope, by autograd through the equation, on random groups."""
    generator = torch.Generator().manual_seed(0)
    group_E = torch.arange(6).repeat_interleave(5)
    lengths_E = torch.randint(1, 9, (30,), generator=generator)
    rewards_E = torch.randint(0, 2, (30,), generator=generator).double()
    new_N = torch.randn(int(lengths_E.sum()), dtype=torch.float64, generator=generator).requires_grad_()
    old_N = torch.zeros_like(new_N)
    mean_E = torch.stack([part.mean() for part in new_N.split(lengths_E.tolist())]) / 0.3
    expected = torch.zeros((), dtype=torch.float64)
    for group in range(6):
        right, wrong = (mean_E[(group_E == group) & (rewards_E == label)] for label in (1, 0))
        expected = expected + ((1 + (-right).exp().sum()).log() + (1 + wrong.exp().sum()).log()) / 6
    (expected_N,) = torch.autograd.grad(expected, new_N)
    given = new_N.detach()
    step = StepTokens(given, given, old_N, old_N, old_N, lengths_E, group_E, rewards_E)
    loss, gradient_N = loss_of(Real(temperature=0.3, labels="binary", one_class="printed"), step)
    assert loss == pytest.approx(expected.item(), rel=1e-12)
    torch.testing.assert_close(gradient_N, expected_N, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize(
    ("labels", "rewards", "right", "wrong"),
    [
        ("above_mean", [1.2, 1.0, 0.2, 0.3, 0.1], [1, 1, 0, 1, 0], [0, 0, 1, 0, 1]),
        # At the mean, which is not exact in binary, an answer is neither.
        ("above_mean", [0.1, 0.2, 0.3, 0.7, 0.7], [0, 0, 1, 0, 0], [1, 0, 0, 0, 0]),
        ("above_mean", [-0.3, 0.3, 0.0, 5.0, 5.0], [0, 1, 0, 0, 0], [1, 0, 0, 0, 0]),
        ("binary", [1.0, 0.5, 0.0, 1.2, math.nan], [1, 0, 0, 0, 0], [0, 0, 1, 0, 0]),
    ],
)
@pytest.mark.parametrize("precision", [torch.float32, torch.float64])
def test_classes(labels: Any, rewards: list[float], right: list[int], wrong: list[int], precision: torch.dtype) -> None:
    rewards_E = torch.tensor(rewards, dtype=precision).double()
    right_E, wrong_E = Real(labels=labels).classes(step_of(rewards_E=rewards_E))
    assert [right_E.int().tolist(), wrong_E.int().tolist()] == [right, wrong]


def test_answers_of_no_class_count_in_no_loss() -> None:
    step = step_of(rewards_E=torch.tensor([1.0, 0.0, 0.5, 1.0, 0.0], dtype=torch.float64))
    loss, gradient_N = loss_of(BINARY, step)
    without, gradient_without_N = loss_of(BINARY, part_of(step, 0, 1, 3, 4))
    assert loss == pytest.approx(without, rel=1e-12)
    close(gradient_N, [*gradient_without_N[:6].tolist(), 0.0, 0.0, 0.0, *gradient_without_N[6:].tolist()])
    assert BINARY.of_step(step).metrics["policy/real_unlabelled_fraction"].value == 1 / 5


def test_a_step_without_answers_and_answers_far_away_stay_finite() -> None:
    assert Real().of_step(part_of(step_of())).values_N.shape == (0, 2)
    for sign in (-1.0, 1.0):
        step = replace(step_of(), log_ratio_N=torch.full_like(OLD, 20.0 * sign))
        values_N = Real(temperature=1e-3).of_step(step).values_N
        assert values_N.isfinite().all()
        # Where all moved alike, those of one class have nothing to learn.
        done_E = REWARDS.eq(1.0 if sign > 0 else 0.0)
        assert values_N[done_E.repeat_interleave(LENGTHS), 0].abs().max() < 1e-12


def test_groups_of_the_step_are_counted() -> None:
    """A group's gradient does not depend on what is in its micro-batch, but on how many groups the step has."""
    both, alone = (Real().of_step(step).values_N for step in (step_of(), part_of(step_of(), 0, 1, 2)))
    torch.testing.assert_close(both[:9] * 2 / 5, alone * 1 / 3)
    assert GROUPS.unique().tolist() == [0, 1]


REDUCED = {"reduction": "sequence_mean_token_mean"}


@pytest.mark.parametrize(
    ("options", "more", "found"),
    [
        ({}, {}, []),
        ({}, {"objective": {"reduction": "token_mean"}}, [("error", "objective.reduction")]),
        ({}, {"objective": {**REDUCED, "ratio": "none"}}, [("error", "objective.ratio")]),
        ({}, {"advantage": {"clip": 0.1}}, [("error", "advantage.clip")]),
        ({}, {"advantage": {"estimator": {"type": "group", "scale": "group_std"}}}, [("error", "advantage.estimator")]),
        ({}, {"advantage": {"clip": 0.1}, "entropy": {"covariance": "clip_cov"}}, []),
        ({}, {"kl": {"coefficient": 0.1, "in_reward": True}}, [("error", "kl.in_reward")]),
        ({"one_class": "printed"}, {}, [("error", "objective.surrogate.one_class")]),
        ({"one_class": "printed", "labels": "binary"}, {}, [("warning", "objective.surrogate.one_class")]),
        (
            {"one_class": "printed", "labels": "binary"},
            {"active_sampling": {"filter": "none", "refill": False}},
            [],
        ),
        ({"labels": "binary"}, {}, []),
        ({"labels": "binary"}, {"rewards": {"format": {"weight": 0.2}}}, [("warning", "objective.surrogate.labels")]),
        (
            {"labels": "binary"},
            {"rewards": {"correctness": {"weight": 2.0}}},
            [("warning", "objective.surrogate.labels")],
        ),
    ],
)
def test_findings(options: dict[str, Any], more: dict[str, Any], found: list[tuple[str, str]]) -> None:
    objective = {**more.get("objective", REDUCED), "surrogate": {"type": "real", **options}}
    config = TrainConfig.model_validate({**more, "objective": objective})
    assert [(finding.level, finding.keys[0]) for finding in contradictions(config)] == found
