import pytest
import torch
from groupwise.objective.mask import (
    clip_cov_selected,
    kl_cov_selected,
    off_policy_sequences_kept,
    token_covariance,
    top_entropy_threshold,
)

from groupwise.objective.segments import segment_index, segment_mean, segment_reverse_cumsum, segment_sum
from tests.objective.fixture import (
    GOLDEN,
    LENGTHS,
    NEW_MINUS_OLD,
    OLD,
    OLD_MINUS_SAMPLER,
    close,
    dr_grpo_advantages,
    golden,
)

NEW = OLD + NEW_MINUS_OLD


@pytest.mark.parametrize(
    ("behaviour", "name"), [(OLD, "train old"), (OLD - OLD_MINUS_SAMPLER, "inference old")], ids=["old", "sampler"]
)
def test_off_policy_mask_golden(behaviour: torch.Tensor, name: str) -> None:
    close(segment_mean(behaviour - NEW, LENGTHS), GOLDEN[f"opsm.seq_kl({name})"])
    for threshold in (0.1, 0.5):
        kept_B = off_policy_sequences_kept(behaviour, NEW, dr_grpo_advantages(), LENGTHS, threshold)
        assert kept_B.double().tolist() == GOLDEN[f"opsm.M_delta{threshold}({name})"]


def test_off_policy_mask_looks_at_the_sign() -> None:
    drift_N = torch.ones(3)
    kept_B = off_policy_sequences_kept(
        drift_N, torch.zeros(3), torch.tensor([1.0, 0.0, -1.0, -1.0]), torch.tensor([1, 1, 1, 0]), 0.5
    )
    assert kept_B.tolist() == [True, True, False, True]


def test_top_entropy_tokens() -> None:
    """Ten entropies whose 0.8 quantile, between the eighth and the ninth, is the golden threshold."""
    entropy_N = torch.tensor([0.1, 2.0, 0.3, 1.5, 0.2, 0.4, 1.1, 0.9, 0.5, 0.6], dtype=torch.float64)
    threshold = top_entropy_threshold(entropy_N, 0.2)
    close(threshold, GOLDEN["topent.thr_q0.8"])
    close((entropy_N >= threshold).double(), golden("topent.mask"))
    close(threshold, entropy_N.quantile(0.8))
    assert (entropy_N >= top_entropy_threshold(entropy_N, 1.0)).all()
    assert top_entropy_threshold(torch.tensor([0.7]), 0.2) == pytest.approx(0.7)


def test_covariance() -> None:
    logps_N, advantages_N = torch.tensor([-1.0, -2.0, -6.0]), torch.tensor([2.0, -1.0, -1.0])
    assert token_covariance(logps_N, advantages_N).tolist() == [4.0, -1.0, 3.0]


def test_clip_cov_draws_from_the_band() -> None:
    covariance_N = torch.linspace(-2, 8, 1001)
    inside_N = (covariance_N > 1) & (covariance_N < 5)

    def draw(seed: int, fraction: float) -> torch.Tensor:
        return clip_cov_selected(covariance_N, fraction, 1.0, 5.0, torch.Generator().manual_seed(seed))

    assert draw(0, 0.01).sum() == 10
    assert not (draw(0, 0.01) & ~inside_N).any()
    assert torch.equal(draw(0, 0.01), draw(0, 0.01))
    assert not torch.equal(draw(0, 0.01), draw(1, 0.01))
    assert draw(0, 2e-4).sum() == 1
    assert torch.equal(draw(0, 1.0), inside_N)
    assert not clip_cov_selected(torch.zeros(5), 0.5, 1.0, 5.0, torch.Generator()).any()


def test_kl_cov_takes_the_largest() -> None:
    covariance_N = torch.tensor([0.0, 5.0, -3.0, 7.0, 1.0])
    assert kl_cov_selected(covariance_N, 0.4).tolist() == [False, True, False, True, False]
    assert kl_cov_selected(covariance_N, 2e-4).tolist() == [False, False, False, True, False]
    assert kl_cov_selected(torch.zeros(0), 0.5).tolist() == []


def test_segments() -> None:
    lengths_B = torch.tensor([2, 0, 3, 0])
    values_N = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0], requires_grad=True)
    assert segment_index(lengths_B, 5).tolist() == [0, 0, 2, 2, 2]
    assert segment_sum(values_N, lengths_B).tolist() == [3, 0, 12, 0]
    assert segment_mean(values_N, lengths_B).tolist() == [1.5, 0, 4, 0]
    assert segment_reverse_cumsum(values_N.detach(), lengths_B).tolist() == [3, 2, 12, 9, 5]
    (gradient_N,) = torch.autograd.grad(segment_mean(values_N, lengths_B) @ torch.tensor([2.0, 9, 6, 9]), values_N)
    assert gradient_N.tolist() == [1, 1, 2, 2, 2]
    assert segment_sum(torch.zeros(0), torch.zeros(0, dtype=torch.long)).tolist() == []
