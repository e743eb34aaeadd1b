import pytest
import torch

from groupwise.objective.entropy.clip_cov import ClipCov
from groupwise.objective.entropy.covariance import token_covariance
from groupwise.objective.entropy.kl_cov import KlCov
from groupwise.objective.entropy.top_entropy import TopEntropy
from groupwise.objective.masks.off_policy import SequenceMask
from groupwise.objective.masks.policy_mask import MaskInputs
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
    advantages_N = dr_grpo_advantages().repeat_interleave(LENGTHS)
    for threshold in (0.1, 0.5):
        for reference in ("old", "sampler"):
            mask = SequenceMask(reference=reference, threshold_nats=threshold)
            old, sampler = (behaviour, NEW) if reference == "old" else (NEW, behaviour)
            kept_N = mask.kept(MaskInputs(NEW, old, sampler, advantages_N, LENGTHS))
            kept_E = segment_mean(kept_N.double(), LENGTHS)
            assert kept_E.tolist() == GOLDEN[f"opsm.M_delta{threshold}({name})"]


def test_off_policy_mask_looks_at_the_sign() -> None:
    drift_N = torch.ones(3)
    advantages_N, lengths_E = torch.tensor([1.0, 0.0, -1.0]), torch.tensor([1, 1, 1, 0])
    inputs = MaskInputs(torch.zeros(3), drift_N, drift_N, advantages_N, lengths_E)
    assert SequenceMask(threshold_nats=0.5).kept(inputs).tolist() == [True, True, False]


def test_off_policy_mask_is_of_the_mean_whatever_the_length() -> None:
    """Ten tokens of 0.3 nats are 3 nats in sum, and within a threshold of 0.5 nats a token."""
    drift_N = torch.full((11,), 0.3)
    inputs = MaskInputs(torch.zeros(11), drift_N, drift_N, -torch.ones(11), torch.tensor([1, 10]))
    assert SequenceMask(threshold_nats=0.5).kept(inputs).all()
    assert not SequenceMask(threshold_nats=0.2).kept(inputs).any()


def test_top_entropy_tokens() -> None:
    """Ten entropies whose 0.8 quantile, between the eighth and the ninth, is the golden threshold."""
    entropy_N = torch.tensor([0.1, 2.0, 0.3, 1.5, 0.2, 0.4, 1.1, 0.9, 0.5, 0.6], dtype=torch.float64)
    threshold = TopEntropy(fraction=0.2).threshold(entropy_N)
    close(threshold, GOLDEN["topent.thr_q0.8"])
    close((entropy_N >= threshold).double(), golden("topent.mask"))
    close(threshold, entropy_N.quantile(0.8))
    assert (entropy_N >= TopEntropy(fraction=1.0).threshold(entropy_N)).all()
    assert TopEntropy(fraction=0.2).threshold(torch.tensor([0.7])) == pytest.approx(0.7)


def test_covariance() -> None:
    logps_N, advantages_N = torch.tensor([-1.0, -2.0, -6.0]), torch.tensor([2.0, -1.0, -1.0])
    assert token_covariance(logps_N, advantages_N).tolist() == [4.0, -1.0, 3.0]


def test_clip_cov_draws_from_the_band() -> None:
    covariance_N = torch.linspace(-2, 8, 1001)
    inside_N = (covariance_N > 1) & (covariance_N < 5)

    def draw(seed: int, fraction: float) -> torch.Tensor:
        chosen = ClipCov(fraction=fraction, low=1.0, high=5.0)
        return chosen.selected(covariance_N, torch.Generator().manual_seed(seed))

    assert draw(0, 0.01).sum() == 10
    assert not (draw(0, 0.01) & ~inside_N).any()
    assert torch.equal(draw(0, 0.01), draw(0, 0.01))
    assert not torch.equal(draw(0, 0.01), draw(1, 0.01))
    assert draw(0, 2e-4).sum() == 1
    assert torch.equal(draw(0, 1.0), inside_N)
    assert not ClipCov(fraction=0.5, low=1.0, high=5.0).selected(torch.zeros(5), torch.Generator()).any()


def test_kl_cov_takes_the_largest() -> None:
    covariance_N = torch.tensor([0.0, 5.0, -3.0, 7.0, 1.0])
    assert KlCov(fraction=0.4).selected(covariance_N).tolist() == [False, True, False, True, False]
    assert KlCov(fraction=2e-4).selected(covariance_N).tolist() == [False, False, False, True, False]
    assert KlCov(fraction=0.5).selected(torch.zeros(0)).tolist() == []


def test_segments() -> None:
    lengths_E = torch.tensor([2, 0, 3, 0])
    values_N = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0], requires_grad=True)
    assert segment_index(lengths_E, 5).tolist() == [0, 0, 2, 2, 2]
    assert segment_sum(values_N, lengths_E).tolist() == [3, 0, 12, 0]
    assert segment_mean(values_N, lengths_E).tolist() == [1.5, 0, 4, 0]
    assert segment_reverse_cumsum(values_N.detach(), lengths_E).tolist() == [3, 2, 12, 9, 5]
    (gradient_N,) = torch.autograd.grad(segment_mean(values_N, lengths_E) @ torch.tensor([2.0, 9, 6, 9]), values_N)
    assert gradient_N.tolist() == [1, 1, 2, 2, 2]
    assert segment_sum(torch.zeros(0), torch.zeros(0, dtype=torch.long)).tolist() == []
