import pytest
import torch

from groupwise.objective.correction import effective_sample_fraction, engine_weights, limit_weights
from tests.objective.fixture import GOLDEN, LENGTHS, OLD, OLD_MINUS_SAMPLER, close, golden

FIRST_TOKENS = [0, 2, 5, 9]
SAMPLER = OLD - OLD_MINUS_SAMPLER


def test_token_weights_golden() -> None:
    weights_N = engine_weights(OLD, SAMPLER, LENGTHS, "token")
    close(weights_N, golden("tis.rho"))
    close(limit_weights(weights_N, "truncate", 0.0, 2.0), golden("tis.w_C2"))
    close(limit_weights(weights_N, "band", 0.5, 5.0), golden("icepop.w_[0.5,5]"))
    close(limit_weights(weights_N, "band", 0.5, 2.0), golden("mis.w_[0.5,2]"))
    assert limit_weights(weights_N, "none", 0.5, 2.0).tolist() == [1.0] * 10


def test_sequence_weights_golden() -> None:
    product_N = engine_weights(OLD, SAMPLER, LENGTHS, "sequence_product")
    close(product_N[FIRST_TOKENS], GOLDEN["tis.seq_product"])
    close(limit_weights(product_N, "truncate", 0.0, 2.0)[FIRST_TOKENS], GOLDEN["tis.seq_trunc_C2"])
    close(limit_weights(product_N, "band", 0.0, 2.0)[FIRST_TOKENS], GOLDEN["tis.seq_mask_C2"])
    geometric_N = engine_weights(OLD, SAMPLER, LENGTHS, "sequence_geometric_mean")
    close(geometric_N[FIRST_TOKENS], GOLDEN["tis.seq_geomean"])
    assert torch.equal(geometric_N[5:9], geometric_N[5].expand(4))


def test_the_weight_is_detached() -> None:
    old_N = OLD.clone().requires_grad_()
    assert not engine_weights(old_N, SAMPLER, LENGTHS, "token").requires_grad


def test_weights_stay_finite() -> None:
    far = torch.tensor([200.0, -200.0])
    weights_N = engine_weights(far, torch.zeros(2), torch.tensor([1, 1]), "token")
    assert weights_N.isfinite().all()
    assert (weights_N > 0).all()


def test_effective_sample_fraction() -> None:
    weights = torch.tensor([1.0, 1.0, 2.0])
    assert effective_sample_fraction(float(weights.mean()), float(weights.square().mean())) == pytest.approx(16 / 18)
    assert effective_sample_fraction(1.0, 1.0) == 1
    assert effective_sample_fraction(0.25, 0.25) == 0.25  # one weight of 1 among four
    assert effective_sample_fraction(0.0, 0.0) == 0
