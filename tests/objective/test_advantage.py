from typing import Literal

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from torch import Tensor

from groupwise.objective.advantages.estimator import GroupRewards, Moments, clip_advantages, has_signal, whiten
from groupwise.objective.advantages.gdpo import Gdpo
from groupwise.objective.advantages.group import Group
from groupwise.objective.advantages.max_rl import MaxRl
from groupwise.objective.advantages.pass_at_k import PassAtK
from tests.objective.fixture import GOLDEN, close

Baseline = Literal["group_mean", "leave_one_out", "none"]
Scale = Literal["none", "group_std", "batch_std"]

R4 = [[1.0, 0.0, 1.0, 0.0]]
R8 = [[0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0]]
LITE = [[1.0, 0.0, 1.0, 0.0], [1.0, 1.0, 1.0, 0.0]]
GDPO = torch.tensor([[[1, 1], [0, 1], [1, 1], [0, 0]], [[0, 0], [0, 0], [1, 0], [0, 0]]], dtype=torch.float32)


@pytest.mark.parametrize(
    ("name", "rewards", "group"),
    [
        ("adv.grpo_unbiased_1e-4", R4, Group(scale="group_std", std_ddof=1, std_epsilon=1e-4)),
        ("adv.grpo_unbiased_1e-6", R4, Group(scale="group_std", std_ddof=1, std_epsilon=1e-6)),
        ("adv.grpo_population_1e-4", R4, Group(scale="group_std", std_ddof=0, std_epsilon=1e-4)),
        ("adv.dr_grpo", R4, Group(scale="none")),
        ("adv.r8_unbiased", R8, Group(scale="group_std", std_ddof=1, std_epsilon=1e-4)),
        ("adv.r8_population", R8, Group(scale="group_std", std_ddof=0, std_epsilon=1e-4)),
        ("adv.rloo", R4, Group(baseline="leave_one_out", scale="none")),
        ("adv.batch_std(LitePPO)", LITE, Group(scale="batch_std", std_ddof=1, std_epsilon=1e-4)),
    ],
)
def test_golden(name: str, rewards: list[list[float]], group: Group) -> None:
    advantages_PG = group.of(torch.tensor(rewards))
    assert advantages_PG.dtype == torch.float64
    close(advantages_PG.flatten(), GOLDEN[name])


def test_whitened_group_means_of_reinforce_plus_plus() -> None:
    centred = Group().of(torch.tensor(LITE))
    whitened = whiten(centred, Moments.of(centred), std_ddof=1, std_epsilon=1e-8)
    close(whitened.flatten(), GOLDEN["adv.reinforce++_baseline(seq whiten)"])


def gdpo_sums() -> Tensor:
    return Gdpo().normalised(GDPO, torch.tensor([[1.0, 0.5]] * 2))


def test_gdpo_golden() -> None:
    for component, name in ((0, "gdpo.norm_r1"), (1, "gdpo.norm_r2")):
        single = Gdpo().normalised(GDPO[..., [component]], torch.ones(2, 1))
        close(single, GOLDEN[name])
    close(gdpo_sums(), GOLDEN["gdpo.sum_w(1,0.5)"])
    whitened = whiten(gdpo_sums(), Moments.of(gdpo_sums()), std_ddof=1, std_epsilon=1e-4)
    close(whitened, GOLDEN["gdpo.final_batch_norm"])
    no_PG = torch.zeros(GDPO.shape[:2])
    weights_PK = torch.tensor([[1.0, 0.5]]).expand(len(GDPO), 2)
    part = GroupRewards(no_PG, no_PG.bool(), GDPO, weights_PK, no_PG.long())
    [advantages_PG] = Gdpo().advantages([part], lambda parts, times=None: Moments.of(torch.cat(list(parts)), times))
    close(advantages_PG, GOLDEN["gdpo.final_batch_norm"])


def test_gdpo_whitens_over_the_batch_and_not_over_the_group() -> None:
    per_group = Group(scale="group_std").of(gdpo_sums())
    close(per_group, GOLDEN["gdpo.final_GROUP_norm(upstream script)"])
    summed_first = Group(scale="group_std").of(GDPO @ torch.tensor([1.0, 0.5]))
    close(summed_first, GOLDEN["gdpo.baseline_grpo_sum_then_norm"])


def test_gdpo_ties_what_equal_weights_and_equal_spread_tie() -> None:
    rewards = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.0, 0.0]]])
    equal = Gdpo().normalised(rewards, torch.ones(1, 2))
    unequal = Gdpo().normalised(rewards, torch.tensor([[1.0, 0.1]]))
    assert equal[0, 0] == equal[0, 1] == 0
    assert unequal[0, 0] > unequal[0, 1]


def test_gdpo_needs_one_weight_per_component() -> None:
    with pytest.raises(ValueError, match=r"2 reward components, but weights of the shape \(2, 3\)"):
        Gdpo().normalised(GDPO, torch.ones(2, 3))
    with pytest.raises(ValueError, match=r"2 groups .* but weights of the shape \(1, 2\)"):
        Gdpo().normalised(GDPO, torch.ones(1, 2))


def test_gdpo_weights_may_differ_by_group() -> None:
    weights_PK = torch.tensor([[1.0, 0.5], [0.25, 2.0]])
    rows = [Gdpo().normalised(GDPO[[p]], weights_PK[[p]]) for p in range(2)]
    assert torch.equal(Gdpo().normalised(GDPO, weights_PK), torch.cat(rows))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("rewards", [[1.05] * 8, [1000.1] * 6, [0.1] * 7, [0.0] * 4, [-3.3] * 5])
@pytest.mark.parametrize("scale", ["none", "group_std", "batch_std"])
@pytest.mark.parametrize("baseline", ["group_mean", "leave_one_out"])
def test_equal_rewards_are_no_signal(
    dtype: torch.dtype, rewards: list[float], scale: Scale, baseline: Baseline
) -> None:
    rewards_PG = torch.tensor([rewards], dtype=dtype)
    assert has_signal(rewards_PG).tolist() == [False]
    advantages = Group(baseline=baseline, scale=scale, std_epsilon=1e-8).of(rewards_PG)
    assert advantages.tolist() == [[0.0] * len(rewards)]


def test_a_small_difference_is_signal() -> None:
    rewards_PG = torch.tensor([[0.35] * 7 + [0.4], [0.35] * 8])
    assert has_signal(rewards_PG).tolist() == [True, False]
    advantages = Group(scale="group_std").of(rewards_PG)
    # Std of one among eight that differs by d is d/√8; epsilon takes 0.6 % off.
    assert advantages[0, 7].item() == pytest.approx(0.05 * 7 / 8 / (0.05 / 8**0.5 + 1e-4), rel=1e-5)
    assert advantages[1].tolist() == [0.0] * 8


def test_without_a_baseline_equal_rewards_stay() -> None:
    assert Group(baseline="none").of(torch.ones(2, 1)).tolist() == [[1], [1]]


@pytest.mark.parametrize("baseline", ["group_mean", "leave_one_out"])
def test_a_group_of_one_has_no_baseline(baseline: Baseline) -> None:
    with pytest.raises(ValueError, match="at least 2 samples of each problem"):
        Group(baseline=baseline).of(torch.ones(3, 1))


@pytest.mark.parametrize("scale", ["group_std", "batch_std"])
def test_a_scale_needs_a_baseline(scale: Scale) -> None:
    with pytest.raises(ValueError, match="needs a group baseline"):
        Group(baseline="none", scale=scale).of(torch.ones(3, 4))


def test_a_reward_that_is_not_finite_is_refused() -> None:
    rewards = torch.tensor([[1.0, float("nan")]])
    with pytest.raises(ValueError, match="not finite"):
        Group().of(rewards)


def test_batch_moments_of_ranks_add_up() -> None:
    rewards = torch.tensor(LITE)
    moments = Moments.of(rewards[:1]) + Moments.of(rewards[1:])
    assert moments == Moments.of(rewards)
    parts = [Group(scale="batch_std").of(part, moments) for part in rewards.unsqueeze(1)]
    close(torch.cat(parts).flatten(), GOLDEN["adv.batch_std(LitePPO)"])


def test_moments() -> None:
    moments = Moments.of(torch.tensor([1.0, 2.0, 3.0, 6.0]))
    assert moments.mean() == 3
    assert moments.std(0) == pytest.approx(3.5**0.5)
    assert moments.std(1) == pytest.approx((14 / 3) ** 0.5)
    assert Moments.of(torch.full((5,), 0.1, dtype=torch.float64)).std(0) == pytest.approx(0, abs=1e-8)
    with pytest.raises(ValueError, match="needs more than 1 values"):
        Moments.of(torch.ones(1)).std(1)


def test_moments_of_tokens_are_those_of_every_token_by_itself() -> None:
    values, times = torch.tensor([[1.0, 2.0], [6.0, 9.0]]), torch.tensor([[2, 1], [3, 0]])
    assert Moments.of(values, times) == Moments.of(torch.tensor([1.0, 1.0, 2.0, 6.0, 6.0, 6.0]))
    assert Moments.of(values, times).most == 6


@pytest.mark.parametrize(("values", "vary"), [([], False), ([0.1] * 7, False), ([0.1, 0.1 + 1e-16], True)])
def test_whether_numbers_vary_is_exact(values: list[float], vary: bool) -> None:
    numbers = torch.tensor(values, dtype=torch.float64)
    assert Moments.of(numbers).vary == vary
    assert (Moments.of(numbers) + Moments.of(torch.zeros(0))).vary == vary


def test_clip_advantages() -> None:
    assert clip_advantages(torch.tensor([-7.0, 0.5, 6.0]), 5.0).tolist() == [-5.0, 0.5, 5.0]


def test_max_rl() -> None:
    rewards = torch.tensor([[1.0, 0, 0, 0], [0, 0, 0, 0], [1, 1, 1, 1]])
    expected = [GOLDEN["adv.maxrl_(r-mean)/mean"], [0.0] * 4, [0.0] * 4]
    close(MaxRl().of(rewards), expected)
    with pytest.raises(ValueError, match="not negative"):
        MaxRl().of(torch.tensor([[1.0, -1.0]]))


def test_pass_at_k_golden() -> None:
    correct = torch.tensor([[True, True] + [False] * 6])
    mean, sigma, positive, negative = GOLDEN["passk.N8c2k4[Rbar,sigma,A_pos,A_neg]"]
    close(PassAtK(k=4).of(correct), [[positive] * 2 + [negative] * 6])
    close((1 - mean) / sigma, positive)


def test_pass_at_k_without_spread_is_zero() -> None:
    correct = torch.tensor([[False] * 4, [True] * 4, [True, True, False, False]])
    # Two wrong answers cannot fill a draw of three: every draw passes.
    assert PassAtK(k=3).of(correct).tolist() == [[0.0] * 4] * 3


def test_pass_at_one_is_the_population_std() -> None:
    correct = torch.tensor([[True, False, False, True, False]])
    # An epsilon that is lost in the sum.
    expected = Group(scale="group_std", std_ddof=0, std_epsilon=1e-300).of(correct.float())
    close(PassAtK(k=1).of(correct), expected)


def test_pass_at_k_refuses_what_it_is_not_defined_for() -> None:
    with pytest.raises(ValueError, match="1 <= k <= samples"):
        PassAtK(k=5).of(torch.ones(1, 4, dtype=torch.bool))
    with pytest.raises(ValueError, match="must be bool"):
        PassAtK(k=2).of(torch.ones(1, 4))
    with pytest.raises(ValidationError, match="greater than or equal to 1"):
        PassAtK(k=0)


group = st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=4, max_size=4)


@given(rewards=st.lists(group, min_size=1, max_size=5), shift=st.sampled_from([-2.0, 0.5, 64.0]))
@pytest.mark.parametrize("scale", ["none", "group_std"])
@pytest.mark.parametrize("baseline", ["group_mean", "leave_one_out"])
def test_shifting_a_group_changes_nothing(
    baseline: Baseline, scale: Scale, rewards: list[list[float]], shift: float
) -> None:
    def advantages(rewards_PG: Tensor) -> Tensor:
        return Group(baseline=baseline, scale=scale).of(rewards_PG)

    rewards_PG = torch.tensor(rewards)
    shift_P1 = shift * torch.arange(len(rewards)).unsqueeze(1)
    torch.testing.assert_close(advantages(rewards_PG + shift_P1), advantages(rewards_PG))
    # Each group's advantages sum to 0, and a further group without signal changes nobody's.
    torch.testing.assert_close(advantages(rewards_PG).sum(1), torch.zeros(len(rewards), dtype=torch.float64))
    more_PG = torch.cat([rewards_PG, torch.full((1, 4), 1.05)])
    assert torch.equal(advantages(more_PG)[:-1], advantages(rewards_PG))
