"""Cases of the guards: what is said and when the run stops, of steps that are made up."""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from groupwise.config import TrainConfig
from groupwise.errors import BrokenRunError
from groupwise.objective.metric import Metric
from groupwise.ranks import Ranks
from groupwise.training.guards import Guards
from groupwise.training.reward_guard import CONSTANT_ANSWERS, Count, Rewards
from groupwise.training.update import Updated
from groupwise.training.update_metrics import Gap
from tests.options.case import ByHand
from tests.support.episodes import batch_of, train_groups
from tests.support.tiny import build

START_NATS = 1e-3
IDLE = {
    "groups/sampled": 4.0, "groups/admitted": 0.0, "groups/failed": 0.0, "completion/neg_logp": 1.0,
    "optimizer/updates": 0.0,
}  # fmt: skip
BUSY = {**IDLE, "optimizer/updates": 1.0}


def guards_of(config: TrainConfig, folder: str = "") -> tuple[Guards, list[str]]:
    """The guards of a run at its first step, and what they say."""
    said: list[str] = []
    policy = SimpleNamespace(trainable=lambda: [("weight", torch.ones(3))], vocabulary=512, shards=None)
    run: Any = SimpleNamespace(
        config=config, policy=policy, ranks=Ranks(), state=SimpleNamespace(step=0), engine_gap_nats=START_NATS,
        tracker=SimpleNamespace(note=said.append, health=lambda _: None),
        folder=SimpleNamespace(path=Path(folder), checkpoints=Path(folder)),
    )  # fmt: skip
    return Guards(run), said


def stops_after(metrics: dict[str, float], *faults: str) -> Callable[[TrainConfig], int | None]:
    """How many such steps it takes until the run stops; None for a run of twenty that does not."""

    def observe(config: TrainConfig) -> int | None:
        guards, _ = guards_of(config)
        for number in range(1, 21):
            step: Any = SimpleNamespace(number=number, metrics=metrics)
            try:
                guards.check_step(step, faults)
            except BrokenRunError:
                return number
        return None

    return observe


def failing_steps(config: TrainConfig) -> int | None:
    rewards = Rewards(config)
    # A step in which half of the answers failed is none in which most did.
    shares = [3, 2, *([3] * 20)]
    for number, failed in enumerate(shares, start=1):
        if any(problem.stops for problem in rewards.after([{"correctness": Count(4, failed, 0.0, 1.0, "why")}])):
            return number
    return None


def constant(config: TrainConfig) -> list[bool]:
    rewards, half = Rewards(config), CONSTANT_ANSWERS // 2
    steps = [rewards.after([{"own": Count(half, 0, 0.5, 0.5, "")}]) for _ in range(4)]
    return [problem.stops for step in steps for problem in step]


def gap_of(largest: float, mean: float) -> Callable[[TrainConfig], str]:
    """What becomes of a step with these distances between engine and trainer."""

    def observe(config: TrainConfig) -> str:
        measured = {"engine/logp_gap_mean": Metric(mean, "mean", 8.0)}
        updated = Updated(measured, np.empty(0, np.float32), gap=Gap(largest, 2, 5, 7))
        with TemporaryDirectory() as folder:
            guards, said = guards_of(config, folder)
            try:
                guards.check_update(batch_of(train_groups(build("llama"))), updated)
            except BrokenRunError:
                return "stopped"
            return "said" if said else "nothing"

    return observe


def of_a_run_that_is_never_right(config: TrainConfig) -> str:
    """What becomes of forty steps in which no answer is right, though each updates."""
    guards, said = guards_of(config)
    for number in range(1, 41):
        step: Any = SimpleNamespace(number=number, metrics={**BUSY, "step": number, "reward/correctness/mean": 0.0})
        try:
            guards.check_step(step, ())
        except BrokenRunError:
            return f"stopped in step {number}"
    return "said" if any("nothing_right" in text for text in said) else "nothing"


GUARDS: dict[str, ByHand] = {
    "guards.skipped_updates": ByHand({"0": None, "3": 3, "7": 7}, stops_after(BUSY, "not finite")),
    "guards.steps_without_update": ByHand({"0": None, "2": 2, "10": 10}, stops_after(IDLE)),
    "guards.steps_of_failing_reward": ByHand({"0": None, "1": 1, "3": 5}, failing_steps),
    "guards.constant_reward": ByHand(
        {"warn": [False], "stop": [True]}, constant, base=("rewards.functions.own.path=own.py:own",)
    ),
    "guards.engine_gap": ByHand({"stop": "stopped", "warn": "said"}, gap_of(1.1e-3, 1e-6)),
    "guards.health": ByHand(
        {"off": "nothing", "warn": "said", "stop": "stopped in step 30"}, of_a_run_that_is_never_right
    ),
    "guards.engine_gap_factor": ByHand(
        {"10.0": "nothing", "4.0": "stopped"}, gap_of(0.5, 5 * START_NATS), base=("model.compute_dtype=bfloat16",)
    ),
}
