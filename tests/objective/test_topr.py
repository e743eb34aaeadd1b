"""TOPR (2503.14286): the weights of six tokens by hand, and what its parts reduce to."""

import pytest
import torch

from groupwise.config import TrainConfig
from groupwise.config.checks import contradictions
from groupwise.objective.ratios.sequence_product import SequenceProduct
from groupwise.objective.ratios.token import TokenRatio
from groupwise.objective.surrogates.surrogate import SurrogateInputs, SurrogateOutputs
from groupwise.objective.surrogates.topr import Topr

# Two answers of three tokens: a good one and a bad one, each with a token that became likelier, unlikelier, and stayed.
RATIOS = torch.tensor([4.0, 0.25, 1.0, 4.0, 0.25, 1.0], dtype=torch.float64)
OLD = torch.tensor([-1.0, -0.5, -2.0, -1.5, -0.25, -3.0], dtype=torch.float64)
ADVANTAGES = torch.tensor([2.0, 2.0, 2.0, -0.5, -0.5, -0.5], dtype=torch.float64)
LENGTHS = torch.tensor([3, 3])


def topr(surrogate: Topr, level: TokenRatio | SequenceProduct) -> tuple[SurrogateOutputs, torch.Tensor]:
    """The outputs, and the gradient of the summed loss by each token's log-probability."""
    new_N = (OLD + RATIOS.log()).requires_grad_()
    inputs = SurrogateInputs(level.log_ratio(new_N, OLD, LENGTHS), new_N, OLD, ADVANTAGES, LENGTHS)
    outputs = surrogate.loss(inputs)
    (gradient_N,) = torch.autograd.grad(outputs.loss_N.sum(), new_N)
    return outputs, gradient_N


def test_golden() -> None:
    outputs, gradient_N = topr(Topr(), TokenRatio())
    # -w·A with w = 1 for the good answer, and min(r, 1) for the bad one.
    expected = torch.tensor([-2.0, -2.0, -2.0, 0.5, 0.125, 0.5], dtype=torch.float64)
    torch.testing.assert_close(gradient_N, expected, rtol=0, atol=1e-15)
    new_N = OLD + RATIOS.log()
    torch.testing.assert_close(outputs.loss_N.detach(), expected * new_N, rtol=1e-15, atol=0)
    assert outputs.high_N.tolist() == [False, False, False, True, False, False]
    assert not outputs.low_N.any()


def test_bounds_act_on_bad_answers_alone() -> None:
    outputs, gradient_N = topr(Topr(floor=0.5, cap=2.0), TokenRatio())
    assert gradient_N.tolist() == [-2.0, -2.0, -2.0, 1.0, 0.25, 0.5]
    assert outputs.low_N.tolist() == [False, False, False, False, True, False]


def test_ratios_of_whole_answers_as_in_the_paper() -> None:
    # The product is 4 · 1/4 · 1 = 1 for both answers.
    _, gradient_N = topr(Topr(), SequenceProduct())
    torch.testing.assert_close(gradient_N, -ADVANTAGES, rtol=1e-15, atol=0)


@pytest.mark.parametrize(("options", "refused"), [({}, False), ({"floor": 1.0}, True)])
def test_findings(options: dict[str, float], refused: bool) -> None:
    config = TrainConfig.model_validate({"objective": {"surrogate": {"type": "topr", **options}}})
    found = [finding for finding in contradictions(config) if finding.level == "error"]
    assert bool(found) == refused
