"""DPPO with the binary KL: golden values by hand, both directions of drift, and the edges of the divergence."""

import math

import pytest
import torch
from torch import Tensor

from groupwise.config import TrainConfig
from groupwise.config.checks import contradictions
from groupwise.objective.loss import Objective
from groupwise.objective.surrogates.dppo_kl import DppoKl, binary_kl
from groupwise.objective.surrogates.surrogate import SurrogateInputs, SurrogateOutputs
from tests.support.nine_tokens import ENGINE, NEW, OLD, check

DIVERGENCE = [0.0959123, 0.300195, 0.00180976, 0.0166002, 0.500788, 0.0100305, 0.00551551, 0.247345, 0.268126]


def log_of(probability: float) -> Tensor:
    return torch.tensor(probability, dtype=torch.float64).log()


def test_golden() -> None:
    torch.testing.assert_close(binary_kl(ENGINE, NEW), torch.tensor(DIVERGENCE).double(), rtol=5e-6, atol=0)
    # The fifth token fell with A < 0, the first two and the eighth rose with A > 0; the last one fell with A > 0.
    of_engine = [0.0, 0.0, -0.104171, -0.1865, 0.0, 0.0986865, -0.0600323, 0.0, -0.0273874]
    check(Objective(surrogate=DppoKl()), ENGINE, -0.279404, of_engine)
    of_old = [0.0, 0.0, -0.0999961, -0.16786, 0.0, 0.0937516, -0.0620341, 0.0, -0.0277791]
    check(Objective(surrogate=DppoKl(reference="old")), OLD, -0.263918, of_old)


def test_the_cap_bounds_the_weight_and_leaves_the_gradient() -> None:
    # Capped at 1.1: the fourth token, r 1.6785, and the sixth, r 1.18424.
    gradient_N = [0.0, 0.0, -0.104171, -1.1 / 9, 0.0, 0.75 * 1.1 / 9, -0.0600323, 0.0, -0.0273874]
    check(Objective(surrogate=DppoKl(cap=1.1)), ENGINE, sum(gradient_N), gradient_N)


@pytest.mark.parametrize("pi", [1e-6, 0.2, 0.5, 0.8, 1 - 1e-6])
@pytest.mark.parametrize("mu", [1e-6, 0.3, 0.5, 0.9])
def test_divergence(mu: float, pi: float) -> None:
    """Against the sum over both outcomes; the form of others, with 1e-8 in the logarithms, agrees away from 1."""
    expected = mu * math.log(mu / pi) + (1 - mu) * math.log((1 - mu) / (1 - pi))
    found = float(binary_kl(log_of(mu), log_of(pi)))
    assert found == pytest.approx(expected, rel=1e-6, abs=1e-12)
    assert found >= -1e-15
    with_floor = mu * math.log(mu / pi) + (1 - mu) * math.log((1 - mu + 1e-8) / (1 - pi + 1e-8))
    assert with_floor == pytest.approx(expected, rel=2e-2, abs=1e-7)


def test_divergence_at_its_edges() -> None:
    sure, half = 0.0, math.log(0.5)
    mu_N = torch.tensor([sure, sure, half, 1e-8], dtype=torch.float32)
    pi_N = torch.tensor([sure, half, sure, half], dtype=torch.float32)
    assert binary_kl(mu_N, pi_N).tolist() == pytest.approx([0.0, math.log(2), math.inf, math.log(2)])


def of(surrogate: DppoKl, new_N: Tensor, engine_N: Tensor, advantages_N: Tensor) -> tuple[SurrogateOutputs, Tensor]:
    new_N = new_N.requires_grad_()
    inputs = SurrogateInputs(new_N - engine_N, new_N, engine_N, advantages_N, torch.tensor([len(new_N)]), engine_N)
    outputs = surrogate.loss(inputs)
    (gradient_N,) = torch.autograd.grad(outputs.loss_N.sum(), new_N)
    return outputs, gradient_N


def test_only_what_moves_on_is_dropped_and_a_tie_is_kept() -> None:
    low, high = log_of(0.2), log_of(0.6)
    new_N, engine_N = torch.stack([high, high, low, low, low]), torch.stack([low, low, high, high, high])
    advantages_N = torch.tensor([1.0, -1.0, 1.0, -1.0, 0.0]).double()
    outputs, gradient_N = of(DppoKl(), new_N, engine_N, advantages_N)
    assert (gradient_N == 0).tolist() == [True, False, False, True, True]
    assert (outputs.high_N.tolist(), outputs.low_N.tolist()) == ([True] + [False] * 4, [False] * 3 + [True, False])
    rise, fall = float(binary_kl(low, high)), float(binary_kl(high, low))
    # 0.2 → 0.6 and back are 0.335 and 0.382 nats: not the same.
    assert (rise, fall) == pytest.approx((0.3348, 0.3819), abs=1e-4)
    _, gradient_N = of(DppoKl(kl_high=rise, kl_low=fall), new_N.detach(), engine_N, advantages_N)
    assert (gradient_N == 0).tolist() == [False, False, False, False, True]
    _, gradient_N = of(DppoKl(kl_high=fall, kl_low=rise), new_N.detach(), engine_N, advantages_N)
    assert (gradient_N == 0).tolist() == [False, False, False, True, True]


def test_a_sure_token_is_dropped_without_nan() -> None:
    outputs, gradient_N = of(DppoKl(), torch.zeros(2), torch.tensor([-800.0, 0.0]), torch.ones(2))
    assert (outputs.loss_N.tolist(), gradient_N.tolist()) == ([0.0, -1.0], [0.0, -1.0])


def test_findings() -> None:
    def found(**options: str) -> list[str]:
        tree = {"objective": {"old_logps": "trainer", "surrogate": {"type": "dppo_kl", **options}}}
        return [" ".join(finding.keys) for finding in contradictions(TrainConfig.model_validate(tree))]

    assert found() == ["objective.old_logps objective.surrogate"]
    assert found(reference="old") == []
