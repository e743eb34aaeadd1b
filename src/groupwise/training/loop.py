"""The training loop: sample, grade, admit, compare within groups, update, measure."""

import copy
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from groupwise.config import TrainConfig
from groupwise.errors import BrokenRunError, MemoryLimitError, first_line
from groupwise.evaluation.measure import UnmeasuredError, measure_all
from groupwise.grading.graded_group import GradedGroup
from groupwise.model.load import Policy
from groupwise.model.reference import fingerprint_weights, refresh
from groupwise.objective.metric import Metric, merge_metrics
from groupwise.problem import Problem
from groupwise.ranks import Ranks
from groupwise.rollout.engine import RolloutEngine
from groupwise.stopping import OVER, Stop, Stopped
from groupwise.track.clock import Clock
from groupwise.track.metrics import LOG_RATIOS_N, finished
from groupwise.track.rollouts import Rollouts, share
from groupwise.track.run_folder import RunFolder
from groupwise.track.tracker import Tracker
from groupwise.training.advantages import Advantages, advantage_metrics, advantages_of
from groupwise.training.balance import balanced
from groupwise.training.checkpoint import TrainState, save_checkpoint, tensors_of
from groupwise.training.collect import Collected, Sampler, collect, retired_problems
from groupwise.training.guards import Guards
from groupwise.training.last_step import LastStep
from groupwise.training.learning_rate import lr_factor
from groupwise.training.less_at_once import with_less
from groupwise.training.rollout_metrics import rollout_metrics
from groupwise.training.rollout_rows import group_rows, kept_rollouts
from groupwise.training.step_batch import StepBatch, step_batch
from groupwise.training.streams import with_token_advantages
from groupwise.training.token_pass import Key, TokenValues, token_values
from groupwise.training.update import Updated, update


@dataclass(frozen=True)
class Prepared:
    """What a training run works with, as `setup.py` loads it.

    reference: for a KL penalty, None without one. initial: the policy at step 0 where adapters are trained, None
    without. context: what a resumed run has to agree on. engine_gap_nats: mean distance between the log-probabilities
    of trainer and engine, as `check_engine` measures it. until: end of `run.stop_after`, of `time.monotonic`.
    """

    policy: Policy
    reference: Policy | None
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
        by_token = self.run.config.advantage.estimator.of_token
        return {g.position: group_rows(g, own.get(g.position), self.tokens, by_token) for g in self.sampled}

    def stop(self) -> None:
        """End the run with this step, as if it had no more of them: the model is saved and measured."""
        self.is_last = True


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
    clock, number = Clock(), state.step + 1

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
        advantage_metrics(collected.admitted, trained.advantages_PG),
        trained.updated.metrics,
        watched,
    ]
    values = over_ranks(measured, trained.updated, ranks)
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
    made, advantages_PG = with_token_advantages(run.policy, made, advantages_PG, config)
    guards.check_batch(made, collected.sampled)
    made = balanced(made, config, number, ranks)
    bonus = run.state.entropy_coefficient
    updated = update(run.policy, run.reference, run.optimizer, made, number, config, ranks, bonus, before_update)
    return Trained(made, updated, advantages_PG)


def micro_batch_tokens(run: Run) -> int:
    """Of the next micro-batch: as planned, or less since memory ran out."""
    return run.state.micro_batch_tokens or run.config.batch.micro_batch_tokens


def train_less(run: Run, last: LastStep) -> str:
    """Halve the micro-batches from now on, the step anew; what is said of it.

    Raises:
        MemoryLimitError: where each micro-batch holds one answer already, or the update itself did not fit.
    """
    now, batch = micro_batch_tokens(run), run.config.batch
    if not last.restore() or now < run.config.sampling.max_new_tokens or run.ranks.size > 1:
        checkpointing = "" if batch.activation_checkpointing else "batch.activation_checkpointing=true, "
        raise MemoryLimitError(
            f"memory ran out with micro-batches of {now} tokens, which hold one longest answer at most: nothing can be "
            f"divided further. Try {checkpointing}lower sampling.max_new_tokens or batch.logits_chunk_tokens, or a "
            "smaller model"
        )
    run.state.micro_batch_tokens = now // 2
    return f"micro-batches of {now // 2} tokens from now on, were {now}"


def sample_fewer(run: Run) -> str:
    """Sample fewer answers at once from now on; what is said of it. Raises MemoryLimitError where it is one already."""
    fewer = 0 if run.ranks.size > 1 else run.engine.sample_fewer()
    if fewer == 0:
        raise MemoryLimitError(
            "memory ran out while one answer was sampled: lower sampling.max_new_tokens, or take a smaller model"
        )
    return f"{fewer} answers at once are sampled from now on"


class Longest:
    """The longest time that a piece of work took, in seconds."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __enter__(self) -> None:
        self._began = time.monotonic()

    def __exit__(self, *of_error: object) -> None:
        self.seconds = max(self.seconds, time.monotonic() - self._began)


def leave(run: Run, stop: Stop, last: LastStep, error: BaseException) -> None:
    """Save the last complete step, as far as that is possible, and tell the error how to resume."""
    number, work = last.number, stop.work
    stop.hold("the checkpoint", saves=run.state.step)
    if stop.is_forced:
        return
    is_broken = isinstance(error, BrokenRunError)
    can_save = (error.is_sound if isinstance(error, BrokenRunError) else last.is_recorded) and last.restore()
    if can_save:
        try:
            checkpoint(run)
        except Exception as failure:
            if not isinstance(error, Exception):
                failure.add_note(
                    f"Step {run.state.step} could not be saved: make room, and resume from the newest checkpoint: "
                    f"groupwise train --resume {run.folder.path}"
                )
                raise
            error.add_note(f"Step {run.state.step} could not be saved: {first_line(failure)}")
            can_save = False
    # A guard says for itself what to do.
    if isinstance(error, Exception) and not is_broken:
        saved = f"step {run.state.step} is saved" if can_save else "the newest checkpoint is an earlier one"
        error.add_note(
            f"The run stopped in step {number} of {run.config.run.steps}, at {work or 'its beginning'}; {saved}. "
            f"Fix the cause and resume: groupwise train --resume {run.folder.path}, with --allow-change rewards if "
            "that changes a reward function"
        )


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
    return {f"eval/{mode}/accuracy": measurement.accuracy.value for mode, measurement in measured.items()}


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
