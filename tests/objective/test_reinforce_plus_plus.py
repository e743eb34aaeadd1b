"""REINFORCE++ against values worked out by hand: two groups of ragged answers, and the forms that trainers have."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from groupwise.objective.advantages.estimator import GroupRewards, Moments
from groupwise.objective.advantages.reinforce_plus_plus import ReinforcePlusPlus
from groupwise.objective.loss import LossInputs, Objective, policy_loss
from groupwise.objective.surrogates.ppo_clip import PpoClip

LENGTHS = torch.tensor([4, 2, 3, 2, 3])
OLD = [-1.2040, -0.3567, -2.3026, -0.6931, -3.5066, -0.9163, -0.5108, -2.9957, -1.6094, -0.2231, -1.8971, -0.1054]
NEW = [-1.0540, -0.6567, -1.9026, -0.6431, -2.2066, -1.3663, -0.7608, -0.5957, -1.5094, -0.2931, -1.5471, -0.7054]
OLD, NEW = [*OLD, -2.1203, -0.7985], [*NEW, -2.0903, -0.5985]

MS_SWIFT = {"unit": "answer", "std_ddof": 1, "epsilon": 1e-4, "epsilon_in": "std"}
VERL = {"std_ddof": 1, "epsilon_in": "variance"}
FORMS: dict[str, tuple[dict[str, Any], list[float], float]] = {
    "plain": ({"baseline": "none"}, [1.1547, -0.866025, -0.866025, 1.1547, -0.866025], 0.746498),
    "openrlhf": ({}, [1.25026, -0.731287, -0.731287, 0.920006, -1.06155], 0.629074),
    "verl": (VERL, [1.20478, -0.704685, -0.704685, 0.88654, -1.02293], 0.606191),
    "ms_swift": (MS_SWIFT, [1.2342, -0.617099, -0.617099, 0.925649, -0.925649], 0.461458),
}


def rewards_of(rows: Sequence[Sequence[float]], lengths: Sequence[Sequence[int]]) -> GroupRewards:
    totals_PG = torch.tensor(rows, dtype=torch.float64)
    nothing = torch.empty(0)
    return GroupRewards(totals_PG, totals_PG == 1, nothing, nothing, torch.tensor(lengths))


def over_all(parts: Sequence[Tensor], times: Sequence[Tensor] | None = None) -> Moments:
    flat = torch.cat([part.flatten() for part in parts])
    return Moments.of(flat, None if times is None else torch.cat([part.flatten() for part in times]))


def made_of(**options: Any) -> ReinforcePlusPlus:
    return ReinforcePlusPlus(**options)


def advantages(second: Sequence[float] = (1.0, 0.0), **options: Any) -> Tensor:
    parts = [rewards_of([second], [[2, 3]]), rewards_of([[1.0, 0.0, 0.0]], [[4, 2, 3]])]
    last, first = made_of(**options).advantages(parts, over_all)
    return torch.cat([first.flatten(), last.flatten()])


def loss_of(advantages_E: Tensor) -> tuple[float, Tensor]:
    """PPO's clip 0.2 with the mean over all 14 tokens."""
    new_N = torch.tensor(NEW, dtype=torch.float64, requires_grad=True)
    loss = policy_loss(
        Objective(surrogate=PpoClip(clip_low=0.2, clip_high=0.2)),
        LossInputs(
            new_logps_N=new_N,
            old_logps_N=torch.tensor(OLD, dtype=torch.float64),
            lengths_E=LENGTHS,
            advantages_N=advantages_E.repeat_interleave(LENGTHS),
            weights_N=torch.full((14,), 1 / 14, dtype=torch.float64),
        ),
    ).loss
    (gradient_N,) = torch.autograd.grad(loss, new_N)
    return float(loss.detach()), gradient_N


@pytest.mark.parametrize("form", FORMS)
def test_golden(form: str) -> None:
    options, expected, loss = FORMS[form]
    advantages_E = advantages(**options)
    assert advantages_E.dtype == torch.float64
    assert advantages_E.tolist() == pytest.approx(expected, rel=5e-6)
    assert loss_of(advantages_E)[0] == pytest.approx(loss, rel=5e-6)


def test_golden_gradient() -> None:
    expected = [-0.103757, -0.0661585, 0, -0.0938833, 0.191665, 0, 0, 0.575793, 0.0577283, -0.061272, 0]
    assert loss_of(advantages())[1].tolist() == pytest.approx([*expected, 0, 0.0781339, 0.0926124], rel=1e-5)


def test_the_mean_over_tokens_gives_a_group_of_equal_rewards_an_advantage() -> None:
    """And over answers it does not: their centred rewards have the mean 0."""
    advantages_E = advantages((1.0, 1.0))
    expected = [1.48087, -1.00699, -1.00699, -0.177705, -0.177705]
    assert advantages_E.tolist() == pytest.approx(expected, rel=5e-6)
    assert loss_of(advantages_E)[0] == pytest.approx(0.880577, rel=5e-6)
    assert advantages((1.0, 1.0), unit="answer")[3:].tolist() == [0, 0]


@pytest.mark.parametrize("unit", ["token", "answer"])
@pytest.mark.parametrize("baseline", ["group_mean", "none"])
@pytest.mark.parametrize("epsilon_in", ["floor", "variance", "std"])
def test_where_nothing_varies_nothing_is_learned(unit: str, baseline: str, epsilon_in: str) -> None:
    parts = [rewards_of([[1.05] * 3], [[4, 2, 3]]), rewards_of([[1.05] * 7], [[1] * 7])]
    made = made_of(unit=unit, baseline=baseline, epsilon_in=epsilon_in).advantages(parts, over_all)
    assert [part_PG.tolist() for part_PG in made] == [[[0.0] * 3], [[0.0] * 7]]


def test_which_groups_are_signal() -> None:
    """Without a group baseline a group of equal rewards is compared with the others."""
    part = rewards_of([[1.0, 1.0], [1.0, 0.0]], [[1, 1], [1, 1]])
    assert ReinforcePlusPlus().signal(part).tolist() == [False, True]
    assert ReinforcePlusPlus(baseline="none").signal(part).tolist() == [True, True]


def test_answers_without_trained_tokens_do_not_count_among_tokens() -> None:
    parts = [rewards_of([[1.0, 0.0]], [[3, 0]])]
    assert ReinforcePlusPlus().advantages(parts, over_all)[0].tolist() == [[0.0, 0.0]]
    with_two = [rewards_of([[1.0, 0.0], [1.0, 0.0]], [[3, 0], [1, 1]])]
    made_PG = ReinforcePlusPlus(baseline="none").advantages(with_two, over_all)[0]
    # Five tokens with the rewards 1 1 1 1 0: mean 0.8, deviation 0.4.
    assert made_PG.flatten().tolist() == pytest.approx([0.5, -2.0, 0.5, -2.0])


@pytest.mark.parametrize("unit", ["token", "answer"])
@pytest.mark.parametrize("std_ddof", [0, 1])
def test_the_step_is_centred_and_of_unit_deviation(unit: str, std_ddof: int) -> None:
    advantages_E = advantages(unit=unit, std_ddof=std_ddof, epsilon=1e-300)
    whitened = advantages_E.repeat_interleave(LENGTHS) if unit == "token" else advantages_E
    assert float(whitened.mean()) == pytest.approx(0, abs=1e-12)
    assert float(whitened.std(correction=std_ddof)) == pytest.approx(1)


@pytest.mark.parametrize(
    ("epsilon_in", "deviation"), [("floor", 2.0), ("variance", 4.1875**0.5), ("std", 4 + 0.1875**0.5)]
)
def test_where_epsilon_acts(epsilon_in: str, deviation: float) -> None:
    """Rewards 1 0 0 0 of one token each: mean 0.25, variance 0.1875."""
    parts = [rewards_of([[1.0, 0.0, 0.0, 0.0]], [[1] * 4])]
    made_PG = made_of(epsilon=4.0, epsilon_in=epsilon_in).advantages(parts, over_all)[0]
    assert float(made_PG[0, 0]) == pytest.approx(0.75 / deviation)


def test_a_group_of_one_needs_the_plain_form() -> None:
    parts = [rewards_of([[1.0], [0.0]], [[1], [1]])]
    assert ReinforcePlusPlus(baseline="none").advantages(parts, over_all)[0].tolist() == [[1.0], [-1.0]]
    with pytest.raises(ValueError, match="at least 2 samples"):
        ReinforcePlusPlus().advantages(parts, over_all)
