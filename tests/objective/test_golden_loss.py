"""Every golden loss and gradient that one `policy_loss` call can produce."""

import pytest
from torch import Tensor

from groupwise.objective.loss import Objective
from groupwise.objective.reduction import Reduction
from tests.objective.fixture import check_golden, dr_grpo_advantages, grpo_advantages

PPO = Objective(clip_low=0.2, clip_high=0.2)
DR = dr_grpo_advantages()
GSPO_SMALL = Objective(ratio="sequence_geometric_mean", clip_low=3e-4, clip_high=4e-4)

CASES: list[tuple[str, Objective, Reduction, Tensor | None]] = [
    ("ppo_0.2_0.2.token_mean", PPO, "token_mean", None),
    ("ppo_0.2_0.2.seq_mean_token_mean", PPO, "sequence_mean_token_mean", None),
    ("ppo_0.2_0.2.seq_mean_token_sum", PPO, "sequence_mean_token_sum", None),
    ("ppo_0.2_0.2.seq_mean_token_sum_const", PPO, "constant_length", None),
    ("dapo_0.2_0.28.token_mean", Objective(), "token_mean", None),
    ("olmo3_0.2_0.272_drAdv.token_mean", Objective(clip_high=0.272), "token_mean", DR),
    ("drgrpo_0.2_const8.seq_mean_token_sum_const", PPO, "constant_length", DR),
    ("r1_eps10.seq_mean_token_mean", Objective(clip_low=10, clip_high=10), "sequence_mean_token_mean", None),
    ("dual_clip_c1.05.token_mean", Objective(clip_high=0.2, dual_clip=1.05), "token_mean", None),
    ("SEED_token_level_0.2_10.token_mean", Objective(surrogate="seed_clip", clip_high=10), "token_mean", None),
    ("SEED_token_level_0.9_10.token_mean", Objective(surrogate="seed_clip", clip_high=10), "token_mean", None),
    ("gspo_3e-4_4e-4.seq_mean_token_mean", GSPO_SMALL, "sequence_mean_token_mean", None),
    (
        "gspo_0.2_0.2.seq_mean_token_mean",
        Objective(ratio="sequence_geometric_mean", clip_high=0.2),
        "sequence_mean_token_mean",
        None,
    ),
    (
        "gspo_token_0.2_0.2.seq_mean_token_mean",
        Objective(ratio="gspo_token", clip_high=0.2),
        "sequence_mean_token_mean",
        None,
    ),
    # LUSPO multiplies each GSPO term by the length of its sequence: the mean over sequences of token sums.
    (
        "luspo_0.2.seq_mean_token_mean",
        Objective(ratio="sequence_geometric_mean", clip_high=0.2),
        "sequence_mean_token_sum",
        None,
    ),
    ("cispo_max1.28.token_mean", Objective(surrogate="cispo", cispo_cap=1.28), "token_mean", None),
    ("cispo_max5.token_mean", Objective(surrogate="cispo", cispo_cap=5), "token_mean", None),
    ("sapo_1.0_1.05.seq_mean_token_mean", Objective(surrogate="sapo"), "sequence_mean_token_mean", None),
    (
        "gmpo_0.4.seq_mean_token_mean",
        Objective(surrogate="gmpo", clip_low=0.4, clip_high=0.4),
        "sequence_mean_token_mean",
        None,
    ),
    ("dppo_tv_0.1.token_mean", Objective(surrogate="dppo", clip_low=0.1, clip_high=0.1), "token_mean", None),
    ("vespo_2_3_3_2.token_mean", Objective(surrogate="vespo", ratio="sequence_product"), "token_mean", None),
    ("grpo_tis_C2.token_mean", Objective(clip_high=0.2, correction="truncate"), "token_mean", None),
    (
        "grpo_icepop.token_mean",
        Objective(clip_high=0.2, correction="band", correction_low=0.5, correction_high=5),
        "token_mean",
        None,
    ),
    ("olmo3_full.token_mean", Objective(clip_high=0.272, correction="truncate"), "token_mean", DR),
    (
        "dsv32_opsm_0.1.seq_mean_token_mean",
        Objective(clip_high=0.2, off_policy_threshold=0.1),
        "sequence_mean_token_mean",
        DR,
    ),
]


@pytest.mark.parametrize(("name", "objective", "reduction", "advantages_B"), CASES, ids=[c[0] for c in CASES])
def test_loss_and_gradient(name: str, objective: Objective, reduction: Reduction, advantages_B: Tensor | None) -> None:
    check_golden(name, objective, reduction, advantages_B)


def test_grpo_advantages_of_the_fixture() -> None:
    assert grpo_advantages().tolist() == pytest.approx([0.865875, -0.865875, 0.865875, -0.865875], abs=1e-6)
