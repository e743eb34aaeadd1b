"""Every golden loss and gradient that one `policy_loss` call can produce."""

import pytest
from torch import Tensor

from groupwise.objective.corrections.mis import Mis
from groupwise.objective.corrections.tis import Tis
from groupwise.objective.loss import Objective
from groupwise.objective.masks.off_policy import SequenceMask
from groupwise.objective.ratios.gspo_token import GspoToken
from groupwise.objective.ratios.sequence_geometric_mean import SequenceGeometricMean
from groupwise.objective.ratios.sequence_product import SequenceProduct
from groupwise.objective.reductions.constant_length import ConstantLength
from groupwise.objective.reductions.reduction import Reduction
from groupwise.objective.reductions.sequence_mean_token_mean import SequenceMeanTokenMean
from groupwise.objective.reductions.sequence_mean_token_sum import SequenceMeanTokenSum
from groupwise.objective.reductions.token_mean import TokenMean
from groupwise.objective.surrogates.cispo import Cispo
from groupwise.objective.surrogates.dppo import Dppo
from groupwise.objective.surrogates.gmpo import Gmpo
from groupwise.objective.surrogates.ppo_clip import PpoClip
from groupwise.objective.surrogates.sapo import Sapo
from groupwise.objective.surrogates.seed_clip import SeedClip
from groupwise.objective.surrogates.vespo import Vespo
from tests.objective.fixture import check_golden, dr_grpo_advantages, grpo_advantages

DR = dr_grpo_advantages()
NARROW = PpoClip(clip_low=0.2, clip_high=0.2)
PPO = Objective(surrogate=NARROW)
GSPO = Objective(SequenceGeometricMean(), NARROW)
GSPO_SMALL = Objective(SequenceGeometricMean(), PpoClip(clip_low=3e-4, clip_high=4e-4))
OLMO = PpoClip(clip_high=0.272)
SEED = Objective(surrogate=SeedClip(clip_high=10))
ICEPOP = Mis(low=0.5, high=5)
TOKEN, MEAN, SUM, CONSTANT = TokenMean(), SequenceMeanTokenMean(), SequenceMeanTokenSum(), ConstantLength()

CASES: list[tuple[str, Objective, Reduction, Tensor | None]] = [
    ("ppo_0.2_0.2.token_mean", PPO, TOKEN, None),
    ("ppo_0.2_0.2.seq_mean_token_mean", PPO, MEAN, None),
    ("ppo_0.2_0.2.seq_mean_token_sum", PPO, SUM, None),
    ("ppo_0.2_0.2.seq_mean_token_sum_const", PPO, CONSTANT, None),
    ("dapo_0.2_0.28.token_mean", Objective(), TOKEN, None),
    ("olmo3_0.2_0.272_drAdv.token_mean", Objective(surrogate=OLMO), TOKEN, DR),
    ("drgrpo_0.2_const8.seq_mean_token_sum_const", PPO, CONSTANT, DR),
    ("r1_eps10.seq_mean_token_mean", Objective(surrogate=PpoClip(clip_low=10, clip_high=10)), MEAN, None),
    ("dual_clip_c1.05.token_mean", Objective(surrogate=PpoClip(clip_high=0.2, dual_clip=1.05)), TOKEN, None),
    ("SEED_token_level_0.2_10.token_mean", SEED, TOKEN, None),
    ("SEED_token_level_0.9_10.token_mean", SEED, TOKEN, None),
    ("gspo_3e-4_4e-4.seq_mean_token_mean", GSPO_SMALL, MEAN, None),
    ("gspo_0.2_0.2.seq_mean_token_mean", GSPO, MEAN, None),
    ("gspo_token_0.2_0.2.seq_mean_token_mean", Objective(GspoToken(), NARROW), MEAN, None),
    # LUSPO multiplies each GSPO term by the length of its sequence: the mean over sequences of token sums.
    ("luspo_0.2.seq_mean_token_mean", GSPO, SUM, None),
    ("cispo_max1.28.token_mean", Objective(surrogate=Cispo(cap=1.28)), TOKEN, None),
    ("cispo_max5.token_mean", Objective(surrogate=Cispo(cap=5)), TOKEN, None),
    ("sapo_1.0_1.05.seq_mean_token_mean", Objective(surrogate=Sapo()), MEAN, None),
    ("gmpo_0.4.seq_mean_token_mean", Objective(surrogate=Gmpo(log_clip_low=0.4, log_clip_high=0.4)), MEAN, None),
    ("dppo_tv_0.1.token_mean", Objective(surrogate=Dppo(tv_low=0.1, tv_high=0.1)), TOKEN, None),
    ("vespo_2_3_3_2.token_mean", Objective(SequenceProduct(), Vespo()), TOKEN, None),
    ("grpo_tis_C2.token_mean", Objective(surrogate=NARROW, correction=Tis(cap=2.0)), TOKEN, None),
    ("grpo_icepop.token_mean", Objective(surrogate=NARROW, correction=ICEPOP), TOKEN, None),
    ("olmo3_full.token_mean", Objective(surrogate=OLMO, correction=Tis(cap=2.0)), TOKEN, DR),
    (
        "dsv32_opsm_0.1.seq_mean_token_mean",
        Objective(surrogate=NARROW, off_policy_mask=SequenceMask(threshold_nats=0.1)),
        MEAN,
        DR,
    ),
]


@pytest.mark.parametrize(("name", "objective", "reduction", "advantages_E"), CASES, ids=[c[0] for c in CASES])
def test_loss_and_gradient(name: str, objective: Objective, reduction: Reduction, advantages_E: Tensor | None) -> None:
    check_golden(name, objective, reduction, advantages_E)


def test_grpo_advantages_of_the_fixture() -> None:
    assert grpo_advantages().tolist() == pytest.approx([0.865875, -0.865875, 0.865875, -0.865875], abs=1e-6)
