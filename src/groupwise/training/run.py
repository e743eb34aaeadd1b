"""A training run from its configuration to its summary: new, resumed, or only planned."""

import resource
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from groupwise import __version__
from groupwise.config import TrainConfig
from groupwise.config.checks import contradictions
from groupwise.config.compose import Source, compose_train_config
from groupwise.errors import RunInterrupted, UsageError
from groupwise.evaluation.measure import Measurement, UnmeasuredError, measure_all
from groupwise.model.choose_backend import run_like
from groupwise.model.load import load_policy
from groupwise.model.lora import save_adapters
from groupwise.model.reference import fingerprint_weights
from groupwise.model.save import save_model
from groupwise.ranks import Ranks, together
from groupwise.rollout.engine import make_engine
from groupwise.rollout.engine_options import InProcess
from groupwise.stopping import OVER, Stop, Stopped
from groupwise.track.disk import fill, folder_aside
from groupwise.track.run_folder import Contents, RunFolder, where_it_began
from groupwise.track.tracker import RunContext, Tracker
from groupwise.training.checkpoint import TrainState, newest_sound_checkpoint, prune
from groupwise.training.loop import steps
from groupwise.training.model_card import write_card
from groupwise.training.resume import reopen, trackers_of
from groupwise.training.setup import Objects, assemble, prepare
from groupwise.training.step import Run, Step


def compose_and_start(
    arguments: Sequence[str], dry_run: bool, screen: Tracker, allowed: Sequence[str] = ()
) -> dict[str, Any] | None:
    """Train from the beginning, or resume where `run.resume` says so; the summary, or None if only planned
    (`dry_run`), or ended by `run.stop_after`. allowed: see `reopen`."""
    with together() as ranks:
        config = compose_train_config(arguments)
        return _started(config, default_name(arguments), dry_run, screen, allowed, ranks)


def _started(
    config: TrainConfig, name: str, dry_run: bool, screen: Tracker, allowed: Sequence[str], ranks: Ranks
) -> dict[str, Any] | None:
    if dry_run:
        warn(config, screen)
        prepared = prepare(config, screen)
        prepared.sampler.grader.close()
        prepared.engine.close()
        return None
    if resumes(config):
        return resume_run(config.run.output, [], screen, allowed, config)
    if allowed and config.run.resume == "never":
        raise UsageError("--allow-change is about a resumed run: name one by --resume, or set run.resume=auto")
    folder = new_folder(config.run.output, name, lambda _path, _aside: config, ranks)
    return finish(start(config, folder, screen))


def new_folder(output: str, name: str, contents: Contents, ranks: Ranks) -> RunFolder:
    """As `RunFolder.create`, made and locked by the first rank."""
    made: list[RunFolder] = []

    def make() -> str:
        made.append(RunFolder.create(output, name, contents))
        return str(made[0].path)

    path = ranks.first(make, "the folder of the run")
    return made[0] if made else RunFolder(Path(path))


def resume_run(
    path: str,
    overrides: Sequence[str],
    screen: Tracker,
    allowed: Sequence[str] = (),
    wanted: TrainConfig | None = None,
) -> dict[str, Any] | None:
    """Resume from the newest sound checkpoint; the summary, or None if `run.stop_after` ended it. See `reopen`."""
    with where_it_began(path) as path, together():
        run = reopen(path, overrides, screen, None, allowed, wanted)
        return RunFolder.existing(path).read_summary() if run is None else finish(run)


def resumes(config: TrainConfig) -> bool:
    """Whether the run is there already and is to be resumed."""
    there = config.run.resume == "auto"
    return there and Ranks.current().first(lambda: RunFolder.is_run(Path(config.run.output)), "whether there is a run")


def warn(config: TrainConfig, screen: Tracker) -> None:
    """Say what is unsound."""
    for finding in contradictions(config):
        screen.note(f"{finding.level}: {finding.message}")


def start(config: TrainConfig, folder: RunFolder, screen: Tracker, objects: Objects | None = None) -> Run:
    """A new run before its first step, in its folder, of which nothing is left where it cannot begin.

    objects: see `GraderPool`. Raises as `prepare`.
    """
    try:
        warn(config, screen)
        prepared = prepare(config, screen, objects=objects)
        facts = {**folder.read_context(), **prepared.context}
        state = TrainState(entropy_coefficient=config.entropy.bonus.start)
        return assemble(config, replace(prepared, context=facts), folder, state, trackers_of(config, screen, folder))
    except BaseException:
        folder.discard()
        raise


def run_steps(run: Run, stop: Stop | None = None) -> Iterator[Step]:
    """The remaining steps of a run; behind the last one its model is saved and measured, unless `run.stop_after` ended
    the run before.

    Raises:
        RunInterrupted: at Ctrl-C, or whatever else asks for a stop.
        GradingError: if a reward could not judge and is to stop the run then.
    """
    stop = stop or stop_of(run)
    summary, folder, state = None, run.folder.path, run.state
    with run.folder, closing(run.engine), closing(run.sampler.grader):
        try:
            run.tracker.start(run.stated, RunContext(folder, state.step, run.context, state.files))
            if run.ranks.rank == 0:
                # Where the process was killed after its last checkpoint, this was left to do.
                prune(run.folder.checkpoints, run.config.run.keep_checkpoints)
            yield from steps(run, stop)
            with stop:
                stop.hold("the model", saves=None)
                if run.ranks.rank == 0 or run.policy.shards is not None:
                    _save_final_model(run)
                stop.release()
                summary = _summary(run)
                stop.hold("the model card", saves=None)
                for place in _saved(run) if run.ranks.rank == 0 else ():
                    write_card(run, place, summary)
                run.ranks.meet("the end of the run")
        except (Stopped, KeyboardInterrupt) as stopped:
            stop.end()
            run.ranks.announce(stopped, stop.cause or signal.SIGINT)
            newest = newest_sound_checkpoint(run.folder.checkpoints)[0] if stop.is_forced else None
            step = state.step if not stop.is_forced else 0 if newest is None else int(newest.name.removeprefix("step_"))
            if stop.cause != OVER:
                raise interrupted(run, stop.cause, step) from None
            run.tracker.note(str(interrupted(run, f"run.stop_after={run.config.run.stop_after}", step)))
        except BaseException as error:
            run.ranks.announce(error)
            raise
        finally:
            run.tracker.finish(summary)


def stop_of(run: Run) -> Stop:
    """What asks this run to stop."""
    return Stop(run.tracker.stopping, run.until)


def interrupted(run: Run, cause: int | str | None, step: int) -> RunInterrupted:
    """What is raised for a stop that is due to a signal or, in words, to something else."""
    if isinstance(cause, str):
        return RunInterrupted(run.folder.path, step, run.config.run.steps, cause, exit_code=1)
    number = cause or signal.SIGINT
    reason = "" if number == signal.SIGINT else signal.Signals(number).name
    return RunInterrupted(run.folder.path, step, run.config.run.steps, reason, 128 + number)


def finish(run: Run) -> dict[str, Any] | None:
    """All remaining steps; the summary, or None if `run.stop_after` ended the run before. Raises as `run_steps`."""
    # Between the steps too.
    with together() as ranks, stop_of(run) as stop:
        for _ in run_steps(run, stop):
            pass
        return None if stop.cause == OVER else ranks.first(run.folder.read_summary, "the summary")


def _save_final_model(run: Run) -> None:
    policy, options = run.policy, run.config.model
    writers = {
        run.folder.adapter: partial(save_adapters, policy),
        run.folder.model: partial(save_model, policy, dtype=options.save_dtype),
    }
    for place in _saved(run):
        if run.ranks.rank > 0:
            writers[place](folder=None)
            continue
        with folder_aside(place) as folder:
            fill(folder, partial(writers[place], folder=folder))
            write_card(run, folder)


def _saved(run: Run) -> list[Path]:
    """Where the trained weights are, the whole model last."""
    if run.policy.adapter is None:
        return [run.folder.model]
    places = {"adapter": [run.folder.adapter], "merged": [run.folder.model]}
    return places.get(run.config.model.save, [run.folder.adapter, run.folder.model])


def _summary(run: Run) -> dict[str, Any]:
    config, state = run.config, run.state
    after: dict[str, Measurement] = {}
    before: dict[str, Measurement] = {}
    if run.eval_problems:
        run.tracker.note(f"measuring on {len(run.eval_problems)} held-out problems, after and before training …")
        try:
            after = measure_all(run.policy, run.engine, run.sampler.grader, run.eval_problems, config, run.ranks)
            run.engine.sleep()
            before = _measure_initial(run)
        except UnmeasuredError as error:
            run.tracker.note(f"not measured: {error}")
    return {
        "groupwise": __version__,
        "run": str(run.folder.path),
        "model": str(_saved(run)[-1]),
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
    policy = run.initial
    if policy is None:
        options, stop_ids = run.config.model, tuple(run.config.sampling.stop_ids)
        policy = run_like(
            load_policy(options.path, options.computes_in, stop_ids=stop_ids, device=run.policy.device), run.policy
        )
    # Of divided adapters each rank kept its part of those that the run began with.
    same = policy.shards is not None or fingerprint_weights(policy) == run.context["initial_weights"]
    if not all(run.ranks.gather(same)):
        run.tracker.note(f"'{run.config.model.path}' changed since the run began: there is no measurement of its start")
        return {}
    if not isinstance(run.config.engine, InProcess) or run.policy.shards is not None:
        # One more engine would not fit next to the one that is there.
        run.engine.load_weights(policy.weights(), run.state.step + 1)
        return measure_all(policy, run.engine, run.sampler.grader, run.eval_problems, run.config, run.ranks)
    with closing(make_engine(run.config, policy)) as engine:
        return measure_all(policy, engine, run.sampler.grader, run.eval_problems, run.config, run.ranks)


def peak_memory_bytes() -> int:
    """Largest resident size of this process so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def default_name(arguments: Sequence[Source]) -> str:
    """The name of a run from the last recipe or file that it was given."""
    named = [Path(argument).stem for argument in arguments if isinstance(argument, str) and "=" not in argument]
    return named[-1] if named else "train"
