import pytest
import torch

from groupwise.objective.corrections.correction import NoCorrection, effective_sample_fraction
from groupwise.objective.corrections.mis import Mis
from groupwise.objective.corrections.tis import Tis
from tests.objective.fixture import GOLDEN, LENGTHS, OLD, OLD_MINUS_SAMPLER, close, golden

FIRST_TOKENS = [0, 2, 5, 9]
SAMPLER = OLD - OLD_MINUS_SAMPLER


def test_token_weights_golden() -> None:
    weights_N = Tis(level="token").weights(OLD, SAMPLER, LENGTHS)
    close(weights_N, golden("tis.rho"))
    close(Tis(cap=2.0).limited(weights_N), golden("tis.w_C2"))
    close(Mis(low=0.5, high=5.0).limited(weights_N), golden("icepop.w_[0.5,5]"))
    close(Mis(low=0.5, high=2.0).limited(weights_N), golden("mis.w_[0.5,2]"))
    assert NoCorrection().limited(weights_N).tolist() == [1.0] * 10
    assert torch.equal(NoCorrection().weights(OLD, SAMPLER, LENGTHS), weights_N)


def test_sequence_weights_golden() -> None:
    product_N = Tis(level="sequence_product").weights(OLD, SAMPLER, LENGTHS)
    close(product_N[FIRST_TOKENS], GOLDEN["tis.seq_product"])
    close(Tis(cap=2.0).limited(product_N)[FIRST_TOKENS], GOLDEN["tis.seq_trunc_C2"])
    close(Mis(low=0.0, high=2.0).limited(product_N)[FIRST_TOKENS], GOLDEN["tis.seq_mask_C2"])
    geometric_N = Mis(level="sequence_geometric_mean").weights(OLD, SAMPLER, LENGTHS)
    close(geometric_N[FIRST_TOKENS], GOLDEN["tis.seq_geomean"])
    assert torch.equal(geometric_N[5:9], geometric_N[5].expand(4))


def test_the_weight_is_detached() -> None:
    old_N = OLD.clone().requires_grad_()
    assert not Tis().weights(old_N, SAMPLER, LENGTHS).requires_grad


def test_weights_stay_finite() -> None:
    far = torch.tensor([200.0, -200.0])
    weights_N = Tis().weights(far, torch.zeros(2), torch.tensor([1, 1]))
    assert weights_N.isfinite().all()
    assert (weights_N > 0).all()


def test_effective_sample_fraction() -> None:
    weights = torch.tensor([1.0, 1.0, 2.0])
    assert effective_sample_fraction(float(weights.mean()), float(weights.square().mean())) == pytest.approx(16 / 18)
    assert effective_sample_fraction(1.0, 1.0) == 1
    assert effective_sample_fraction(0.25, 0.25) == 0.25  # one weight of 1 among four
    assert effective_sample_fraction(0.0, 0.0) == 0
