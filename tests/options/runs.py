"""Whole training runs at the smallest size, by the command's own path, with everything that they computed on record."""

import contextlib
import copy
import functools
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from rich.console import Console
from torch import Tensor

from groupwise.config import TrainConfig
from groupwise.config.compose import compose_train_config
from groupwise.evaluation.measure import measure_all
from groupwise.grading.graded_group import GradedGroup
from groupwise.model.backends.token_scores import Rows, Tile
from groupwise.model.cache import KVCache
from groupwise.model.load import Policy, load_policy
from groupwise.objective.loss import LossInputs, LossOutputs, Objective, policy_loss
from groupwise.problem import Problem
from groupwise.rollout import inprocess
from groupwise.track.console import ConsoleTracker
from groupwise.track.rollouts import read_rollouts, rollout_files
from groupwise.track.run_folder import RunFolder
from groupwise.training import loop, setup, update
from groupwise.training import run as main
from groupwise.training.collect import Collected, collect
from groupwise.training.setup import assemble
from groupwise.training.step import Run
from groupwise.training.update import optimizer_step
from groupwise.training.update import update as update_step

Floats = NDArray[np.float64]

SMALL = [
    "problems.train={likely}",
    "run.steps=1",
    "run.threads=1",
    "run.checkpoint_every_steps=0",
    "run.rollouts_every_steps=1",
    "problems.eval_problems=0",
    "sampling.max_new_tokens=24",
    "batch.prompts_per_step=3",
    "batch.samples_per_prompt=4",
    "active_sampling.filter=none",
    "active_sampling.refill=false",
    "rewards.format.weight=0.2",
    "optimizer.lr=1e-3",
]


@dataclass
class Pass:
    """One forward and backward pass of an optimizer step; gradient_N: of the loss, by each token's log-probability."""

    objective: Objective
    inputs: LossInputs
    outputs: LossOutputs
    gradient_N: Floats = field(default_factory=lambda: np.empty(0))

    def stream(self, name: str) -> Floats:
        """One of the loss's inputs as float64."""
        return float64(getattr(self.inputs, name))

    def metric(self, name: str) -> float:
        return float(self.outputs.metrics[name].value)


@dataclass
class Trace:
    """What a run computed. gradients: of every optimizer step before its norm is limited.

    decoded: sequences that each call of the engine holds at once; head_rows: rows of logits that existed at one time
    in training; layer_calls: of the first layer, for a gradient;
    entropy_coefficients: of every step; references: the reference's weights at the end of every step.
    """

    config: TrainConfig
    summary: dict[str, Any]
    shown: str
    run: Run
    before: dict[str, Tensor]
    after: dict[str, Tensor]
    collected: list[Collected]
    passes: list[Pass]
    gradients: list[dict[str, Tensor]]
    decoded: list[int]
    head_rows: list[int]
    layer_calls: int
    measured: list[list[Problem]]
    entropy_coefficients: list[float]

    @property
    def folder(self) -> RunFolder:
        return self.run.folder

    @property
    def policy(self) -> Policy:
        return self.run.policy

    def lines(self) -> list[dict[str, Any]]:
        """The metrics of every step."""
        return [json.loads(line) for line in self.folder.metrics.read_text().splitlines()]

    def metric(self, name: str, step: int = -1) -> float:
        return float(self.lines()[step][name])

    def rows(self, step: int = 1) -> list[dict[str, Any]]:
        """Every completion of a step, as it was written."""
        return read_rollouts(rollout_files(self.folder.path)[step])

    def grid(self, of: Callable[[dict[str, Any]], float], step: int = 1) -> Floats:
        """A number of every completion, over P, G."""
        return np.array([of(row) for row in self.rows(step)]).reshape(-1, self.config.batch.samples_per_prompt)

    def groups(self, step: int = 1) -> list[GradedGroup]:
        """All groups that a step sampled."""
        return self.collected[step - 1].sampled

    def sampled_ids(self, step: int = 1) -> list[list[int]]:
        """What the engine sampled in a step."""
        return [[int(token) for token in c.ids] for group in self.groups(step) for c in group.completions]

    def prompt(self) -> str:
        """The first prompt, as the model sees it."""
        ids = self.groups()[0].prompt.ids
        return str(self.policy.tokenizer.decode(ids, skip_special_tokens=False))


loaded = functools.cache(load_policy)


def fresh_policy(*arguments: Any) -> Policy:
    """A copy of a policy that was loaded before: most runs begin with the same one."""
    policy = loaded(*arguments)
    return replace(policy, model=copy.deepcopy(policy.model))


def float64(tensor: Tensor) -> Floats:
    return tensor.detach().double().numpy()


def flat(tensors: dict[str, Tensor]) -> Floats:
    """All weights or gradients end to end."""
    return np.concatenate([float64(tensors[name]).ravel() for name in sorted(tensors)])


def run_with(overrides: Sequence[str], folder: Path) -> Trace:
    """`groupwise train` with these options, in this working directory."""
    arguments = list(overrides)
    config = compose_train_config(arguments)
    seen: dict[str, list[Any]] = {name: [] for name in ("run", "before", "collected", "measured", "coefficients")}
    passes: list[Pass] = []
    gradients: list[dict[str, Tensor]] = []
    decoded: list[int] = []
    head_rows: list[int] = []
    logits_of = Rows.logits
    layer_calls: list[bool] = []

    def noted_loss(objective: Objective, inputs: LossInputs) -> LossOutputs:
        # A twin of the log-probabilities that nothing else uses: its gradient is the loss's own.
        inputs = replace(inputs, new_logps_N=inputs.new_logps_N * 1.0)
        noted = Pass(objective, inputs, policy_loss(objective, inputs))
        inputs.new_logps_N.register_hook(lambda gradient: setattr(noted, "gradient_N", float64(gradient)))
        passes.append(noted)
        return noted.outputs

    def noted_step(policy: Policy, *arguments: Any) -> Any:
        named = policy.trainable()
        # A weight that no token reached has none.
        zeros = torch.zeros_like
        gradients.append(
            {name: zeros(weight) if weight.grad is None else weight.grad.clone() for name, weight in named}
        )
        return optimizer_step(policy, *arguments)

    def noted_logits(rows: Rows, tile: Tile) -> Tensor:
        head_rows.append(len(rows.target_C))
        return logits_of(rows, tile)

    def noted_run(*arguments: Any) -> Run:
        run = assemble(*arguments)
        # Those that tried out how much memory a pass takes, and whether the engine agrees.
        passes.clear()
        decoded.clear()
        head_rows.clear()
        seen["run"].append(run)
        seen["before"].append(weights_of(run.policy))
        count_layer_calls(run.policy, layer_calls)
        return run

    def recording(name: str, original: Callable[..., Any], value: Callable[..., Any]) -> Callable[..., Any]:
        def called(*arguments: Any, **named: Any) -> Any:
            result = original(*arguments, **named)
            seen[name].append(value(result, *arguments))
            return result

        return called

    def cache_of(rows: int, *arguments: Any) -> KVCache:
        decoded.append(rows)
        return KVCache(rows, *arguments)

    console = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.chdir(folder):
        patch.setattr(Rows, "logits", noted_logits)
        patch.setattr(setup, "load_policy", fresh_policy)
        patch.setattr(update, "policy_loss", noted_loss)
        patch.setattr(update, "optimizer_step", noted_step)
        patch.setattr(main, "assemble", noted_run)
        patch.setattr(loop, "collect", recording("collected", collect, lambda result, *_: result))
        patch.setattr(loop, "update", recording("coefficients", update_step, lambda _, *given: given[7]))
        measured = recording("measured", measure_all, lambda _, *given: given[3])
        patch.setattr(main, "measure_all", measured)
        patch.setattr(loop, "measure_all", measured)
        patch.setattr(inprocess, "KVCache", cache_of)
        summary = main.compose_and_start(arguments, False, ConsoleTracker(Console(file=console, width=200)))
    assert summary is not None
    (run,) = seen["run"]
    run = replace(run, folder=RunFolder(folder / run.folder.path))
    return Trace(
        config=config,
        summary=summary,
        shown=console.getvalue(),
        run=run,
        before=seen["before"][0],
        after=weights_of(run.policy),
        collected=seen["collected"],
        passes=passes,
        gradients=gradients,
        decoded=decoded,
        head_rows=head_rows,
        layer_calls=sum(layer_calls),
        measured=seen["measured"],
        entropy_coefficients=seen["coefficients"],
    )


def count_layer_calls(policy: Policy, calls: list[bool]) -> None:
    """Note every call of the first layer, and whether it was made for a gradient."""
    # The router, where the first layer is a mixture of experts.
    layer: Any = policy.model.get_submodule("model.layers.0.mlp")
    layer = layer.down_proj if hasattr(layer, "down_proj") else layer.gate
    layer.register_forward_pre_hook(lambda *_: calls.append(torch.is_grad_enabled()))


def weights_of(policy: Policy) -> dict[str, Tensor]:
    return {name: weight.detach().clone() for name, weight in policy.model.named_parameters()}


class Runs:
    """Runs by their options; each is made once."""

    def __init__(self, folder: Path, names: dict[str, str]) -> None:
        self._folder, self._names = folder, names
        self._traces: dict[tuple[str, ...], Trace] = {}

    def of(self, overrides: Sequence[str]) -> Trace:
        """The run with these options; `{name}` in one stands for a file of the tests."""
        key = tuple(self._filled(override) for override in [*SMALL, *overrides])
        if key not in self._traces:
            folder = self._folder / f"run-{len(self._traces)}"
            folder.mkdir()
            self._traces[key] = run_with(key, folder)
            torch.set_num_threads(1)
        return self._traces[key]

    def _filled(self, override: str) -> str:
        for name, path in self._names.items():
            override = override.replace(f"{{{name}}}", path)
        return override
