"""ASPO (2510.06062): the weights of fourteen tokens by hand, and where its bounds act."""

import pytest
import torch

from groupwise.config import TrainConfig
from groupwise.config.checks import contradictions
from groupwise.objective.surrogates.aspo import Aspo
from tests.objective.five_answers import ADVANTAGES, OLD, close, flat, inputs_of, token_mean

WEIGHTS = flat(
    [0.860708, 1.34986, 0, 0.951229], [3, 0], [0, 3, 1.10517], [1.07251, 0], [0, 1.03045, 1.2214]
)  # fmt: skip


def test_golden() -> None:
    loss, gradient_N, outputs = token_mean(Aspo())
    close(gradient_N, (-ADVANTAGES * WEIGHTS / 14).tolist())
    # The value of a token that a bound has stopped is that at the bound: 1/1.2 where A > 0, and 0.8 where A < 0.
    stopped_N = torch.where(ADVANTAGES > 0, 1 / 1.2, 0.8)
    close(loss, float((-ADVANTAGES * torch.where(WEIGHTS == 0, stopped_N, WEIGHTS)).mean()))
    assert (outputs.low_N & (ADVANTAGES < 0)).nonzero().flatten().tolist() == [5, 6, 11]
    assert (outputs.high_N & (ADVANTAGES > 0)).nonzero().flatten().tolist() == [2, 10]


def test_the_cap_limits_both_signs_and_leaves_their_gradient() -> None:
    _, gradient_N, outputs = token_mean(Aspo(cap=1.05))
    expected_N = WEIGHTS.clamp(max=1.05)
    close(gradient_N, (-ADVANTAGES * expected_N / 14).tolist())
    assert (outputs.low_N & (ADVANTAGES > 0)).nonzero().flatten().tolist() == [1, 9]
    assert (outputs.high_N & (ADVANTAGES < 0)).nonzero().flatten().tolist() == [4, 7, 8, 13]


def test_on_policy_it_has_the_policy_gradient() -> None:
    new_N = OLD.clone().requires_grad_()
    outputs = Aspo().loss(inputs_of(new_N))
    (gradient_N,) = torch.autograd.grad(outputs.loss_N.sum(), new_N)
    assert torch.equal(gradient_N, -ADVANTAGES)
    assert not (outputs.low_N | outputs.high_N).any()


@pytest.mark.parametrize(("cap", "refused"), [(3.0, False), (1.0, True)])
def test_a_cap_that_weighs_the_policy_that_sampled_is_refused(cap: float, refused: bool) -> None:
    config = TrainConfig.model_validate({"objective": {"surrogate": {"type": "aspo", "cap": cap}}})
    found = [finding.message for finding in contradictions(config)]
    assert [("is not above 1" in text) for text in found] == [True] * refused
