"""A training run from its configuration to its summary: new, resumed, or only planned."""

import resource
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from groupwise import __version__
from groupwise.config import TrainConfig
from groupwise.config.checks import contradictions
from groupwise.config.compose import Source, compose_train_config
from groupwise.config.given import OWN_KEYS
from groupwise.errors import DataError, RunInterrupted, UsageError
from groupwise.evaluation.measure import Measurement, UnmeasuredError, measure_all
from groupwise.model.load import load_policy, save_model
from groupwise.model.reference import fingerprint_weights
from groupwise.rollout.engine import make_engine
from groupwise.track.atomic_files import folder_aside, remove_tree
from groupwise.track.run_files import RunFiles
from groupwise.track.run_folder import RunFolder
from groupwise.track.tracker import RunContext, Tracker, Trackers
from groupwise.training.checkpoint import TrainState, load_checkpoint, newest_sound_checkpoint
from groupwise.training.interrupt import Interrupted
from groupwise.training.loop import Run, Step, steps
from groupwise.training.setup import Objects, assemble, prepare

# What a resumed run may change: how long it is and what it writes. The length enters a falling learning rate, and that
# is said.
RESUMABLE = ("run.steps", "run.checkpoint_every_steps", "run.keep_checkpoints", "run.rollouts_every_steps")

# The version that wrote the runs that do not say which one did.
SILENT_VERSION = "0.1.0"


def compose_and_start(arguments: Sequence[str], dry_run: bool, screen: Tracker) -> dict[str, Any] | None:
    """Train from the beginning; the summary, or None if interrupted or only planned (`dry_run`)."""
    config = compose_train_config(arguments)
    if not dry_run:
        return _finish(start(config, default_name(arguments), screen), screen)
    warn(config, screen)
    prepared = prepare(config, screen)
    prepared.sampler.grader.close()
    prepared.engine.close()
    return None


def resume_run(path: str, overrides: Sequence[str], screen: Tracker) -> dict[str, Any] | None:
    """Resume from the newest sound checkpoint; the summary, or None if interrupted. Raises as `reopen`."""
    run = reopen(path, overrides, screen)
    return RunFolder.existing(path).read_summary() if run is None else _finish(run, screen)


def warn(config: TrainConfig, screen: Tracker) -> None:
    """Say what is unsound."""
    for finding in contradictions(config):
        screen.note(f"{finding.level}: {finding.message}")


def start(
    config: TrainConfig, name: str, screen: Tracker, objects: Objects | None = None, folder: RunFolder | None = None
) -> Run:
    """A new run before its first step. objects: see `GraderPool`. folder: its folder, where there is one already.

    Raises as `prepare`, and UsageError if the folder cannot be made.
    """
    warn(config, screen)
    if config.run.output and folder is None:
        RunFolder.refuse_existing(Path(config.run.output))
    prepared = prepare(config, screen, objects=objects)
    folder = folder or RunFolder.create(config.run.output, name)
    state = TrainState(entropy_coefficient=config.entropy.bonus.start)
    return assemble(config, prepared, folder, state, trackers_of(screen, folder))


def reopen(path: str, overrides: Sequence[str], screen: Tracker, objects: Objects | None = None) -> Run | None:
    """A run at its newest sound checkpoint; None if it is complete.

    Raises:
        UsageError: for an override that would change what a step computes.
        DataError: if there is no run or no checkpoint, or if model or problems are no longer those of the run.
    """
    for override in overrides:
        key = override.partition("=")[0].strip()
        if key not in RESUMABLE and not (key.startswith(OWN_KEYS) and _is_stated(path, override)):
            raise UsageError(
                f"a resumed run keeps its configuration: '{override}' cannot be changed, only {', '.join(RESUMABLE)}"
            )
    folder = RunFolder.existing(path)
    context = folder.read_context()
    _refuse_older_options(folder, context.get("groupwise", SILENT_VERSION))
    config = compose_train_config([str(folder.config), *overrides])
    if folder.summary.is_file() and not overrides:
        summary = folder.read_summary()
        if summary["steps"] >= config.run.steps:
            screen.note(
                f"the run in '{path}' is complete; to train further: groupwise train --resume {path} run.steps=N"
            )
            return None
    if config.optimizer.schedule != "constant" and any(o.startswith("run.steps") for o in overrides):
        screen.note(
            f"optimizer.schedule={config.optimizer.schedule} depends on run.steps: from here on the learning rate is "
            f"that of a run of {config.run.steps} steps"
        )
    checkpoint, rejected = newest_sound_checkpoint(folder.checkpoints)
    for reason in rejected:
        screen.note(f"passed over a checkpoint: {reason}")
    prepared = prepare(config, screen, context["threads"], context.get("micro_batch_tokens"), objects)
    for key, what in (("problems", "the problems"), ("initial_weights", "the model that the run began with")):
        if prepared.context[key] != context[key]:
            raise DataError(f"{what} changed since the run in '{path}' began: it cannot be resumed")
    for source in changed_sources(context.get("own_code", {}), prepared.context["own_code"]):
        screen.note(f"{source} changed since the run began: from here on it computes what the code says now")
    if prepared.context["torch"] != context["torch"]:
        screen.note(f"torch is {prepared.context['torch']}, the run began with {context['torch']}: bits may differ")
    state = TrainState(entropy_coefficient=config.entropy.bonus.start)
    if checkpoint is not None:
        state = load_checkpoint(checkpoint, prepared.policy, prepared.reference, prepared.optimizer)
    run = assemble(config, prepared, folder, state, trackers_of(screen, folder))
    run.engine.load_weights(run.policy.model.named_parameters(), version=state.step)
    return run


def _is_stated(path: str, override: str) -> bool:
    """Whether an option says what the run began with, as an object that is given again does."""
    stated = str(RunFolder.existing(path).config)
    try:
        return compose_train_config([stated, override]) == compose_train_config([stated])
    except UsageError:
        return False


def changed_sources(before: dict[str, str], now: dict[str, str]) -> list[str]:
    """The paths of code of the user's own whose source is another, with the first digits of both SHA-256."""
    changed = [path for path in now if path in before and before[path] != now[path]]
    return [f"{path} (sha256 {before[path][:12]}, now {now[path][:12]})" for path in changed]


def _refuse_older_options(folder: RunFolder, version: str) -> None:
    """Raise DataError for a run of another version of groupwise whose options this one does not read."""
    if version == __version__:
        return
    try:
        compose_train_config([str(folder.config)])
    except UsageError:
        raise DataError(
            f"the run in '{folder.path}' was written by groupwise {version}, whose options groupwise {__version__} "
            f"does not read: resume it with groupwise {version}"
        ) from None


def trackers_of(screen: Tracker, folder: RunFolder) -> Tracker:
    """Everything that follows a run."""
    return Trackers(RunFiles(folder), screen)


def run_steps(run: Run) -> Iterator[Step]:
    """The remaining steps of a run; behind the last one its model is saved and measured.

    Raises:
        RunInterrupted: at Ctrl-C.
        GradingError: if a reward could not judge and is to stop the run then.
    """
    summary, folder = None, run.folder.path
    with closing(run.engine), closing(run.sampler.grader):
        try:
            run.tracker.start(run.stated, RunContext(folder, run.state.step, {"groupwise": __version__, **run.context}))
            yield from steps(run)
            try:
                _save_final_model(run)
                summary = _summary(run)
            except KeyboardInterrupt:
                raise Interrupted from None
        except Interrupted:
            raise RunInterrupted(folder, run.state.step, run.config.run.steps) from None
        finally:
            run.tracker.finish(summary)


def _finish(run: Run, screen: Tracker) -> dict[str, Any] | None:
    try:
        return finish(run)
    except RunInterrupted as stopped:
        screen.note(str(stopped))
        return None


def finish(run: Run) -> dict[str, Any]:
    """All remaining steps; the summary. Raises as `run_steps`."""
    for _ in run_steps(run):
        pass
    return run.folder.read_summary()


def _save_final_model(run: Run) -> None:
    aside = run.folder.path / ".model.old"
    if run.folder.model.exists():
        # Left by a process that was killed here.
        remove_tree(aside)
        run.folder.model.rename(aside)
    with folder_aside(run.folder.model) as folder:
        save_model(run.policy, folder)
    remove_tree(aside)


def _summary(run: Run) -> dict[str, Any]:
    config, state = run.config, run.state
    after: dict[str, Measurement] = {}
    before: dict[str, Measurement] = {}
    if run.eval_problems:
        run.tracker.note(f"measuring on {len(run.eval_problems)} held-out problems, after and before training …")
        try:
            after = measure_all(run.policy, run.engine, run.sampler.grader, run.eval_problems, config)
            run.engine.sleep()
            before = _measure_initial(run)
        except UnmeasuredError as error:
            run.tracker.note(f"not measured: {error}")
    return {
        "groupwise": __version__,
        "run": str(run.folder.path),
        "model": str(run.folder.model),
        "seed": config.run.seed,
        "steps": state.step,
        "optimizer_updates": state.optimizer_updates,
        "problems_sampled": state.problem_position,
        "sampled_tokens": state.sampled_tokens,
        "training_wall_seconds": state.wall_seconds,
        "training_cpu_seconds": state.cpu_seconds,
        "peak_memory_bytes": peak_memory_bytes(),
        "threads": run.context["threads"],
        "sandbox": run.sampler.grader.sandbox_name,
        "before": {mode: measurement.to_json() for mode, measurement in before.items()},
        "after": {mode: measurement.to_json() for mode, measurement in after.items()},
    }


def _measure_initial(run: Run) -> dict[str, Measurement]:
    """The same measurement of the weights that the run began with, loaded again from where they came."""
    policy = load_policy(run.config.model.path, run.config.model.compute_dtype)
    if fingerprint_weights(policy) != run.context["initial_weights"]:
        run.tracker.note(f"'{run.config.model.path}' changed since the run began: there is no measurement of its start")
        return {}
    with closing(make_engine(run.config, policy)) as engine:
        return measure_all(policy, engine, run.sampler.grader, run.eval_problems, run.config)


def peak_memory_bytes() -> int:
    """Largest resident size of this process so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def default_name(arguments: Sequence[Source]) -> str:
    """The name of a run from the last recipe or file that it was given."""
    named = [Path(argument).stem for argument in arguments if isinstance(argument, str) and "=" not in argument]
    return named[-1] if named else "train"
