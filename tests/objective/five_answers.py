"""The second batch of golden numbers: answers of 4, 2, 3 | 2, 3 tokens in two groups, with rewards 1 0 0 | 1 0."""

import torch
from torch import Tensor

from groupwise.objective.ratios.ratio import RatioLevel
from groupwise.objective.ratios.token import TokenRatio
from groupwise.objective.surrogates.surrogate import Surrogate, SurrogateInputs, SurrogateOutputs


def flat(*answers: list[float]) -> Tensor:
    """The tokens of all answers, end to end."""
    return torch.tensor([value for answer in answers for value in answer], dtype=torch.float64)


LENGTHS = torch.tensor([4, 2, 3, 2, 3])
OLD = flat(
    [-1.2040, -0.3567, -2.3026, -0.6931],
    [-3.5066, -0.9163],
    [-0.5108, -2.9957, -1.6094],
    [-0.2231, -1.8971],
    [-0.1054, -2.1203, -0.7985],
)
NEW = flat(
    [-1.0540, -0.6567, -1.9026, -0.6431],
    [-2.2066, -1.3663],
    [-0.7608, -0.5957, -1.5094],
    [-0.2931, -1.5471],
    [-0.7054, -2.0903, -0.5985],
)
ADVANTAGES_E = torch.tensor([2 / 3, -1 / 3, -1 / 3, 0.5, -0.5], dtype=torch.float64)
ADVANTAGES = ADVANTAGES_E.repeat_interleave(LENGTHS)


def inputs_of(new_N: Tensor, ratio: RatioLevel | None = None) -> SurrogateInputs:
    """What a surrogate sees of the batch."""
    log_ratio_N = (ratio or TokenRatio()).log_ratio(new_N, OLD, LENGTHS)
    return SurrogateInputs(
        log_ratio_N=log_ratio_N, new_logps_N=new_N, old_logps_N=OLD, advantages_N=ADVANTAGES, lengths_E=LENGTHS
    )


def token_mean(surrogate: Surrogate, ratio: RatioLevel | None = None) -> tuple[float, Tensor, SurrogateOutputs]:
    """The mean loss over tokens, its gradient by each new log-probability, and the outputs."""
    new_N = NEW.clone().requires_grad_()
    outputs = surrogate.loss(inputs_of(new_N, ratio))
    loss = outputs.loss_N.mean()
    (gradient_N,) = torch.autograd.grad(loss, new_N)
    return loss.item(), gradient_N, outputs


def close(actual: Tensor | float, expected: list[float] | float) -> None:
    """Equal to what six printed digits can say."""
    actual_N = torch.as_tensor(actual, dtype=torch.float64)
    torch.testing.assert_close(actual_N, torch.as_tensor(expected, dtype=torch.float64), rtol=5e-6, atol=1e-6)
