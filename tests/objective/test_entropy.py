import pytest
import torch

from groupwise.objective.entropy.bonus import FixedBonus, NoBonus
from groupwise.objective.entropy.target_bonus import TargetBonus
from groupwise.objective.entropy.token_entropy import token_entropy
from groupwise.objective.sampling_mask import kept_logits, kept_mask
from tests.objective.fixture import GOLDEN, close

LOGITS = torch.tensor([[0.6667, -2.0, 1.3333, 0.0, -0.6667, 2.0, -1.3333]], dtype=torch.float64)
KEPT = torch.tensor([GOLDEN["keepmask.top_p0.9.keep"]]).bool()


def rough(actual: torch.Tensor | float, name: str) -> None:
    """The golden logits are known to four decimals only."""
    assert float(actual) == pytest.approx(GOLDEN[name], abs=5e-5)


def test_entropy_golden() -> None:
    rough(token_entropy(LOGITS), "entropy.7logits")
    for actual, expected in zip(LOGITS.log_softmax(-1)[0].tolist(), GOLDEN["entropy.7logits.logp"], strict=True):
        assert actual == pytest.approx(expected, abs=5e-5)


def test_entropy_of_a_uniform_and_of_a_certain_choice() -> None:
    close(token_entropy(torch.zeros(2, 8)), [torch.tensor(8.0).log()] * 2)
    assert token_entropy(torch.tensor([[0.0, -1000.0]])).item() == 0


def test_kept_set_golden() -> None:
    kept = kept_logits(LOGITS, KEPT, torch.tensor([2]))
    logps = kept.log_softmax(-1)
    rough(logps[0, 2], "keepmask.logp_kept[idx2]")
    rough(LOGITS.log_softmax(-1)[0, 2], "keepmask.logp_full[idx2]")
    rough(logps[0, 2] - LOGITS.log_softmax(-1)[0, 2], "keepmask.shift")
    rough(token_entropy(kept), "keepmask.entropy_safe")
    assert GOLDEN["keepmask.entropy_naive"] == "nan"
    assert (-(logps.exp() * logps).sum()).isnan()


def test_kept_set_gradients_are_finite_and_stay_inside() -> None:
    logits = LOGITS.clone().requires_grad_()
    kept = kept_logits(logits, KEPT, torch.tensor([2]))
    (gradient,) = torch.autograd.grad(token_entropy(kept).sum() + kept.log_softmax(-1)[0, 2], logits)
    assert gradient.isfinite().all()
    assert torch.equal(gradient != 0, KEPT)


def test_kept_mask_from_recorded_sets() -> None:
    mask_NV = kept_mask(torch.tensor([0, 2, 3, 5, 1]), torch.tensor([4, 1]), 7)
    assert mask_NV.double().tolist() == [GOLDEN["keepmask.top_p0.9.keep"], [0, 1, 0, 0, 0, 0, 0]]


def test_sets_of_other_samples_are_refused() -> None:
    with pytest.raises(ValueError, match="not in its kept set"):
        kept_logits(LOGITS, KEPT, torch.tensor([1]))


def test_adapted_coefficient() -> None:
    bonus = TargetBonus(target_nats=0.2, coefficient_step=0.005, max_coefficient=0.01)
    assert bonus.next_coefficient(0.001, 0.1) == pytest.approx(0.006)
    assert bonus.next_coefficient(0.007, 0.1) == 0.01
    assert bonus.next_coefficient(0.001, 0.3) == 0.0
    assert bonus.next_coefficient(0.001, 0.2) == 0.001


def test_a_fixed_coefficient_stays() -> None:
    assert (FixedBonus(coefficient=0.02).start, TargetBonus(coefficient=0.3).start, NoBonus().start) == (0.02, 0.3, 0.0)
    for observed in (0.0, 0.2, 5.0):
        assert FixedBonus(coefficient=0.02).next_coefficient(0.02, observed) == 0.02
        assert NoBonus().next_coefficient(0.0, observed) == 0.0
