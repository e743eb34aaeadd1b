"""The folder of a run."""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from groupwise.errors import DataError, UsageError
from groupwise.track.atomic_files import remove_tree


class RunFolder:
    """Where everything of a run is.

    config.yaml (all options), metrics.jsonl (a line for each step), failures.jsonl (the failures of rewards),
    rollouts/, checkpoints/, model/ (at the end, in Hugging Face form) and summary.json.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / "config.yaml"
        self.context = path / "context.json"
        self.metrics = path / "metrics.jsonl"
        self.failures = path / "failures.jsonl"
        self.rollouts = path / "rollouts"
        self.checkpoints = path / "checkpoints"
        self.model = path / "model"
        self.summary = path / "summary.json"

    @staticmethod
    def create(output: str, name: str) -> "RunFolder":
        """A new folder at `output`, or at the first free runs/NAME-NUMBER.

        Raises:
            UsageError: if `output` exists and is not an empty folder, or cannot be made.
        """
        path = Path(output) if output else _free(Path("runs"), name)
        RunFolder.refuse_existing(path)
        folder = RunFolder(path)
        try:
            for part in (folder.rollouts, folder.checkpoints):
                part.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"the run folder '{path}' cannot be made: {error.strerror}") from error
        return folder

    @staticmethod
    @contextmanager
    def tentative(output: str, name: str) -> "Iterator[RunFolder]":
        """As `create`; what was made is removed again if the block raises."""
        path = Path(output) if output else _free(Path("runs"), name)
        missing = [folder for folder in (path, *path.parents) if not folder.exists()]
        made = RunFolder.create(str(path), name)
        try:
            yield made
        except BaseException:
            # It was empty or not there.
            for part in path.iterdir():
                if part.is_dir():
                    remove_tree(part)
                else:
                    part.unlink()
            for folder in missing:
                with suppress(OSError):
                    folder.rmdir()
            raise

    @staticmethod
    def refuse_existing(path: Path) -> None:
        """Raises UsageError if `path` exists and is not an empty folder."""
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise UsageError(
                f"'{path}' exists already and is not overwritten: choose another run.output, remove it, or "
                f"resume it: `groupwise train --resume {path}`"
            )

    @staticmethod
    def existing(path: str) -> "RunFolder":
        """The folder of an earlier run.

        Raises:
            DataError: if `path` is not one.
        """
        folder = RunFolder(Path(path))
        if not folder.config.is_file():
            raise DataError(f"'{path}' is not the folder of a run: it has no {folder.config.name}")
        return folder

    def read_context(self) -> dict[str, Any]:
        """What a resumed run has to agree on.

        Raises:
            DataError: if it is not there.
        """
        return _read_json(self.context)

    def read_summary(self) -> dict[str, Any]:
        """What the run achieved."""
        return _read_json(self.summary)


def _read_json(path: Path) -> dict[str, Any]:
    try:
        value: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"'{path}' cannot be read, so the run cannot be resumed: {error}") from error
    return value


def _free(parent: Path, name: str) -> Path:
    number = 1
    while (parent / f"{name}-{number:03d}").exists():
        number += 1
    return parent / f"{name}-{number:03d}"
