"""The training loop: sample, grade, admit, compare within groups, update, measure."""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from groupwise.config import TrainConfig
from groupwise.objective.advantage import group_advantages
from groupwise.objective.metric import Metric, merge_metrics
from groupwise.policy.load import Policy
from groupwise.rollout.engine import RolloutEngine
from groupwise.train.checkpoint import TrainState, save_checkpoint
from groupwise.train.collect import Collected, Sampler, collect, rollout_metrics
from groupwise.train.grade import GradedGroup
from groupwise.train.interrupt import Interrupted, Interrupts
from groupwise.train.measure import measure_all
from groupwise.train.micro_batch import TrainGroup
from groupwise.train.report import Reporter
from groupwise.train.run_folder import RunFolder
from groupwise.train.schedule import lr_factor
from groupwise.train.update import update
from groupwise.train.world import World


@dataclass
class Run:
    """Everything that a training run works with; `setup.py` puts it together."""

    config: TrainConfig
    folder: RunFolder
    policy: Policy
    engine: RolloutEngine
    optimizer: torch.optim.Optimizer
    sampler: Sampler
    state: TrainState
    context: dict[str, Any]
    """What a resumed run has to agree on."""
    world: World
    reporter: Reporter
    eval_problems: list[Any]


def train(run: Run) -> bool:
    """Run the remaining steps; False if it was interrupted. Either way the last state is in a checkpoint."""
    config, state, world = run.config, run.state, run.world
    with Interrupts() as interrupts:
        try:
            while state.step < config.run.steps:
                clock = Clock()
                step = state.step + 1

                # An interrupt while sampling ends the step at once: nothing has changed since the last one.
                with interrupts.immediate():
                    collected = collect(run.sampler, step, state.problem_position, world)
                clock.lap("sampling")

                advantages = advantages_of(collected.admitted, config)
                groups = [train_group(group, row) for group, row in zip(collected.admitted, advantages, strict=True)]
                lr = config.optimizer.lr * lr_factor(
                    state.step,
                    config.run.steps,
                    config.optimizer.warmup_steps,
                    config.optimizer.schedule,
                    config.optimizer.final_lr_fraction,
                )
                for parameters in run.optimizer.param_groups:
                    parameters["lr"] = lr
                updated = update(run.policy, run.optimizer, groups, step, config.sampling.temperature, config, world)
                run.engine.load_weights(run.policy.model.named_parameters(), version=step)
                clock.lap("training")

                metrics = merge_metrics([rollout_metrics(collected, config.batch.prompts_per_step), updated])
                metrics = merge_over_ranks(metrics, world)
                advance(state, step, collected, metrics, clock)
                line = {"step": step, "optimizer/lr": lr, **values(metrics), **clock.fields(metrics, state)}
                if is_due(step, config.problems.eval_every_steps) and step < config.run.steps:
                    line |= eval_fields(run)
                write(run, step, line, collected, advantages)
                if is_due(step, config.run.checkpoint_every_steps) or step == config.run.steps:
                    checkpoint(run)
                interrupts.raise_if_asked()
        except Interrupted:
            checkpoint(run)
            return False
    return True


def advantages_of(groups: list[GradedGroup], config: TrainConfig) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Advantages over P, G of the admitted groups."""
    if not groups:
        return np.zeros((0, config.batch.samples_per_prompt))
    options = config.advantage
    rewards_PG = torch.from_numpy(np.stack([group.totals_G for group in groups]))
    advantages_PG = group_advantages(
        rewards_PG,
        baseline=options.baseline,
        scale=options.scale,
        std_ddof=options.std_ddof,
        std_epsilon=options.std_epsilon,
    )
    return advantages_PG.numpy()


def train_group(group: GradedGroup, advantages_G: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> TrainGroup:
    """The ids and numbers of a graded group that the update needs."""
    logps = tuple(completion.logps for completion in group.completions)
    return TrainGroup(
        prompt_ids=group.prompt.ids,
        completion_ids=tuple(completion.ids for completion in group.completions),
        advantages_G=advantages_G,
        old_logps=logps,
        sampler_logps=logps,
    )


class Clock:
    """Wall and CPU seconds of the phases of one step."""

    def __init__(self) -> None:
        self.wall, self.cpu = time.perf_counter(), time.process_time()
        self.laps: dict[str, float] = {}
        self._last = self.wall

    def lap(self, name: str) -> None:
        """Close a phase."""
        now = time.perf_counter()
        self.laps[f"time/{name}_seconds"] = now - self._last
        self._last = now

    def fields(self, metrics: dict[str, Metric], state: TrainState) -> dict[str, float]:
        """The wall-clock fields of a line of metrics; no other field depends on the machine's speed."""
        seconds = time.perf_counter() - self.wall
        tokens = float(metrics["tokens/sampled"].value)
        return {
            **self.laps,
            "time/step_seconds": seconds,
            "time/step_cpu_seconds": time.process_time() - self.cpu,
            "time/tokens_per_second": tokens / seconds,
            "time/elapsed_seconds": state.wall_seconds,
        }


def advance(state: TrainState, step: int, collected: Collected, metrics: dict[str, Metric], clock: Clock) -> None:
    """Count the finished step."""
    tokens = metrics["completion/tokens"] if "completion/tokens" in metrics else Metric(0.0, "mean", 0.0)
    metrics["tokens/sampled"] = Metric(float(tokens.value) * float(tokens.weight), "sum")
    state.step = step
    state.problem_position += collected.prompts_sampled
    state.optimizer_updates += int(metrics["optimizer/updates"].value)
    state.sampled_tokens += round(float(metrics["tokens/sampled"].value))
    state.wall_seconds += time.perf_counter() - clock.wall
    state.cpu_seconds += time.process_time() - clock.cpu


def merge_over_ranks(metrics: dict[str, Metric], world: World) -> dict[str, Metric]:
    """The measurements of all ranks together."""
    if world.size == 1:
        return metrics
    own = {name: [metric.value, metric.reduction, metric.weight] for name, metric in metrics.items()}
    return merge_metrics([{name: Metric(*parts) for name, parts in rank.items()} for rank in world.gather(own)])


def values(metrics: dict[str, Metric]) -> dict[str, float]:
    """Plain numbers by name, in alphabetical order."""
    return {name: float(metrics[name].value) for name in sorted(metrics)}


def is_due(step: int, every: int) -> bool:
    """Whether something that happens every so many steps (0: never) happens after this one."""
    return every > 0 and step % every == 0


def eval_fields(run: Run) -> dict[str, float]:
    """Measurements on held-out problems in the middle of a run, as fields of the metrics."""
    measured = measure_all(run.policy, run.engine, run.sampler.grader, run.eval_problems, run.config)
    return {f"eval/{way}/accuracy": measurement.accuracy.value for way, measurement in measured.items()}


def write(
    run: Run,
    step: int,
    line: dict[str, Any],
    collected: Collected,
    advantages: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
) -> None:
    """Metrics to the folder and to the screen, and the completions when they are due."""
    if run.world.rank == 0:
        run.folder.log(line)
        run.reporter.step(line)
    if is_due(step, run.config.run.rollouts_every_steps):
        by_position = {group.position: row for group, row in zip(collected.admitted, advantages, strict=True)}
        rows = [row for group in collected.sampled for row in group.rows(by_position.get(group.position))]
        if run.world.rank == 0:
            run.folder.write_rollouts(step, rows)


def checkpoint(run: Run) -> None:
    """Save the state of the last finished step."""
    if run.world.rank == 0:
        save_checkpoint(
            run.folder.checkpoints, run.policy, run.optimizer, run.state, run.context, run.config.run.keep_checkpoints
        )
