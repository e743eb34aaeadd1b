"""The optimizer of a run, by hand and against what transformers would do."""

import copy
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from safetensors.torch import load_file
from transformers import Trainer

from groupwise.config import TrainConfig
from groupwise.memory.needs import needs_of
from groupwise.model.load import load_policy
from groupwise.model.size import size_of
from groupwise.training.loop import set_learning_rate
from groupwise.training.optimizer import make_optimizer
from groupwise.training.shard_files import OPTIMIZER
from groupwise.training.step import Run
from groupwise.training.update_metrics import update_norm
from tests.support.runs import Quiet, interrupt_at, metrics, resume, train
from tests.support.tiny import build, policy_of


def optimizer_config(**options: Any) -> TrainConfig:
    return TrainConfig.model_validate({"optimizer": options})


@pytest.mark.parametrize("architecture", ["qwen3", "llama", "mistral", "olmo2"])
def test_norms_and_biases_are_exempt_as_in_transformers(architecture: str) -> None:
    biased: dict[str, Any] = {} if architecture == "mistral" else {"attention_bias": True}
    model = build(architecture, **biased)
    policy = policy_of(model)
    theirs = set(Trainer.get_decay_parameter_names(None, model))
    name_of = {weight: name for name, weight in policy.trainable()}
    for exempt in ("norms_and_biases", "none"):
        made = make_optimizer(policy, optimizer_config(weight_decay=0.3, decay_exempt=exempt))
        decayed = {name_of[w] for group in made.param_groups if group["weight_decay"] for w in group["params"]}
        assert {group["weight_decay"] for group in made.param_groups} <= {0.0, 0.3}
        assert sorted(name_of[w] for group in made.param_groups for w in group["params"]) == sorted(name_of.values())
        assert decayed == (theirs & set(name_of.values()) if exempt == "norms_and_biases" else set(name_of.values()))
    assert len(theirs) < len(name_of)


def test_two_steps_of_adamw_by_hand() -> None:
    """1711.05101, algorithm 2, with betas that are not alike."""
    options = {"lr": 0.01, "beta1": 0.5, "beta2": 0.9, "epsilon": 1e-3, "weight_decay": 0.1}
    policy = policy_of(copy.deepcopy(build("llama")))
    optimizer = make_optimizer(policy, optimizer_config(**options))
    name, weight = policy.trainable()[0]
    expected = weight.detach().double().clone()
    first, second = torch.zeros_like(expected), torch.zeros_like(expected)
    for step in (1, 2):
        gradient = torch.randn(weight.shape, generator=torch.Generator().manual_seed(step)) / step
        weight.grad = gradient.clone()
        optimizer.step()
        gradient = gradient.double()
        first = 0.5 * first + 0.5 * gradient
        second = 0.9 * second + 0.1 * gradient**2
        mean, root = first / (1 - 0.5**step), (second / (1 - 0.9**step)).sqrt()
        expected = expected * (1 - 0.01 * 0.1) - 0.01 * mean / (root + 1e-3)
    torch.testing.assert_close(weight.detach().double(), expected, atol=1e-6, rtol=0, msg=name)


def test_a_step_of_muon_is_orthogonal_and_as_long_as_one_of_adamw() -> None:
    """Its singular vectors are the gradient's, and each singular value is near 1 (2502.16982, section 2.2)."""
    policy = policy_of(copy.deepcopy(build("llama")))
    optimizer = make_optimizer(policy, optimizer_config(type="muon", lr=0.01, momentum=0.5))
    before = {name: weight.detach().clone() for name, weight in policy.trainable()}
    for number, (_, weight) in enumerate(policy.trainable()):
        weight.grad = torch.randn(weight.shape, generator=torch.Generator().manual_seed(number))
    gradients = {name: weight.grad for name, weight in policy.trainable() if weight.grad is not None}
    optimizer.step()
    lengths = []
    for name, weight in policy.trainable():
        change = (before[name] - weight.detach()).double()
        if weight.ndim == 2 and "embed" not in name and "lm_head" not in name:
            left, _, right = torch.linalg.svd(gradients[name].double(), full_matrices=False)
            turned = left.T @ (change / (0.01 * 0.2 * max(weight.shape) ** 0.5)) @ right.T
            values = turned.diagonal()
            assert 0.6 < float(values.min()) <= float(values.max()) < 1.3
            assert float((turned - values.diag()).abs().max()) < 0.1
            lengths.append(float(change.square().mean().sqrt()))
        else:
            # The first step of Adam is one of full size, whatever the gradient.
            torch.testing.assert_close(change, 0.01 * gradients[name].double().sign(), atol=1e-4, rtol=0)
    # AdamW's usual length is 0.2 times its learning rate.
    assert 0.1 * 0.01 < min(lengths) <= max(lengths) < 0.3 * 0.01


@pytest.mark.slow
@pytest.mark.parametrize(
    "more", [[], ["batch.epochs_per_step=2"], ["model.adapter=lora"]], ids=["once", "twice", "lora"]
)
def test_a_run_with_muon_is_resumed_to_the_bit(more: list[str], tmp_path: Path) -> None:
    options = ["optimizer.type=muon", "optimizer.weight_decay=0.1", "optimizer.decay_exempt=norms_and_biases", *more]
    train(tmp_path / "whole", *options)
    train(tmp_path / "cut", *options, reporter=Quiet(interrupt_at(2)))
    resume(tmp_path / "cut")
    assert metrics(tmp_path / "cut") == metrics(tmp_path / "whole")
    ours, theirs = (load_file(tmp_path / run / "checkpoints" / "step_000004" / OPTIMIZER) for run in ("cut", "whole"))
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    kinds = {name.partition("/")[0] for name in ours if "q_proj" in name}
    assert kinds == {"momentum_buffer"}


def test_muon_keeps_one_moment_of_its_matrices() -> None:
    policy = load_policy("bundled")
    inner = sum(w.numel() for name, w in policy.trainable() if w.ndim == 2 and "embed" not in name)
    needs = [needs_of(optimizer_config(type=one), size_of(policy.model)) for one in ("adamw", "muon")]
    assert needs[0].moments - needs[1].moments == 4 * inner


@pytest.mark.parametrize("exempt", ["none", "norms_and_biases"])
def test_the_norm_of_an_update_is_that_of_the_change(exempt: str) -> None:
    policy = policy_of(copy.deepcopy(build("llama")).double())
    optimizer = make_optimizer(policy, optimizer_config(lr=0.01, weight_decay=0.3, decay_exempt=exempt))
    for step in (1, 2, 3):
        before = [weight.detach().clone() for _, weight in policy.trainable()]
        for _, weight in policy.trainable():
            weight.grad = torch.randn(weight.shape, generator=torch.Generator().manual_seed(step)).double()
        optimizer.step()
        changes = [weight.detach() - old for (_, weight), old in zip(policy.trainable(), before, strict=True)]
        expected = sum(float(change.square().sum()) for change in changes) ** 0.5
        assert update_norm(policy, optimizer)["optimizer/update_norm"].value == pytest.approx(expected, rel=1e-6)
    assert update_norm(policy, torch.optim.SGD(policy.model.parameters(), lr=1.0)) == {}


def test_the_rate_that_is_reported_is_that_of_the_optimizer() -> None:
    options = {"lr": 0.01, "warmup_steps": 2, "schedule": "linear", "final_lr_fraction": 0.1}
    config = TrainConfig.model_validate({"optimizer": options, "run": {"steps": 6}})
    optimizer = make_optimizer(policy_of(build("llama")), config)
    rates = []
    for step in range(6):
        run = SimpleNamespace(config=config, state=SimpleNamespace(step=step), optimizer=optimizer)
        rates.append(set_learning_rate(cast(Run, run)))
        assert {group["lr"] for group in optimizer.param_groups} == {rates[-1]}
    assert rates == pytest.approx([0.005, 0.01, 0.00775, 0.0055, 0.00325, 0.001])
