"""Training from a program: whole runs, their steps one by one, and runs that are resumed."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager
from os import fspath
from pathlib import Path
from typing import Any

from groupwise.api.inputs import INPUTS, Inputs, Model, Path_, Problems, Sources, Tokenizer, composed, gather
from groupwise.api.reopened import folder_of, reopen_folder, screen_of
from groupwise.api.results import Run
from groupwise.api.rewards import Rewards
from groupwise.closing import Closing
from groupwise.config import TrainConfig
from groupwise.config.compose import compose_train_config
from groupwise.errors import UsageError
from groupwise.launch import join
from groupwise.track import disk
from groupwise.track.run_folder import RunFolder, where_it_began
from groupwise.training import run
from groupwise.training.identity import Difference, refuse
from groupwise.training.resume import reopen
from groupwise.training.step import Run as BegunRun
from groupwise.training.step import Step


def train(
    config: Sources = (),
    *,
    model: Model | None = None,
    tokenizer: Tokenizer | None = None,
    problems: Problems | None = None,
    eval_problems: Problems | None = None,
    rewards: Rewards | None = None,
    output: Path_ | None = None,
    allow_changes: Sequence[str] = (),
    quiet: bool = False,
    **overrides: Any,
) -> Run:
    """Train a model, as `groupwise train` does.

    config: a recipe, a YAML file, `key=value`, a dict, a TrainConfig, or a list of these; later ones win. Without one
    and without a model: the recipe `demo`.
    model: `bundled`, a path, a hub id, or a loaded model of transformers, of which a copy is trained.
    tokenizer: of a loaded model, unless the model says where it came from.
    problems, eval_problems: rows (dicts, a dataset, a DataFrame), or a path or source as in problems.train.
    rewards: functions, or paths FILE.py:NAME, also as pairs with a weight, or a dict of these by name. They are added
    to the rewards that the configuration has, of which a dict may hold options too: `{"format": {"weight": 0.2}}`.
    output: the folder of the run; runs/NAME-NUMBER otherwise. With `run={"resume": "auto"}` a run that is there already
    is resumed; allow_changes: see `resume`.
    quiet: print nothing.
    overrides: options, as `optimizer={"lr": 1e-3}` or `**{"optimizer.lr": 1e-3}`. A surrogate, an advantage estimator
    or a mask may be a function or class of your own: `objective={"surrogate": my_loss}`.

    Raises:
        UsageError: for arguments and options, all that is wrong at once; nothing is left behind.
        DataError: for a model, problems or a reward that cannot be used; nothing is left behind.
        RunInterrupted: at Ctrl-C; it is a KeyboardInterrupt, and the run can be resumed.
    """
    with _begin(
        config, model, tokenizer, problems, eval_problems, rewards, output, quiet, allow_changes, overrides
    ) as (
        folder,
        begun,
    ):
        if begun is not None:
            run.finish(begun)
    return Run(folder)


def resume(
    run_or_folder: Run | Path_,
    *,
    rewards: Rewards | None = None,
    allow_changes: Sequence[str] = (),
    quiet: bool = False,
    **overrides: Any,
) -> Run:
    """Resume a run from its newest checkpoint, as `groupwise train --resume` does.

    rewards: again those of `train` that run in its process; others may be given too, and have to be the same.
    overrides: run.steps and other options that do not change what a step computes, and again the functions and classes
    of `train` that have no file, as `objective={"surrogate": my_loss}`.

    allow_changes: options and sections that may be other than the run began with, what is in their files too:
    `["optimizer.lr", "problems"]`.

    Raises as `train`; DataError too if model, problems or code are no longer those of the run, or if another process
    trains it.
    """
    join()
    folder = folder_of(run_or_folder)
    with where_it_began(str(folder)) as path:
        reopened = reopen_folder(Path(path), rewards, quiet, allow_changes, overrides)
        if reopened is not None:
            run.finish(reopened)
    return Run(folder)


class Steps(Closing):
    """The steps of a run, each when it is finished: `for step in steps`. Behind the last one the model is saved.

    Leaving the loop early leaves a checkpoint to resume from; `step.stop()` ends the run as finished. Close it, or use
    it as a context manager, where an exception may leave the loop.
    """

    def __init__(self, folder: Path, begun: BegunRun | None) -> None:
        self._folder, self._begun = folder, begun
        # Relative paths of the run are from here, wherever the loop around it goes.
        self._directory = Path.cwd()
        self._steps: Iterator[Step] | None = None if begun is None else run.run_steps(begun)

    @property
    def run(self) -> Run:
        """The run so far. Raises DataError before its first step."""
        return Run(self._folder)

    def __iter__(self) -> Steps:
        return self

    def __next__(self) -> Step:
        """Raises RunInterrupted at Ctrl-C during the step."""
        if self._steps is None:
            raise StopIteration
        with chdir(self._directory):
            return next(self._steps)

    def close(self) -> None:
        """Leave the run as it is, in a checkpoint."""
        if self._begun is not None and inspect.isgenerator(self._steps):
            if inspect.getgeneratorstate(self._steps) == inspect.GEN_CREATED:
                self._begun.engine.close()
                self._begun.sampler.grader.close()
                self._begun.folder.discard()
            with chdir(self._directory):
                self._steps.close()


def steps(
    config: Sources = (),
    *,
    resume: Run | Path_ | None = None,
    model: Model | None = None,
    tokenizer: Tokenizer | None = None,
    problems: Problems | None = None,
    eval_problems: Problems | None = None,
    rewards: Rewards | None = None,
    output: Path_ | None = None,
    allow_changes: Sequence[str] = (),
    quiet: bool = False,
    **overrides: Any,
) -> Steps:
    """The steps of `train`, for a loop of one's own; the arguments are the same, and so are the errors.

    resume: a run whose remaining steps are meant, in place of a new one; then only `rewards` and `overrides` count.
    """
    if resume is None:
        with _begin(
            config, model, tokenizer, problems, eval_problems, rewards, output, quiet, allow_changes, overrides
        ) as (folder, begun):
            return Steps(folder, begun)
    new = {"config": config, "model": model, "tokenizer": tokenizer, "problems": problems}
    new |= {"eval_problems": eval_problems, "output": output}
    stated = [name for name, value in new.items() if value is not None and not (name == "config" and value == ())]
    if stated:
        raise UsageError(f"{', '.join(stated)}: of a new run; a resumed run keeps its configuration")
    folder = folder_of(resume).absolute()
    with where_it_began(str(folder)) as path:
        return Steps(folder, reopen_folder(Path(path), rewards, quiet, allow_changes, overrides))


@contextmanager
def _begin(
    config: Sources,
    model: Any,
    tokenizer: Any,
    problems: Any,
    eval_problems: Any,
    rewards: Rewards | None,
    output: Path_ | None,
    quiet: bool,
    allowed: Sequence[str],
    overrides: Mapping[str, Any],
) -> Iterator[tuple[Path, BegunRun | None]]:
    """A run before its first step, in a folder with what was passed as objects; None where it is complete.

    The block is in the directory that the run was started in.
    """
    ranks = join()
    inputs = gather(model, tokenizer, problems, eval_problems, rewards)
    if output is not None:
        inputs.options["run.output"] = fspath(output)
    # Everything that is wrong is known before a folder is made.
    sources = composed(config, inputs, Path("RUN"), overrides)
    checked, screen = compose_train_config(sources), screen_of(quiet)
    for note in inputs.notes:
        screen.note(note)

    def placed(path: Path) -> TrainConfig:
        return compose_train_config(composed(config, inputs, path, overrides)) if inputs.placed else checked

    def contents(path: Path, aside: Path) -> TrainConfig:
        inputs.write(aside)
        return placed(path)

    if run.resumes(checked):
        folder, wanted = Path(checked.run.output), placed(Path(checked.run.output))
        with where_it_began(str(folder)) as path:
            _put_inputs(Path(path), inputs, allowed)
            yield folder, reopen(path, [], screen, inputs.objects, allowed, wanted)
        return
    if allowed and checked.run.resume == "never":
        raise UsageError("allow_changes: of a run that is resumed; set run={'resume': 'auto'}, or call resume")
    made = run.new_folder(checked.run.output, run.default_name(sources), contents, ranks)
    with inputs.in_words(made.path):
        begun = run.start(placed(made.path), made, screen, inputs.objects)
    yield made.path, begun


def _put_inputs(folder: Path, inputs: Inputs, allowed: Sequence[str]) -> None:
    """Put what was passed this time in place of what an earlier run was given, where that is allowed.

    Raises DataError where it is not, or where another process trains the run.
    """
    changed = inputs.changed_in(folder)
    refuse(folder, [Difference(key, f"what was passed, kept as {name}") for key, name in changed.items()], allowed)
    if changed:
        with RunFolder(folder) as locked:
            locked.acquire()
            for name in changed.values():
                disk.write_whole(folder / INPUTS / name, inputs.texts[name].encode())
