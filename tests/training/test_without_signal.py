"""What has no gradient is not computed, is counted all the same, and moves no weight."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from groupwise.config import TrainConfig
from groupwise.model.load import Policy
from groupwise.model.reference import frozen_copy
from groupwise.ranks import Ranks
from groupwise.training.step_batch import count_step
from groupwise.training.update import accumulate_gradient, update
from tests.support.episodes import (
    REDUCTIONS,
    TrainGroup,
    TrainSequence,
    batch_of,
    config_with,
    gradient_of,
    lengths_scored,
    sequences_of,
    silenced,
    train_groups,
)
from tests.support.tiny import build, gradients, policy_of, relative_difference


def partly_silenced(groups: Sequence[TrainGroup]) -> list[TrainGroup]:
    """The second completion of every group is worth exactly what its group is on average."""
    return [
        replace(g, sequences=tuple(replace(s, advantage=0.0) if i == 1 else s for i, s in enumerate(g.sequences)))
        for g in groups
    ]


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_sequences_without_advantage_are_not_forwarded_and_count(
    reduction: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same gradient as where something makes all of them be computed."""
    model = build("llama")
    groups = partly_silenced(train_groups(model))
    objective = {"reduction": reduction}
    everything = gradient_of(
        model, groups, config_with(objective=objective, entropy={"bonus": {"type": "target", "target_nats": 1.0}})
    )
    seen = lengths_scored(monkeypatch)
    found = gradient_of(model, groups, config_with(objective=objective))
    assert sorted(seen) == sorted(len(s.ids) for s in sequences_of(groups) if s.advantage != 0)
    assert len(seen) == len(sequences_of(groups)) - 3
    assert relative_difference(found, everything) < 1e-5


@pytest.mark.parametrize(
    "acting",
    [
        {"kl": {"coefficient": 0.1}},
        {"entropy": {"bonus": {"type": "fixed", "coefficient": 0.01}}},
        {"entropy": {"bonus": {"type": "target", "target_nats": 1.0}}},
    ],
)
def test_what_acts_without_an_advantage_forwards_all_that_is_trained(
    acting: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = build("llama")
    groups = partly_silenced(train_groups(model))
    groups[0] = replace(groups[0], sequences=(replace(groups[0].sequences[0], trained=False), *groups[0].sequences[1:]))
    groups = [
        replace(g, kl_coefficient=0.1, sequences=tuple(replace(s, ref_logps=s.old_logps) for s in g.sequences))
        for g in groups
    ]
    config = config_with(**acting)
    seen = lengths_scored(monkeypatch)
    batch = batch_of(groups)
    accumulate_gradient(policy_of(model), batch, count_step(batch, Ranks()), config, config.entropy.bonus.start)
    assert sorted(seen) == sorted(len(s.ids) for s in sequences_of(groups) if s.trained)


def test_a_penalty_on_tokens_without_an_advantage_has_its_gradient() -> None:
    """KL-Cov may pick such tokens, since the mean advantage that it compares with is seldom 0."""
    model = build("llama")
    groups = partly_silenced(train_groups(model))

    def drifting(coefficient: float) -> list[TrainGroup]:
        def with_drift(sequence: TrainSequence) -> TrainSequence:
            size = coefficient if sequence.advantage == 0 else 0.0
            old_logps = sequence.old_logps + np.float32(0.3)
            return replace(sequence, old_logps=old_logps, drift=np.full(len(sequence.ids), size, dtype=np.float32))

        return [replace(group, sequences=tuple(map(with_drift, group.sequences))) for group in groups]

    config = config_with(entropy={"covariance": "kl_cov"})
    without = gradient_of(model, drifting(0.0), config)
    assert relative_difference(gradient_of(model, drifting(1.0), config), without) > 1e-2


def test_no_pass_scores_what_is_not_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the trainer's own before the step, nor the reference's."""
    model = build("llama")
    policy = policy_of(model)
    groups = [replace(group, kl_coefficient=0.1) for group in train_groups(model)]
    groups[2] = replace(groups[2], sequences=tuple(replace(s, trained=False) for s in groups[2].sequences))
    config = config_with(
        kl={"coefficient": 0.1}, batch={"epochs_per_step": 2}, objective={"old_logps": "trainer"}, entropy={}
    )
    seen = lengths_scored(monkeypatch)
    optimizer = torch.optim.AdamW(policy.model.parameters())
    update(policy, frozen_copy(policy), optimizer, batch_of(groups), 1, config, Ranks())
    once = [len(s.ids) for s in sequences_of(groups) if s.trained]
    assert sorted(seen) == sorted(4 * once)


def state_of(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    return [tensor.clone() for state in optimizer.state.values() for tensor in state.values()]


def after_one_step(config: TrainConfig) -> tuple[Policy, torch.optim.Optimizer, list[TrainGroup]]:
    """A policy with momentum, which AdamW would go on with, and a weight decay."""
    model = build("llama")
    policy, groups = policy_of(model), train_groups(model)
    optimizer = torch.optim.AdamW(policy.model.parameters(), lr=1e-2, weight_decay=0.1)
    update(policy, None, optimizer, batch_of(groups), 1, config, Ranks())
    return policy, optimizer, groups


def test_a_step_without_signal_moves_neither_weights_nor_momentum() -> None:
    config = config_with(batch={"minibatches_per_step": 2})
    policy, optimizer, groups = after_one_step(config)
    weights = [weight.detach().clone() for weight in policy.model.parameters()]
    moments = state_of(optimizer)
    updated = update(policy, None, optimizer, batch_of(silenced(groups)), 2, config, Ranks())
    assert updated.metrics["optimizer/updates"].value == 0
    assert all(torch.equal(*pair) for pair in zip(policy.model.parameters(), weights, strict=True))
    assert all(torch.equal(*pair) for pair in zip(state_of(optimizer), moments, strict=True))
    assert gradients(policy.model) == {}
    # A step with a gradient of zeros would have moved them.
    for weight in policy.model.parameters():
        weight.grad = torch.zeros_like(weight)
    optimizer.step()
    assert not any(torch.equal(*pair) for pair in zip(policy.model.parameters(), weights, strict=True))


class BesideOther(Ranks):
    """A ranks whose other rank has a group with signal in everything that is counted."""

    def sum(self, values: list[float]) -> list[float]:
        return [value + 1.0 for value in values]

    def sum_gradients(self, gradients: list[Tensor]) -> None:
        for gradient in gradients:
            gradient += 1.0


def test_a_rank_without_signal_steps_with_the_others() -> None:
    config = config_with()
    policy, optimizer, groups = after_one_step(config)
    weights = [weight.detach().clone() for weight in policy.model.parameters()]
    updated = update(policy, None, optimizer, batch_of(silenced(groups)), 2, config, BesideOther())
    assert updated.metrics["optimizer/updates"].value == 1
    assert not any(torch.equal(*pair) for pair in zip(policy.model.parameters(), weights, strict=True))
