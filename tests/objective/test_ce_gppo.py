"""CE-GPPO (2509.20712): loss and gradient of fourteen tokens by hand, and what its parts reduce to."""

import torch

from groupwise.objective.surrogates.ce_gppo import CeGppo
from groupwise.objective.surrogates.ppo_clip import PpoClip
from tests.objective.five_answers import ADVANTAGES, OLD, close, flat, inputs_of, token_mean

GRADIENT = flat(
    [-0.0553254, -0.0352771, -0.0609524, -0.0500605],
    [0, 0.0142857],
    [0.0142857, 0, 0.0263136],
    [-0.0332998, -0.0457143],
    [0.0214286, 0.0368019, 0.0436215],
)


def test_golden() -> None:
    loss, gradient_N, outputs = token_mean(CeGppo(coefficient_low=0.75, coefficient_high=1.0, dual_clip=3.0))
    close(loss, 0.0189647)
    close(gradient_N, GRADIENT.tolist())
    assert outputs.low_N.nonzero().flatten().tolist() == [5, 6, 11]
    assert outputs.high_N.nonzero().flatten().tolist() == [2, 4, 7, 10]


def test_without_coefficients_it_has_the_gradient_of_ppo() -> None:
    for dual_clip in (0.0, 3.0):
        without = CeGppo(coefficient_low=0.0, coefficient_high=0.0, dual_clip=dual_clip)
        assert torch.equal(token_mean(without)[1], token_mean(PpoClip(dual_clip=dual_clip))[1])


def test_the_coefficients_scale_one_side_each() -> None:
    halved = token_mean(CeGppo(coefficient_low=0.375, coefficient_high=0.5, dual_clip=3.0))[1]
    share_N = flat([1, 1, 0.5, 1], [1, 0.5], [0.5, 1, 1], [1, 0.5], [0.5, 1, 1])
    close(halved, (GRADIENT * share_N).tolist())


def test_on_policy_it_has_the_policy_gradient() -> None:
    new_N = OLD.clone().requires_grad_()
    (gradient_N,) = torch.autograd.grad(CeGppo().loss(inputs_of(new_N)).loss_N.sum(), new_N)
    assert torch.equal(gradient_N, -ADVANTAGES)
