"""What a training run works with, and what a finished step of it is."""

import copy
from dataclasses import dataclass
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from groupwise.config import TrainConfig
from groupwise.grading.graded_group import GradedGroup
from groupwise.model.load import Policy
from groupwise.problem import Problem
from groupwise.ranks import Ranks
from groupwise.rollout.engine import RolloutEngine
from groupwise.track.run_folder import RunFolder
from groupwise.track.tracker import Tracker
from groupwise.training.advantages import Advantages
from groupwise.training.checkpoint import TrainState
from groupwise.training.collect import Sampler
from groupwise.training.rollout_rows import group_rows
from groupwise.training.token_pass import Key, TokenValues


@dataclass(frozen=True)
class Prepared:
    """What a training run works with, as `setup.py` loads it.

    reference: for a KL penalty, None without one. reference_digest: of it as the run began, or of this rank's part of
    it; "" where it is renewed. initial: the policy at step 0 where adapters are trained, None
    without. context: what a resumed run has to agree on. engine_gap_nats: mean distance between the log-probabilities
    of trainer and engine, as `check_engine` measures it. until: end of `run.stop_after`, of `time.monotonic`.
    """

    policy: Policy
    reference: Policy | None
    reference_digest: str
    initial: Policy | None
    engine: RolloutEngine
    optimizer: torch.optim.Optimizer
    sampler: Sampler
    eval_problems: list[Problem]
    context: dict[str, Any]
    engine_gap_nats: float
    until: float


@dataclass(frozen=True)
class Run(Prepared):
    """A training run in its folder.

    config: with micro-batches that fit. stated: as it was given, and as config.yaml holds it.
    """

    config: TrainConfig
    stated: TrainConfig
    folder: RunFolder
    state: TrainState
    ranks: Ranks
    tracker: Tracker


@dataclass
class Step:
    """A finished step of a run.

    metrics: its line of metrics.jsonl, by the names of `docs/metrics.md`. admitted: the groups that were trained on,
    with advantages_PG; sampled: all of them; tokens: what the updates said of theirs. is_last: set by `stop`.
    """

    run: Run
    metrics: dict[str, Any]
    admitted: list[GradedGroup]
    sampled: list[GradedGroup]
    advantages_PG: Advantages
    tokens: dict[Key, TokenValues]
    is_last: bool = False

    @property
    def number(self) -> int:
        """From 1."""
        return int(self.metrics["step"])

    @property
    def model(self) -> PreTrainedModel:
        """The model in training, to read its weights; its attention takes packed batches alone, see `copy_model`."""
        return self.run.policy.model

    def copy_model(self) -> PreTrainedModel:
        """A copy of the model as it is now, to use or change in any way, as in `generate`."""
        copied = copy.deepcopy(self.model)
        copied.set_attn_implementation("eager")
        return copied

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """That of the model."""
        return self.run.policy.tokenizer

    @property
    def rollouts(self) -> list[dict[str, Any]]:
        """A record of each completion that this process sampled, as in the files of rollouts/."""
        return [row for rows in self.rollouts_of_groups().values() for row in rows]

    def rollouts_of_groups(self) -> dict[int, list[dict[str, Any]]]:
        """The same, by the position of their group in the stream."""
        own = {group.position: row for group, row in zip(self.admitted, self.advantages_PG, strict=True)}
        by_token = self.run.config.advantages_by_token
        return {g.position: group_rows(g, own.get(g.position), self.tokens, by_token) for g in self.sampled}

    def stop(self) -> None:
        """End the run with this step, as if it had no more of them: the model is saved and measured."""
        self.is_last = True
