"""Runs that a program resumes: what it has to give again, and whether that is the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import fspath
from pathlib import Path
from typing import Any

from groupwise.api.inputs import INPUTS, Path_
from groupwise.api.results import Run
from groupwise.api.rewards import Resolved, Rewards, resolve
from groupwise.config import TrainConfig
from groupwise.config.given import paths_in, read_mapping
from groupwise.config.yaml_document import YamlError
from groupwise.errors import DataError, UsageError
from groupwise.findings import shown
from groupwise.grading.functions.in_process import IN_PROCESS
from groupwise.grading.reward_options import FunctionOptions
from groupwise.ranks import Ranks
from groupwise.track.console import ConsoleTracker
from groupwise.track.tracker import Tracker
from groupwise.training.resume import reopen
from groupwise.training.step import Run as BegunRun


def screen_of(quiet: bool) -> Tracker:
    """What a program prints of a run: plain lines, also in a notebook; nothing at all if quiet."""
    return Tracker() if quiet or Ranks.current().rank else ConsoleTracker.of_lines()


def folder_of(given: Run | Path_) -> Path:
    """The folder of a run, however it was given."""
    return given.folder if isinstance(given, Run) else Path(fspath(given))


def reopen_folder(
    folder: Path, rewards: Rewards | None, quiet: bool, allowed: Sequence[str], overrides: Mapping[str, Any]
) -> BegunRun | None:
    """A run before its next step, with what has to be given again; None where it is complete.

    Raises:
        UsageError: for rewards that are not those it began with.
        DataError: where a reward that only a program can call is missing, and as `training.resume.reopen`.
    """
    # A surrogate or the like that has no file is known from here on.
    arguments = _as_arguments(overrides)
    functions = Run(folder).config.rewards.functions
    objects = _given_again(folder, functions, resolve(rewards))
    missing = [name for name, function in functions.items() if function.path.startswith(IN_PROCESS)]
    missing = [name for name in missing if name not in objects]
    if missing:
        again = ", ".join(f"{name!r}: ..." for name in missing)
        raise DataError(
            f"the run in '{folder}' has reward functions that only a program can call, {', '.join(missing)}: give "
            f"them again, groupwise.resume({str(folder)!r}, rewards={{{again}}})"
        )
    return reopen(str(folder), arguments, screen_of(quiet), objects, allowed)


def _as_arguments(overrides: Mapping[str, Any]) -> list[str]:
    """Overrides as on a command line."""
    try:
        tree = read_mapping(TrainConfig, overrides).tree
    except YamlError as error:
        raise UsageError("\n".join(error.messages)) from None
    arguments = []
    for path in paths_in(tree):
        value: Any = tree
        for part in path:
            value = value[part]
        if not isinstance(value, dict):
            arguments.append(f"{'.'.join(map(str, path))}={shown(value)}")
    return arguments


def _given_again(
    folder: Path, functions: Mapping[str, FunctionOptions], given: Resolved
) -> dict[str, Callable[..., Any]]:
    """The functions of a resumed run that it has to be given. Raises UsageError for others than it began with."""
    errors = [*given.errors]
    for name in given.names:
        known = functions.get(name)
        if known is None:
            errors.append(f"rewards: the run has no reward function {name}; it has {', '.join(functions) or 'none'}")
            continue
        key = f"rewards.functions.{name}"
        path, weight = given.options.get(f"{key}.path"), given.options.get(f"{key}.weight", known.weight)
        if f"{key}.path" in given.placed:
            file = given.placed[f"{key}.path"].partition(":")[0]
            stored = folder.absolute() / INPUTS / file
            is_same = stored.is_file() and stored.read_text(encoding="utf-8") == given.texts[file]
            path = f"{stored}:{name}" if is_same else ""
        if path != known.path or weight != known.weight:
            errors.append(
                f"rewards: {name} is not what the run began with, {known.path} with the weight {known.weight:g}; a "
                "resumed run keeps its configuration"
            )
    if errors:
        raise UsageError("\n".join(errors))
    return given.objects
