"""The training loop: sample, grade, admit, compare within groups, update, measure."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from groupwise.config import TrainConfig
from groupwise.evaluation.measure import UnmeasuredError, measure_all
from groupwise.grading.graded_group import GradedGroup
from groupwise.model.device import wait_for
from groupwise.model.reference import refresh
from groupwise.objective.metric import Metric, merge_metrics
from groupwise.ranks import Ranks
from groupwise.stopping import OVER, Stop, Stopped
from groupwise.track.clock import Clock
from groupwise.track.metrics import LENGTHS_B, LOG_RATIOS_N, finished
from groupwise.track.rollouts import Rollouts, share
from groupwise.training.advantages import Advantages, advantage_metrics, advantages_of, reward_agreement
from groupwise.training.balance import balanced
from groupwise.training.checkpoint import TrainState
from groupwise.training.collect import Collected, collect, retired_problems
from groupwise.training.completion_metrics import completion_metrics, lengths_of
from groupwise.training.guards import Guards
from groupwise.training.last_step import LastStep
from groupwise.training.learning_rate import lr_factor
from groupwise.training.leaving import checkpoint, leave
from groupwise.training.less_at_once import micro_batch_tokens, sample_fewer, train_less, with_less
from groupwise.training.process import process_metrics, with_process_advantages
from groupwise.training.rollout_metrics import rollout_metrics
from groupwise.training.rollout_rows import kept_rollouts
from groupwise.training.step import Run, Step
from groupwise.training.step_batch import StepBatch, step_batch
from groupwise.training.streams import with_token_advantages
from groupwise.training.token_pass import token_values
from groupwise.training.update import Updated, update


def steps(run: Run, stop: Stop) -> Iterator[Step]:
    """The remaining steps, each when it is finished. However they end, the last one is in a checkpoint, as far as that
    is possible; an error has a note that says so, and how to resume.

    Raises:
        Stopped: where `stop` asks for it, or before `run.stop_after` would be exceeded.
        GradingError: if a reward could not judge and is to stop the run then.
        OwnCodeError: if a surrogate, an advantage estimator or a mask of the user's own failed.
        BrokenRunError: if a guard stopped the run.
        MemoryLimitError: if one answer alone does not fit.
    """
    config, state, guards = run.config, run.state, Guards(run)
    last = LastStep(run.policy, run.optimizer, keeps_copy=config.updates_per_step > 1)
    saved, began = Longest(), (time.monotonic(), state.step)
    try:
        if state.unmeasured:
            with stop:
                stop.saves = state.step
                run.tracker.step(state.unmeasured | evaluated(run))
                state.unmeasured = {}
        while state.step < config.run.steps:
            with stop:
                step = one_step(run, stop, last, guards, saved)
            yield step
            if step.is_last:
                break
            stop.deadline = run.until - saved.seconds
            mean_seconds = (time.monotonic() - began[0]) / (state.step - began[1])
            if state.step < config.run.steps and time.monotonic() + mean_seconds > stop.deadline:
                stop.cause = OVER
                raise Stopped
    except (Exception, Stopped, KeyboardInterrupt, GeneratorExit) as error:
        with stop:
            leave(run, stop, last, error)
        raise
    if state.step < config.run.steps:
        checkpoint(run)


def one_step(run: Run, stop: Stop, last: LastStep, guards: Guards, saved: "Longest") -> Step:
    """The next step, with its records and, where it is due, its checkpoint."""
    config, state, ranks = run.config, run.state, run.ranks
    clock, number = Clock(partial(wait_for, run.policy.device)), state.step + 1

    def finish() -> None:
        stop.hold(f"step {number}", saves=number)

    def before_update() -> None:
        if not last.keeps_copy:
            finish()
        last.before_update()

    last.number, stop.saves = number, state.step
    collected = with_less(lambda: collected_groups(run), lambda: sample_fewer(run), run.tracker.note)
    run.engine.sleep()
    clock.lap("sampling")

    rates = set_learning_rate(run)
    trained = with_less(
        lambda: train_on(run, collected, guards, before_update), lambda: train_less(run, last), run.tracker.note
    )
    finish()
    watched = guards.check_update(trained.batch, trained.updated)
    run.engine.load_weights(run.policy.weights(), version=number)
    if run.reference is not None and is_due(number, config.kl.refresh_reference_every_steps):
        refresh(run.reference, run.policy)
    clock.lap("training")

    measured = [
        rollout_metrics(collected, config, run.sampler.domains),
        completion_metrics(collected.sampled, run.policy),
        advantage_metrics(collected.admitted, trained.advantages_PG),
        reward_agreement(trained.batch),
        process_metrics(trained.batch, config),
        trained.updated.metrics,
        watched,
    ]
    values = over_ranks(measured, trained.updated, ranks, collected.sampled)
    line = {"step": number, "optimizer/lr": rates, "optimizer/micro_batch_tokens": micro_batch_tokens(run), **values}
    line |= clock.fields(values["tokens/sampled"], state.wall_seconds)
    line["time/waited_for_rewards_seconds"] = collected.waited_seconds
    advance(state, collected, values, clock, config, ranks)
    last.complete()
    tokens = token_values(trained.updated.passes, [group.position for group in collected.sampled], ranks)
    step = Step(run, line, collected.admitted, collected.sampled, trained.advantages_PG, tokens)
    if is_due(number, config.problems.eval_every_steps) and number < config.run.steps:
        try:
            if ranks.size == 1:
                stop.release()
            line |= evaluated(run)
        except BaseException:
            if ranks.size > 1:
                # Nothing can be gathered any more: the step is done again.
                last.is_recorded = False
                raise
            # The step is complete but for its measurement, with which a resumed run begins.
            stop.hold(f"step {number}", saves=number)
            state.unmeasured = line
            write(step, is_measured=False)
            raise
        finish()
    last.is_recorded = False
    write(step)
    last.is_recorded = True
    guards.check_step(step, trained.updated.faults)
    if is_due(number, config.run.checkpoint_every_steps) or number == config.run.steps:
        with saved:
            checkpoint(run)
    stop.release()
    # All ranks stop here together, or none does.
    ranks.meet("the end of the step")
    if stop.cause is not None:
        raise Stopped
    return step


class Longest:
    """The longest time that a piece of work took, in seconds."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __enter__(self) -> None:
        self._began = time.monotonic()

    def __exit__(self, *of_error: object) -> None:
        self.seconds = max(self.seconds, time.monotonic() - self._began)


@dataclass(frozen=True)
class Trained:
    """A step's batch before its updates, what these measured, and the advantages that they were made with."""

    batch: StepBatch
    updated: Updated
    advantages_PG: Advantages


def collected_groups(run: Run) -> Collected:
    """The groups of the next step."""
    state = run.state
    return collect(run.sampler, state.step + 1, state.problem_position, frozenset(state.retired), run.ranks)


def train_on(run: Run, collected: Collected, guards: Guards, before_update: Callable[[], None]) -> Trained:
    """The updates of the next step."""
    batch = run.config.batch.model_copy(update={"micro_batch_tokens": micro_batch_tokens(run)})
    config, ranks, number = run.config.model_copy(update={"batch": batch}), run.ranks, run.state.step + 1
    advantages_PG = advantages_of(collected.admitted, config, ranks)
    made = step_batch(collected.admitted, advantages_PG, config)
    made, advantages_PG = with_process_advantages(made, collected.admitted, advantages_PG, config)
    made, advantages_PG = with_token_advantages(run.policy, made, advantages_PG, config)
    guards.check_batch(made, collected.sampled)
    made = balanced(made, config, number, ranks)
    bonus = run.state.entropy_coefficient
    updated = update(run.policy, run.reference, run.optimizer, made, number, config, ranks, bonus, before_update)
    return Trained(made, updated, advantages_PG)


def set_learning_rate(run: Run) -> float:
    """The learning rate of the coming step."""
    options, steps = run.config.optimizer, run.config.run.steps
    factor = lr_factor(run.state.step, steps, options.warmup_steps, options.schedule, options.final_lr_fraction)
    for parameters in run.optimizer.param_groups:
        parameters["lr"] = options.lr * factor
    return options.lr * factor


def over_ranks(
    parts: list[dict[str, Metric]], updated: Updated, ranks: Ranks, sampled: Sequence[GradedGroup] = ()
) -> dict[str, float]:
    """The measurements of a step over all ranks as plain numbers, in alphabetical order."""
    merged = merge_metrics(parts)
    if ranks.size > 1:
        own: dict[str, Any] = {name: [metric.value, metric.reduction, metric.weight] for name, metric in merged.items()}
        everywhere = ranks.gather(own)
        merged = merge_metrics([{name: Metric(*triple) for name, triple in part.items()} for part in everywhere])
    log_ratios_N, _ = ranks.concatenate(torch.from_numpy(updated.log_ratios))
    lengths_B, _ = ranks.concatenate(torch.from_numpy(lengths_of(sampled)))
    arrays = {LOG_RATIOS_N: log_ratios_N.numpy(), LENGTHS_B: lengths_B.numpy()}
    return finished({name: metric.value for name, metric in merged.items()} | arrays)


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


def evaluated(run: Run) -> dict[str, float]:
    """As `eval_fields`, with fewer answers at once where memory runs out."""
    return with_less(lambda: eval_fields(run), lambda: sample_fewer(run), run.tracker.note)


def eval_fields(run: Run) -> dict[str, float]:
    """Measurements on held-out problems in the middle of a run, as fields of the metrics."""
    try:
        measured = measure_all(run.policy, run.engine, run.sampler.grader, run.eval_problems, run.config, run.ranks)
    except UnmeasuredError as error:
        run.tracker.note(f"not measured after step {run.state.step}: {error}")
        return {}
    return {f"eval/{mode}/{name}": value for mode, one in measured.items() for name, value in one.to_metrics().items()}


def write(step: Step, is_measured: bool = True) -> None:
    """Report the metrics, unless a measurement is missing, the failures of rewards, and the completions when due."""
    run, number = step.run, step.number
    own_failures = [failure for group in step.sampled for failure in group.failures()]
    failures = [failure for rank in run.ranks.gather(own_failures) for failure in rank]
    rollouts = kept(step) if is_due(number, run.config.run.rollouts_every_steps) else None
    if run.ranks.rank == 0:
        if is_measured:
            run.tracker.step(step.metrics)
        run.tracker.failures(number, failures)
        if rollouts is not None:
            run.tracker.rollouts(number, rollouts)


def kept(step: Step) -> Rollouts | None:
    """The completions of a step as far as `run.rollouts_max_megabytes` has room for them; None on all but one rank."""
    run, options = step.run, step.run.config.run
    left = options.steps // options.rollouts_every_steps - (step.number - 1) // options.rollouts_every_steps

    def room() -> int:
        return share(options.rollouts_max_megabytes, run.folder.journal.rollouts_bytes, left)

    size_bytes = run.ranks.first(room, "the room for rollouts")
    return kept_rollouts(step.rollouts_of_groups(), size_bytes, options.seed, step.number, run.ranks)
