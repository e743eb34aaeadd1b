"""The second batch of golden numbers: answers of 4, 2, 3 | 2, 3 tokens in two groups, with rewards 1 0 0 | 1 0."""

from dataclasses import replace

import torch
from torch import Tensor

from groupwise.objective.loss import LossInputs, Objective, policy_loss
from groupwise.objective.ratios.ratio import RatioLevel
from groupwise.objective.ratios.token import TokenRatio
from groupwise.objective.reductions.reduction import Reduction, ReductionInputs, count_totals
from groupwise.objective.reductions.token_mean import TokenMean
from groupwise.objective.step_tokens import StepTokens
from groupwise.objective.surrogates.surrogate import Surrogate, SurrogateInputs, SurrogateOutputs


def flat(*answers: list[float]) -> Tensor:
    """The tokens of all answers, end to end."""
    return torch.tensor([value for answer in answers for value in answer], dtype=torch.float64)


LENGTHS = torch.tensor([4, 2, 3, 2, 3])
GROUPS = torch.tensor([0, 0, 0, 1, 1])
REWARDS = torch.tensor([1.0, 0.0, 0.0, 1.0, 0.0], dtype=torch.float64)
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


def step_of(new_N: Tensor = NEW, rewards_E: Tensor = REWARDS) -> StepTokens:
    """The batch as one optimizer step."""
    log_ratio_N = TokenRatio().log_ratio(new_N, OLD, LENGTHS)
    return StepTokens(log_ratio_N, new_N, OLD, OLD, ADVANTAGES, LENGTHS, GROUPS, rewards_E)


def part_of(step: StepTokens, *answers: int) -> StepTokens:
    """Some answers of it as a step."""
    kept_E = torch.isin(torch.arange(len(step.lengths_E)), torch.tensor(answers))
    kept = {"N": kept_E.repeat_interleave(step.lengths_E), "E": kept_E}
    return replace(step, **{name: value[kept[name[-1]]] for name, value in vars(step).items()})


def loss_of_step(
    surrogate: Surrogate, step: StepTokens, reduction: Reduction | None = None, step_N: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The loss of a surrogate of the whole step under a reduction, and its gradient by each new log-probability."""
    new_N, lengths_E = step.new_logps_N.clone().requires_grad_(), step.lengths_E
    weights_N = (reduction or TokenMean()).token_weights(ReductionInputs(lengths_E, count_totals(lengths_E), 8))
    step_N = surrogate.of_step(step).values_N if step_N is None else step_N
    inputs = LossInputs(new_N, step.old_logps_N, lengths_E, step.advantages_N, weights_N, surrogate_step_N=step_N)
    loss = policy_loss(Objective(surrogate=surrogate), inputs).loss
    (gradient_N,) = torch.autograd.grad(loss, new_N)
    return loss.detach(), gradient_N


def close(actual: Tensor | float, expected: list[float] | float) -> None:
    """Equal to what six printed digits can say."""
    actual_N = torch.as_tensor(actual, dtype=torch.float64)
    torch.testing.assert_close(actual_N, torch.as_tensor(expected, dtype=torch.float64), rtol=5e-6, atol=1e-6)
