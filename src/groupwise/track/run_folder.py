"""The folder of a run: it appears whole, one process at a time writes to it, and it says what the run began with."""

import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager, suppress
from pathlib import Path
from typing import Any

from pydantic import BaseModel, PositiveInt, ValidationError

from groupwise import __version__
from groupwise.closing import Closing
from groupwise.config import TrainConfig
from groupwise.config.compose import dump_config
from groupwise.errors import DataError, UsageError, WriteError
from groupwise.track import disk, lock
from groupwise.track.journal import FAILURES, METRICS, Journal
from groupwise.track.rollouts import ROLLOUTS

_ASIDE = re.compile(r"\..+\.(\d+)\.tmp")

Contents = Callable[[Path, Path], TrainConfig]
"""From where a run will be and the folder that becomes it to the configuration; writes what else belongs in there."""


class RunFolder(Closing):
    """Where everything of a run is.

    config.yaml (all options), context.json (what the run began with), metrics.jsonl (a line for each step),
    failures.jsonl (the failures of rewards), rollouts/, checkpoints/, at the end model/ (in Hugging Face form) or
    adapter/ (in that of peft) and summary.json, and lock.json while a process trains. To close it is to let go of the
    lock.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / "config.yaml"
        self.context = path / "context.json"
        self.metrics = path / METRICS
        self.failures = path / FAILURES
        self.rollouts = path / ROLLOUTS
        self.checkpoints = path / "checkpoints"
        self.model = path / "model"
        self.adapter = path / "adapter"
        self.summary = path / "summary.json"
        self.journal = Journal(path)
        self._lock: lock.Lock | None = None
        # Whether this process made it, with which folders above, and whether it was there, empty.
        self._is_new, self._was_there = False, False
        self._made: list[Path] = []

    @staticmethod
    def create(output: str, name: str, contents: Contents) -> "RunFolder":
        """A new run at `output`, or at the first free runs/NAME-NUMBER, locked for this process.

        It is filled under another name, synced and renamed: whenever the process is killed, it is a run or not there.

        Raises:
            UsageError: if `output` exists and is not an empty folder, or cannot be made.
        """
        while True:
            path = Path(output) if output else _free(Path("runs"), name)
            RunFolder.refuse_existing(path)
            try:
                return RunFolder._make(path, contents)
            except WriteError as error:
                if not output and path.exists():
                    continue  # another process was faster
                mounted = "; for a folder that exists already, name one inside of it" if path.is_dir() else ""
                raise UsageError(f"the run folder '{path}' cannot be made: {error}{mounted}") from error

    @staticmethod
    def _make(path: Path, contents: Contents) -> "RunFolder":
        real = Path(os.path.realpath(path))
        made, was_there = [folder for folder in real.parents if not folder.exists()], real.is_dir()
        aside = real.with_name(f".{real.name}.{os.getpid()}.tmp")
        disk.make_folder(real.parent)
        _sweep_asides(real.parent)
        folder = RunFolder(aside)
        try:
            disk.remove_tree(aside)
            for part in (aside, folder.rollouts, folder.checkpoints):
                disk.make_folder(part)
            folder.acquire()
            config = contents(path, aside)
            disk.write(folder.config, dump_config(config).encode())
            begun = {"groupwise": __version__, "config": config.model_dump(), "directory": os.getcwd()}
            disk.write_json(folder.context, {**begun, "folder": str(path.absolute())})
            disk.sync_tree(aside)
            disk.move(aside, real)
            for above in (real, *made):
                disk.sync(above.parent)
        except BaseException:
            folder.close()
            with suppress(WriteError):
                disk.remove_tree(aside)
                for above in made:
                    disk.change("rmdir", above, above.rmdir)
            raise
        whole = RunFolder(path)
        whole._is_new = True
        whole._lock, whole._made, whole._was_there = folder._lock, made, was_there
        if whole._lock is not None:
            whole._lock.path = path / lock.LOCK
        return whole

    def discard(self) -> None:
        """Let go of the lock, and remove a new run that did not begin, with the folders that were made for it."""
        if self._is_new:
            with suppress(WriteError):
                real = Path(os.path.realpath(self.path))
                disk.discard(real)
                if self._was_there:
                    disk.make_folder(real)
                for above in self._made:
                    disk.change("rmdir", above, above.rmdir)
        self.close()

    @staticmethod
    def refuse_existing(path: Path) -> None:
        """Raises UsageError if `path` exists and is not an empty folder."""
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            resume = f"resume it: `groupwise train --resume {path}`, or with run.resume=auto"
            raise UsageError(
                f"'{path}' exists already and is not overwritten: choose another run.output, or "
                + (resume if RunFolder.is_run(path) else "remove it")
            )

    @staticmethod
    def is_run(path: Path) -> bool:
        """Whether there is a run, finished or not."""
        return any((path / name).is_file() for name in ("config.yaml", "context.json"))

    @staticmethod
    def existing(path: str) -> "RunFolder":
        """The folder of an earlier run.

        Raises:
            DataError: if `path` is not one.
        """
        if not RunFolder.is_run(Path(path)):
            raise DataError(f"'{path}' is not the folder of a run: it has no config.yaml")
        return RunFolder(Path(path))

    def acquire(self) -> str:
        """Lock the run for this process; what left a lock behind, or nothing.

        Raises as `lock.acquire`, and DataError where a part of the folder is a link, which would lead out of it.
        """
        parts = (self.config, self.context, self.metrics, self.failures, self.rollouts, self.checkpoints, self.model)
        for part in (*parts, self.summary, self.path / lock.LOCK):
            if part.is_symlink():
                raise DataError(
                    f"'{part}' is a link, and a run writes nothing outside of its folder: put in its place what it "
                    "names, or move the whole folder there and link that"
                )
        self._lock = lock.acquire(self.path)
        return self._lock.taken_over

    def close(self) -> None:
        """Let go of the lock."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def tidy(self) -> None:
        """Remove a lock that was left in a complete run, if one was and it can be."""
        if (self.path / lock.LOCK).exists():
            with suppress(DataError, WriteError):
                self.acquire()
            self.close()

    def sweep(self) -> None:
        """Remove what a killed process left half written."""
        for folder in (self.path, self.rollouts, self.checkpoints):
            disk.sweep(folder)

    def has_steps(self) -> bool:
        """Whether something says that steps were done."""
        streams = (self.metrics, self.summary, *self.rollouts.glob("*"), *self.checkpoints.glob("step_*"))
        return any(path.exists() and path.stat().st_size > 0 for path in streams)

    def read_context(self) -> dict[str, Any]:
        """What a resumed run has to agree on; empty for an older run that was killed before its first step.

        Raises:
            DataError: if it cannot be read, or is not there although the run has steps.
        """
        if not self.context.exists() and not self.has_steps():
            return {}
        return _checked(_read_json(self.context), self.context)

    def write_context(self, context: dict[str, Any]) -> None:
        """Write what a resumed run has to agree on. Raises WriteError."""
        disk.write_json(self.context, context)

    def write_config(self, config: TrainConfig) -> None:
        """Write all options, unless they are there already. Raises WriteError."""
        content = dump_config(config).encode()
        if not (self.config.is_file() and self.config.read_bytes() == content):
            disk.write_whole(self.config, content)

    def read_summary(self) -> dict[str, Any]:
        """What the run achieved."""
        return _read_json(self.summary)


@contextmanager
def where_it_began(path: str) -> Iterator[str]:
    """The path of a run, in the directory that it was started in: its relative paths are from there.

    Raises DataError if there is no run.
    """
    folder = RunFolder.existing(path)
    directory = Path(folder.read_context().get("directory", "."))
    if not directory.is_dir() or directory.samefile("."):
        yield path
        return
    absolute = str(folder.path.absolute())
    with chdir(directory):
        yield absolute


def _read_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse)
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"'{path}' cannot be read, so the run cannot be resumed: {error}") from error
    if not isinstance(value, dict):
        raise DataError(f"'{path}' cannot be read, so the run cannot be resumed: it is no JSON object")
    return value


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no number of JSON")


class _Steps(BaseModel, strict=True):
    steps: int = 1
    checkpoint_every_steps: int = 0


class _Options(BaseModel, strict=True):
    run: _Steps = _Steps()


class _Context(BaseModel, strict=True):
    """The types of what is read of context.json, where it is there; sections are compared option by option."""

    groupwise: str = ""
    config: _Options = _Options()
    directory: str = ""
    threads: PositiveInt = 1
    micro_batch_tokens: PositiveInt = 1
    problem_files: dict[str, str] = {}
    own_code: dict[str, str] = {}
    changes: list[Any] = []


def _checked(context: dict[str, Any], path: Path) -> dict[str, Any]:
    try:
        _Context.model_validate(context)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise DataError(f"'{path}' cannot be read, so the run cannot be resumed: {where}: {first['msg']}") from error
    return context


def _free(parent: Path, name: str) -> Path:
    number = 1
    while (parent / f"{name}-{number:03d}").exists():
        number += 1
    return parent / f"{name}-{number:03d}"


def _sweep_asides(parent: Path) -> None:
    """Remove the folders of runs that never appeared, and whose processes are gone."""
    for aside in parent.glob(".*.tmp"):
        match = _ASIDE.fullmatch(aside.name)
        if match is None or aside.is_symlink() or not aside.is_dir():
            continue
        is_ours = (aside / lock.LOCK).exists() or {path.name for path in aside.iterdir()} <= {ROLLOUTS, "checkpoints"}
        if is_ours and not lock.is_held(aside) and not lock.is_running(int(match[1])):
            with suppress(WriteError):
                disk.remove_tree(aside)
