"""The small batch that the golden numbers are of: four sequences of 2, 3, 4 and 1 tokens, rewards 1, 0, 1, 0."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import torch
from torch import Tensor

from groupwise.objective.advantages.group import Group
from groupwise.objective.loss import LossInputs, LossOutputs, Objective, policy_loss
from groupwise.objective.reductions.reduction import Reduction, ReductionInputs, count_totals
from groupwise.objective.segments import segment_sum
from groupwise.objective.step_tokens import StepTokens

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parent / "golden.json").read_text())

LENGTHS = torch.tensor([2, 3, 4, 1])
OLD = torch.tensor([-1.0, -0.5, -2.0, -0.3, -1.2, -0.7, -1.1, -0.4, -2.3, -0.9], dtype=torch.float64)
NEW_MINUS_OLD = torch.tensor([0.3, -0.1, 0.5, -0.4, 0.1, -0.05, 0.02, 0.25, -0.6, -0.35], dtype=torch.float64)
NEW_MINUS_REF = torch.tensor([0.2, 0.1, -0.3, 0.0, 0.4, 0.05, -0.1, 0.15, 0.3, -0.2], dtype=torch.float64)
OLD_MINUS_SAMPLER = torch.tensor([0.01, -0.02, 1.0, 0.05, -0.9, 0.0, 0.03, -0.01, 0.8, -0.04], dtype=torch.float64)
REWARDS = torch.tensor([[1.0, 0.0, 1.0, 0.0]])


def techniques(option: Any) -> list[Any]:
    """One of each technique of ours that an option chooses from, at its defaults; `function` is the user's own."""
    kinds = get_args(get_args(option)[0])
    return [technique() for technique in kinds if technique.model_fields["type"].default != "function"]


def close(actual: Tensor | float, expected: Any) -> None:
    """Equal to what six printed digits can say."""
    actual = torch.as_tensor(actual, dtype=torch.float64).detach()
    expected = torch.as_tensor(expected, dtype=torch.float64)
    torch.testing.assert_close(actual, expected, rtol=5e-6, atol=1e-6)


def flat(padded: list[list[float]]) -> Tensor:
    """The golden rows, padded to four tokens, as one token axis."""
    return torch.tensor([x for row, n in zip(padded, LENGTHS.tolist(), strict=True) for x in row[:n]]).double()


def golden(name: str) -> Tensor:
    return flat(GOLDEN[name])


def grpo_advantages() -> Tensor:
    return Group(scale="group_std").of(REWARDS).flatten()


def dr_grpo_advantages() -> Tensor:
    return Group().of(REWARDS).flatten()


def weights(reduction: Reduction) -> Tensor:
    return reduction.token_weights(ReductionInputs(LENGTHS, count_totals(LENGTHS), max_new_tokens=8))


def inputs(reduction: Reduction, advantages_E: Tensor | None = None, **more: Any) -> LossInputs:
    """Loss inputs of the fixture; the new log-probabilities are a leaf that collects the gradient."""
    advantages_E = grpo_advantages() if advantages_E is None else advantages_E
    more = {"advantages_N": advantages_E.repeat_interleave(LENGTHS), **more}
    new_N = (OLD + NEW_MINUS_OLD).requires_grad_()
    advantages_E = grpo_advantages() if advantages_E is None else advantages_E
    return LossInputs(
        new_logps_N=new_N,
        old_logps_N=OLD,
        sampler_logps_N=OLD - OLD_MINUS_SAMPLER,
        ref_logps_N=(new_N - NEW_MINUS_REF).detach(),
        lengths_E=LENGTHS,
        weights_N=weights(reduction),
        **{"advantages_N": advantages_E.repeat_interleave(LENGTHS), **more},
    )


def with_step_values(objective: Objective, of: LossInputs) -> LossInputs:
    """With what the surrogate computes where the inputs are all of an optimizer step, of one group."""
    if not objective.surrogate.has_step_values:
        return of
    new_N, advantages_N = of.new_logps_N.detach(), of.advantages_N
    log_ratio_N = objective.ratio.log_ratio(new_N, of.old_logps_N, of.lengths_E)
    sums_E = segment_sum(advantages_N, of.lengths_E)
    group_E = torch.zeros_like(of.lengths_E)
    step = StepTokens(
        log_ratio_N, new_N, of.old_logps_N, new_N, advantages_N, of.lengths_E, group_E, (sums_E > 0).double()
    )
    return replace(of, surrogate_step_N=objective.surrogate.of_step(step).values_N)


def loss_and_gradient(objective: Objective, of: LossInputs) -> tuple[LossOutputs, Tensor]:
    outputs = policy_loss(objective, of)
    (gradient_N,) = torch.autograd.grad(outputs.loss, of.new_logps_N)
    return outputs, gradient_N


def check_golden(name: str, objective: Objective, reduction: Reduction, advantages_E: Tensor | None = None) -> None:
    """Value and gradient of `name`, whose own name for a reduction may differ."""
    outputs, gradient_N = loss_and_gradient(objective, inputs(reduction, advantages_E))
    close(outputs.loss, GOLDEN[f"{name}.loss"])
    close(gradient_N, golden(f"{name}.grad"))
