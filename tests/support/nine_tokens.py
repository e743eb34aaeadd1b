"""Nine tokens in three answers with one advantage each, that golden numbers of several techniques are of."""

import torch
from torch import Tensor

from groupwise.objective.loss import LossInputs, LossOutputs, Objective, policy_loss

LENGTHS = torch.tensor([4, 2, 3])
OLD = torch.tensor([-0.2107, -1.6094, -0.6931, -2.3026, -0.1054, -0.9163, -0.5108, -3.2189, -0.3567]).double()
NEW = torch.tensor([-0.0513, -0.5108, -0.7985, -1.89, -0.9163, -0.7985, -0.4005, -1.204, -1.0498]).double()
ENGINE = torch.tensor([-0.1863, -1.5141, -0.734, -2.4079, -0.1278, -0.9676, -0.478, -3.5066, -0.3425]).double()
ADVANTAGES = torch.tensor([1.0, -0.75, 0.5]).double().repeat_interleave(LENGTHS)


def token_mean(objective: Objective, old_N: Tensor, mask_step_N: Tensor | None = None) -> tuple[LossOutputs, Tensor]:
    """Loss, and its gradient by each token's log-probability, each token weighing 1/9."""
    new_N = NEW.clone().requires_grad_()
    outputs = policy_loss(
        objective,
        LossInputs(
            new_logps_N=new_N,
            old_logps_N=old_N,
            sampler_logps_N=ENGINE,
            lengths_E=LENGTHS,
            advantages_N=ADVANTAGES,
            weights_N=torch.full_like(NEW, 1 / 9),
            mask_step_N=mask_step_N,
        ),
    )
    (gradient_N,) = torch.autograd.grad(outputs.loss, new_N)
    return outputs, gradient_N


def check(
    objective: Objective, old_N: Tensor, loss: float, gradient_N: list[float], step_N: Tensor | None = None
) -> None:
    """Equal to six printed digits, and a gradient of exactly 0 where 0 is expected."""
    outputs, found_N = token_mean(objective, old_N, step_N)
    expected_N = torch.tensor(gradient_N).double()
    torch.testing.assert_close(outputs.loss.detach(), torch.tensor(loss).double(), rtol=5e-6, atol=0)
    torch.testing.assert_close(found_N, expected_N, rtol=5e-6, atol=0)
    assert torch.equal(found_N == 0, expected_N == 0)
