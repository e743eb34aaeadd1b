"""A run that is resumed: that it is still the same run, and from which checkpoint it continues."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from groupwise import __version__
from groupwise.config import TrainConfig
from groupwise.config.compose import compose_train_config
from groupwise.errors import DataError, UsageError
from groupwise.ranks import Ranks
from groupwise.report.build import write_report
from groupwise.track.background import Background
from groupwise.track.journal import last_step
from groupwise.track.run_files import RunFiles
from groupwise.track.run_folder import RunFolder
from groupwise.track.sinks import SINKS
from groupwise.track.tracker import Tracker, Trackers
from groupwise.training.checkpoint import TrainState, load_checkpoint, newest_sound_checkpoint
from groupwise.training.identity import (
    Difference,
    file_differences,
    is_allowed,
    loaded_differences,
    of_files,
    option_differences,
    refuse,
)
from groupwise.training.setup import Objects, assemble, named_files, prepare
from groupwise.training.step import Run

# The version that wrote the runs that do not say which one did.
SILENT_VERSION = "0.1.0"


def reopen(
    path: str,
    overrides: Sequence[str],
    screen: Tracker,
    objects: Objects | None = None,
    allowed: Sequence[str] = (),
    wanted: TrainConfig | None = None,
) -> Run | None:
    """A run at its newest sound checkpoint, locked for this process; None if it is complete.

    objects: see `GraderPool`. allowed: options and sections that may have changed since the run began. wanted: all
    options, in place of those of its folder with the overrides.

    Raises:
        UsageError: for options that would change what a step computes.
        DataError: if there is no run or no checkpoint, if something that it began with changed, or if another process
            trains it.
        WriteError: if the folder cannot be written.
    """
    folder = RunFolder.existing(path)
    context = {"groupwise": SILENT_VERSION, **folder.read_context()}
    _refuse_older_options(folder, context["groupwise"])
    config = wanted or _stated(folder, context, overrides, screen)
    began = context.get("config") or compose_train_config([str(folder.config)]).model_dump()
    changed = option_differences(began, config)
    ranks = Ranks.current()
    if ranks.first(lambda: not changed and _is_complete(folder, config, screen), "whether the run is complete"):
        if ranks.rank == 0:
            folder.tidy()
        return None
    taken_over = folder.acquire() if ranks.rank == 0 else ""
    try:
        if "own_code" in context or "problem_files" in context:
            changed += file_differences(context, of_files(config, named_files(config)), config)
        refuse(folder.path, changed, allowed)
        if taken_over:
            screen.note(f"took over the lock of {taken_over}: it is gone")
        if ranks.rank == 0:
            folder.sweep()
        return _loaded(folder, context, config, screen, objects, allowed, changed)
    except BaseException:
        folder.close()
        raise


def _loaded(
    folder: RunFolder,
    context: dict[str, Any],
    config: TrainConfig,
    screen: Tracker,
    objects: Objects | None,
    allowed: Sequence[str],
    changed: list[Difference],
) -> Run:
    before = context.get("config", {}).get("run", {})
    every = before.get("checkpoint_every_steps", config.run.checkpoint_every_steps)

    def newest() -> str:
        checkpoint, rejected = newest_sound_checkpoint(folder.checkpoints, _expected(folder, every))
        for reason in rejected:
            screen.note(f"passed over a checkpoint: {reason}")
        return "" if checkpoint is None else checkpoint.name

    name = Ranks.current().first(newest, "the newest checkpoint")
    checkpoint = folder.checkpoints / name if name else None
    if config.optimizer.schedule != "constant" and before.get("steps", config.run.steps) != config.run.steps:
        screen.note(
            f"optimizer.schedule={config.optimizer.schedule} depends on run.steps: from here on the learning rate is "
            f"that of a run of {config.run.steps} steps"
        )
    has_begun = "initial_weights" in context
    if checkpoint is not None and not has_begun:
        raise DataError(f"'{folder.context}' does not say what the run began with: put back the one that belongs to it")
    threads = 0 if is_changed("run.threads", changed) else context.get("threads", 0)
    micro = None if is_changed("batch.micro_batch_tokens", changed) else context.get("micro_batch_tokens")
    prepared = prepare(config, screen, threads, micro, objects)
    try:
        changed = [*changed, *loaded_differences(context, prepared.context, changed)]
        refuse(folder.path, changed, allowed)
        for difference in changed:
            screen.note(f"changed since the run began, as was named: {difference}")
        if has_begun and prepared.context["torch"] != context.get("torch"):
            screen.note(
                f"torch is {prepared.context['torch']}, the run began with {context.get('torch')}: bits may differ"
            )
        state = TrainState(entropy_coefficient=config.entropy.bonus.start)
        if checkpoint is not None:
            state = load_checkpoint(checkpoint, prepared.policy, prepared.reference, prepared.optimizer)
        if state.step > config.run.steps:
            raise UsageError(f"run.steps={config.run.steps}: the run has done {state.step} steps already")
        screen.note(
            f"resumed from step {state.step} of {config.run.steps}"
            + ("" if checkpoint is not None else ": no checkpoint was written yet, it begins anew")
        )
        noted = [{"step": state.step, "key": one.key, "text": one.text} for one in changed]
        facts = {**context, **prepared.context, "config": config.model_dump()}
        facts |= {"changes": [*context.get("changes", []), *noted]} if noted else {}
        run = assemble(config, replace(prepared, context=facts), folder, state, trackers_of(config, screen, folder))
        run.engine.load_weights(run.policy.weights(), version=state.step)
        return run
    except BaseException:
        prepared.sampler.grader.close()
        prepared.engine.close()
        raise


def is_changed(key: str, changed: Sequence[Difference]) -> bool:
    """Whether an option changed since the run began."""
    return any(is_allowed(Difference(key, ""), [difference.key]) for difference in changed)


def trackers_of(config: TrainConfig, screen: Tracker, folder: RunFolder) -> Tracker:
    """Everything that follows a run, from its first rank."""
    if Ranks.current().rank:
        return screen
    report = partial(write_report, str(folder.path))
    others = (Background(name, SINKS[name], screen, write_report=report) for name in dict.fromkeys(config.run.trackers))
    return Trackers(RunFiles(folder, screen), screen, *others)


def _stated(folder: RunFolder, context: dict[str, Any], overrides: Sequence[str], screen: Tracker) -> TrainConfig:
    """The options in the folder with the overrides; those that the run began with where config.yaml is lost."""
    is_lost = not folder.config.is_file() or not folder.config.read_bytes().strip()
    if is_lost and "config" in context:
        what = "empty" if folder.config.is_file() else "missing"
        screen.note(f"{folder.config.name} is {what}: written again as the run began, from {folder.context.name}")
        return compose_train_config([context["config"], *overrides])
    compose_train_config([str(folder.config)])
    try:
        return compose_train_config([str(folder.config), *overrides])
    except UsageError as error:
        raise UsageError(f"a resumed run keeps its configuration, which these options do not fit: {error}") from None


def _is_complete(folder: RunFolder, config: TrainConfig, screen: Tracker) -> bool:
    if not folder.summary.is_file():
        return False
    try:
        steps = folder.read_summary()["steps"]
    except (DataError, KeyError):
        screen.note(f"{folder.summary.name} is damaged: it is made again")
        return False
    if steps < config.run.steps:
        return False
    screen.note(
        f"the run in '{folder.path}' is complete; to train further: groupwise train --resume {folder.path} run.steps=N"
    )
    return True


def _expected(folder: RunFolder, every: int) -> str:
    """Why there has to be a checkpoint; empty where there may be none yet."""
    for path in (folder.summary, folder.model, folder.adapter):
        if path.exists():
            return f"there is {path.name}, which is written after the last one"
    done = last_step(folder.path)
    # The line of a step is written before its checkpoint.
    return f"{done} steps were done, with one every {every}" if 0 < every < done else ""


def _refuse_older_options(folder: RunFolder, version: str) -> None:
    """Raise DataError for a run of another version of groupwise whose options this one does not read."""
    if version == __version__ or not folder.config.is_file():
        return
    try:
        compose_train_config([str(folder.config)])
    except UsageError:
        raise DataError(
            f"the run in '{folder.path}' was written by groupwise {version}, whose options groupwise {__version__} "
            f"does not read: resume it with groupwise {version}"
        ) from None
