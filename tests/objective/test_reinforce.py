"""REINFORCE with a ratio: ratio times advantage by hand, and the warnings that nothing bounds it."""

from typing import Any

import torch

from groupwise.config import TrainConfig
from groupwise.config.checks import contradictions
from groupwise.objective.loss import Objective
from groupwise.objective.surrogates.reinforce import Reinforce
from groupwise.objective.surrogates.surrogate import SurrogateInputs
from tests.support.nine_tokens import OLD, check


def test_golden() -> None:
    # -exp(log π - log π_old)·A / 9, worked out outside of this repository.
    gradient_N = [-0.130312, -0.333329, -0.0999961, -0.16786, 0.0370382, 0.0937516, -0.0620341, -0.416665, -0.0277791]
    check(Objective(surrogate=Reinforce()), OLD, -1.10719, gradient_N)


def test_with_the_engine_as_old_policy_the_sum_over_all_samples_is_unbiased() -> None:
    # Σ_v μ(v)·(π(v)/μ(v))·A(v) = Σ_v π(v)·A(v), whatever μ.
    mu_V = torch.tensor([0.7, 0.2, 0.1]).double()
    pi_V = torch.tensor([0.1, 0.3, 0.6]).double()
    advantages_V = torch.tensor([1.0, -2.0, 0.5]).double()
    inputs = SurrogateInputs((pi_V / mu_V).log(), pi_V.log(), mu_V.log(), advantages_V, torch.tensor([3]))
    loss = (mu_V * Reinforce().loss(inputs).loss_N).sum()
    torch.testing.assert_close(loss, -(pi_V * advantages_V).sum())


def warned(**sections: Any) -> list[str]:
    config = TrainConfig.model_validate(sections)
    return [" ".join(finding.keys) for finding in contradictions(config) if "reinforce" in finding.message]


def test_findings() -> None:
    objective = {"surrogate": "reinforce"}
    assert warned(objective=objective) == []
    assert warned(objective={**objective, "ratio": "none"}) == []
    (several,) = warned(objective=objective, batch={"minibatches_per_step": 2})
    assert several.startswith("batch.epochs_per_step")
    sequence = {"type": "sequence", "reference": "old"}
    assert len(warned(objective=objective, batch={"minibatches_per_step": 2}, off_policy_mask=sequence)) == 1
