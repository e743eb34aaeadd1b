"""The training loop: sample, grade, admit, compare within groups, update, measure."""

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from groupwise.config import TrainConfig
from groupwise.errors import BrokenRunError
from groupwise.evaluation.measure import UnmeasuredError, measure_all
from groupwise.grading.graded_group import GradedGroup, GradingError
from groupwise.model.load import Policy
from groupwise.model.reference import fingerprint_weights, refresh
from groupwise.objective.metric import Metric, merge_metrics
from groupwise.own_code import OwnCodeError
from groupwise.problem import Problem
from groupwise.ranks import Ranks
from groupwise.rollout.engine import RolloutEngine
from groupwise.track.clock import Clock
from groupwise.track.metrics import LOG_RATIOS_N, finished
from groupwise.track.run_folder import RunFolder
from groupwise.track.tracker import Tracker
from groupwise.training.advantages import Advantages, advantage_metrics, advantages_of
from groupwise.training.checkpoint import TrainState, save_checkpoint, tensors_of
from groupwise.training.collect import Collected, Sampler, collect, retired_problems
from groupwise.training.guards import Guards
from groupwise.training.interrupt import Interrupted, Interrupts
from groupwise.training.learning_rate import lr_factor
from groupwise.training.rollout_metrics import rollout_metrics
from groupwise.training.step_batch import step_batch
from groupwise.training.streams import with_token_advantages
from groupwise.training.update import Updated, update


@dataclass(frozen=True)
class Prepared:
    """What a training run works with, as `setup.py` loads it.

    reference: for a KL penalty, None without one. context: what a resumed run has to agree on. engine_gap_nats: mean
    distance between the log-probabilities of trainer and engine, as `check_engine` measures it.
    """

    policy: Policy
    reference: Policy | None
    engine: RolloutEngine
    optimizer: torch.optim.Optimizer
    sampler: Sampler
    eval_problems: list[Problem]
    context: dict[str, Any]
    engine_gap_nats: float


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
    with advantages_PG; sampled: all of them. is_last: set by `stop`.
    """

    run: Run
    metrics: dict[str, Any]
    admitted: list[GradedGroup]
    sampled: list[GradedGroup]
    advantages_PG: Advantages
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
        by_position = {group.position: row for group, row in zip(self.admitted, self.advantages_PG, strict=True)}
        return [row for group in self.sampled for row in group.rows(by_position.get(group.position))]

    def stop(self) -> None:
        """End the run with this step, as if it had no more of them: the model is saved and measured."""
        self.is_last = True


def steps(run: Run) -> Iterator[Step]:
    """The remaining steps, each when it is finished. However they end, the last one is in a checkpoint.

    Raises:
        Interrupted: at Ctrl-C during a step.
        GradingError: if a reward could not judge and is to stop the run then.
        OwnCodeError: if a surrogate, an advantage estimator or a mask of the user's own failed.
        BrokenRunError: if a guard stopped the run.
    """
    config, state, ranks = run.config, run.state, run.ranks
    interrupts, guards = Interrupts(), Guards(run)
    try:
        while state.step < config.run.steps:
            with interrupts:
                clock, number = Clock(), state.step + 1

                # An interrupt while sampling ends the step at once: nothing has changed since the last one.
                with interrupts.immediate():
                    collected = collect(run.sampler, number, state.problem_position, frozenset(state.retired), ranks)
                run.engine.sleep()
                clock.lap("sampling")

                advantages_PG = advantages_of(collected.admitted, config, ranks)
                batch = step_batch(collected.admitted, advantages_PG, config)
                batch, advantages_PG = with_token_advantages(run.policy, batch, advantages_PG, config)
                guards.check_batch(batch, collected.sampled)
                lr = set_learning_rate(run)
                updated = update(
                    run.policy, run.reference, run.optimizer, batch, number, config, ranks, state.entropy_coefficient
                )
                watched = guards.check_update(batch, updated)
                run.engine.load_weights(run.policy.model.named_parameters(), version=number)
                if run.reference is not None and is_due(number, config.kl.refresh_reference_every_steps):
                    refresh(run.reference, run.policy)
                clock.lap("training")

                measured = [
                    rollout_metrics(collected, config, run.sampler.domains),
                    advantage_metrics(collected.admitted, advantages_PG),
                    updated.metrics,
                    watched,
                ]
                values = over_ranks(measured, updated, ranks)
                line = {"step": number, "optimizer/lr": lr, **values}
                line |= clock.fields(values["tokens/sampled"], state.wall_seconds)
                line["time/waited_for_rewards_seconds"] = collected.waited_seconds
                advance(state, collected, values, clock, config, ranks)
                if is_due(number, config.problems.eval_every_steps) and number < config.run.steps:
                    line |= eval_fields(run)
                step = Step(run, line, collected.admitted, collected.sampled, advantages_PG)
                write(step)
                guards.check_step(step, updated.faults)
                if is_due(number, config.run.checkpoint_every_steps) or number == config.run.steps:
                    checkpoint(run)
                interrupts.raise_if_asked()
            yield step
            if step.is_last:
                break
    except OwnCodeError as error:
        # Some of the step's updates may be made: only what earlier checkpoints hold is a whole step.
        raise OwnCodeError(
            error.what,
            f"{error.text}\nThe run stopped in step {state.step + 1} of {config.run.steps}. Fix the code and resume "
            f"from the newest checkpoint: groupwise train --resume {run.folder.path}",
        ) from error
    except GradingError as error:
        checkpoint(run)
        raise GradingError(
            f"{error}\nThe run stopped after step {state.step} of {config.run.steps}. Fix the cause and resume: "
            f"groupwise train --resume {run.folder.path}"
        ) from error
    except BrokenRunError as error:
        if error.is_sound:
            checkpoint(run)
        raise
    except (Interrupted, GeneratorExit):
        checkpoint(run)
        raise
    if state.step < config.run.steps:
        checkpoint(run)


def set_learning_rate(run: Run) -> float:
    """The learning rate of the coming step."""
    options, steps = run.config.optimizer, run.config.run.steps
    factor = lr_factor(run.state.step, steps, options.warmup_steps, options.schedule, options.final_lr_fraction)
    for parameters in run.optimizer.param_groups:
        parameters["lr"] = options.lr * factor
    return options.lr * factor


def over_ranks(parts: list[dict[str, Metric]], updated: Updated, ranks: Ranks) -> dict[str, float]:
    """The measurements of a step over all ranks as plain numbers, in alphabetical order."""
    merged = merge_metrics(parts)
    if ranks.size > 1:
        own: dict[str, Any] = {name: [metric.value, metric.reduction, metric.weight] for name, metric in merged.items()}
        everywhere = ranks.gather(own)
        merged = merge_metrics([{name: Metric(*triple) for name, triple in part.items()} for part in everywhere])
    log_ratios_N, _ = ranks.concatenate(torch.from_numpy(updated.log_ratios))
    return finished({**{name: metric.value for name, metric in merged.items()}, LOG_RATIOS_N: log_ratios_N.numpy()})


def advance(
    state: TrainState,
    collected: Collected,
    values: dict[str, float],
    clock: Clock,
    config: TrainConfig,
    ranks: Ranks,
) -> None:
    """Count the finished step."""
    wall, cpu = clock.seconds()
    state.step += 1
    state.problem_position = collected.next_position
    state.optimizer_updates += round(values["optimizer/updates"])
    state.sampled_tokens += round(values["tokens/sampled"])
    state.wall_seconds += wall
    state.cpu_seconds += cpu
    for ids in ranks.gather(retired_problems(collected, config.active_sampling.retire_accuracy)):
        state.retired += ids
    if "policy/entropy" in values:
        bonus = config.entropy.bonus
        state.entropy_coefficient = bonus.next_coefficient(state.entropy_coefficient, values["policy/entropy"])


def is_due(step: int, every: int) -> bool:
    """Whether something that happens every so many steps (0: never) happens after this one."""
    return every > 0 and step % every == 0


def eval_fields(run: Run) -> dict[str, float]:
    """Measurements on held-out problems in the middle of a run, as fields of the metrics."""
    try:
        measured = measure_all(run.policy, run.engine, run.sampler.grader, run.eval_problems, run.config)
    except UnmeasuredError as error:
        run.tracker.note(f"not measured after step {run.state.step}: {error}")
        return {}
    return {f"eval/{mode}/accuracy": measurement.accuracy.value for mode, measurement in measured.items()}


def write(step: Step) -> None:
    """Report the metrics, the failures of rewards, and the completions when they are due."""
    run, number = step.run, step.number
    own_failures = [failure for group in step.sampled for failure in group.failures()]
    failures = [failure for rank in run.ranks.gather(own_failures) for failure in rank]
    due = is_due(number, run.config.run.rollouts_every_steps)
    rows = [row for rank in run.ranks.gather(step.rollouts) for row in rank] if due else []
    if run.ranks.rank == 0:
        run.tracker.step(step.metrics)
        run.tracker.failures(number, failures)
        if due:
            run.tracker.rollouts(number, rows)


def checkpoint(run: Run) -> None:
    """Save the state of the last finished step.

    Raises:
        RuntimeError: if the reference is no longer the policy that the run began with, although nothing may train it.
    """
    frozen = None if run.config.kl.refresh_reference_every_steps else run.reference
    if frozen is not None and fingerprint_weights(frozen) != run.context["initial_weights"]:
        raise RuntimeError("the reference policy changed during the run: something trains or overwrites it")
    if run.ranks.rank == 0:
        moved = run.reference if run.config.kl.refresh_reference_every_steps else None
        run.folder.journal.sync()
        run.state.files = run.folder.journal.record()
        tensors = tensors_of(run.policy, moved, run.optimizer)
        save_checkpoint(run.folder.checkpoints, tensors, run.state, run.config.run.keep_checkpoints)
