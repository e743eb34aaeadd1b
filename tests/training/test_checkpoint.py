"""What a checkpoint holds comes back, and the next step uses it."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from groupwise.model.reference import frozen_copy, refresh
from groupwise.rollout.inprocess import InProcessEngine
from groupwise.training import loop
from groupwise.training.checkpoint import TrainState, load_checkpoint, save_checkpoint, tensors_of
from groupwise.training.run import compose_and_start
from groupwise.training.update import update
from tests.support.runs import Quiet
from tests.support.tiny import build, policy_of


def weights_of(policy: Any) -> Tensor:
    return torch.cat([weight.detach().flatten() for weight in policy.model.parameters()])


@pytest.mark.parametrize("moved", [True, False])
def test_everything_comes_back_also_a_reference_that_has_moved(moved: bool, tmp_path: Path) -> None:
    policy = policy_of(build("llama"))
    reference = frozen_copy(policy)
    optimizer = torch.optim.AdamW(policy.model.parameters(), lr=0.1)
    for step in range(2):
        for weight in policy.model.parameters():
            weight.grad = torch.ones_like(weight) * (step + 1)
        optimizer.step()
        if moved and step == 0:
            refresh(reference, policy)
    state = TrainState(7, 80, 9, 1234, 5.5, 6.5, ["a", "b"], 0.125)
    path = save_checkpoint(tmp_path, tensors_of(policy, reference if moved else None, optimizer), state, keep=1)

    fresh = policy_of(build("llama"))
    own_reference, own_optimizer = frozen_copy(fresh), torch.optim.AdamW(fresh.model.parameters(), lr=0.1)
    assert asdict(load_checkpoint(path, fresh, own_reference, own_optimizer)) == asdict(state)
    assert torch.equal(weights_of(fresh), weights_of(policy))
    assert torch.equal(weights_of(own_reference), weights_of(reference))
    assert torch.equal(weights_of(own_reference), weights_of(policy_of(build("llama")))) != moved
    for mine, theirs in zip(own_optimizer.state.values(), optimizer.state.values(), strict=True):
        assert mine.keys() == theirs.keys()
        assert all(torch.equal(mine[key], theirs[key]) for key in mine)


def test_the_next_step_has_the_new_weights_and_the_new_entropy_coefficient(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In bfloat16, where the engine samples from a copy; the coefficient rises from 0 while the entropy is too low."""
    coefficients: list[float] = []
    sampled_from: list[bool] = []
    stream = InProcessEngine.stream

    def recorded_update(*arguments: Any) -> Any:
        coefficients.append(arguments[-2])
        return update(*arguments)

    def recorded_stream(self: InProcessEngine, *arguments: Any) -> Any:
        pairs = zip(self._policy.model.parameters(), self._model.parameters(), strict=True)
        sampled_from.append(all(torch.equal(trained.bfloat16(), copy) for trained, copy in pairs))
        return stream(self, *arguments)

    monkeypatch.setattr(loop, "update", recorded_update)
    monkeypatch.setattr(InProcessEngine, "stream", recorded_stream)
    options = {
        "model.compute_dtype": "bfloat16",
        "objective.old_logps": "trainer",
        "entropy.bonus": "{type: target, target_nats: 5.0, coefficient_step: 0.01}",
        "run.steps": 3,
        "run.threads": 1,
        "run.output": tmp_path / "run",
        "run.checkpoint_every_steps": 0,
        "problems.eval_problems": 0,
        "batch.prompts_per_step": 2,
        "batch.samples_per_prompt": 2,
        "active_sampling.refill": "false",
        "active_sampling.filter": "none",
        "sampling.max_new_tokens": 8,
        "optimizer.lr": 0.01,
        "optimizer.warmup_steps": 0,
    }
    compose_and_start(["demo", *(f"{key}={value}" for key, value in options.items())], False, Quiet())
    # For the check at the start, and three steps.
    assert sampled_from == [True] * 4
    assert coefficients == pytest.approx([0.0, 0.01, 0.02])
