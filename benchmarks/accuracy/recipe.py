"""What both trainers are given and what both report; imports nothing that needs either of them to be loaded."""

import json
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from workload import write_record

from groupwise.config import TrainConfig
from groupwise.config.compose import compose_train_config

# Every step meets other problems, so that the answers in training show the accuracy too: weights whose mean over so
# many steps is so far below the goal need not be examined.
STEPS_OF_MEAN = 8
BELOW = 0.15


@dataclass(frozen=True)
class Asked:
    """One training run. budget_cpu_seconds: it stops where it has spent more. examiner: the command of examine.py."""

    trainer: str
    lr: float
    seed: int
    steps: int
    goal: float
    snapshot_every_steps: int
    threads: int
    trl_rows: int
    overrides: tuple[str, ...]
    folder: str
    result: str
    budget_cpu_seconds: float
    examiner: tuple[str, ...]

    def config(self) -> TrainConfig:
        """The recipe of the demo, with what the run asks for."""
        return compose_train_config(
            [
                "demo",
                *self.overrides,
                f"optimizer.lr={self.lr}",
                f"run.seed={self.seed}",
                f"run.steps={self.steps}",
                f"run.threads={self.threads}",
                "run.checkpoint_every_steps=0",
                "run.rollouts_every_steps=0",
            ]
        )


@dataclass
class Progress:
    """The steps of a run so far; has weights examined between two steps, and says when to stop.

    accuracies: (steps done, sampled accuracy on held-out problems), with the start at 0.
    """

    asked: Asked
    steps: list[dict[str, float]] = field(default_factory=list)
    accuracies: list[tuple[int, float]] = field(default_factory=list)
    stopped: str = "steps"

    def __post_init__(self) -> None:
        self._examiner = subprocess.Popen(
            list(self.asked.examiner), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._examine("")

    def after_step(self, wall: float, cpu: float, accuracy: float, weights: Iterable[tuple[str, torch.Tensor]]) -> bool:
        """Count a step, of which this share of the sampled answers was right; whether it was the last."""
        asked = self.asked
        self.steps.append({"wall": wall, "cpu": cpu, "accuracy": accuracy})
        done = len(self.steps)
        spent = sum(step["cpu"] for step in self.steps) > asked.budget_cpu_seconds
        due = spent or done == asked.steps or done % asked.snapshot_every_steps == 0
        if due and near_goal([step["accuracy"] for step in self.steps], asked.goal):
            file = Path(asked.folder) / "snapshot.safetensors"
            save_file({name: weight.detach().contiguous() for name, weight in weights}, file)
            self._examine(str(file))
        reached = self.accuracies[-1][1] >= asked.goal
        self.stopped = "goal" if reached else "budget" if spent else "steps"
        return reached or spent or done == asked.steps

    def write(self, **more: Any) -> None:
        """Leave the record for the process that started this one."""
        self._examiner.communicate()
        made = {"steps": self.steps, "accuracies": self.accuracies, "stopped": self.stopped}
        write_record(self.asked.result, {**made, **more})

    def _examine(self, file: str) -> None:
        questions, answers = self._examiner.stdin, self._examiner.stdout
        assert questions is not None
        assert answers is not None
        print(file, file=questions, flush=True)
        answer = answers.readline()
        if not answer:
            raise RuntimeError("the examiner ended; see its error output above")
        self.accuracies.append((len(self.steps), json.loads(answer)))


def near_goal(accuracies: Sequence[float], goal: float) -> bool:
    """Whether the weights after these steps, with their accuracies in training, may have reached the goal."""
    last = accuracies[-STEPS_OF_MEAN:]
    return sum(last) / len(last) >= goal - BELOW
