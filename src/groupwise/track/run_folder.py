"""The folder of a run, and the stream of its metrics."""

import json
import math
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from groupwise.errors import DataError, UsageError
from groupwise.track.files import write_json, write_text

SCHEMA_VERSION = 1


class RunFolder:
    """Where everything of a run is.

    config.yaml (all options), metrics.jsonl (a line for each step), failures.jsonl (what could not be judged),
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

    def log(self, line: dict[str, Any]) -> None:
        """Append the metrics of a step."""
        with self.metrics.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"schema_version": SCHEMA_VERSION, **finite(line)}, allow_nan=False) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def log_failures(self, step: int, failures: Iterable[dict[str, Any]]) -> None:
        """Append what rewards could not judge at a step."""
        text = "".join(json.dumps({"step": step, **failure}, ensure_ascii=False) + "\n" for failure in failures)
        if text:
            with self.failures.open("a", encoding="utf-8") as file:
                file.write(text)

    def truncate_after(self, step: int) -> None:
        """Drop the metrics, failures and rollouts of steps after `step`, which a resumed run writes again."""
        for stream in (self.metrics, self.failures):
            if stream.is_file():
                kept = [line for line in stream.read_text(encoding="utf-8").splitlines() if _step(line) <= step]
                aside = stream.with_name(f".{stream.name}.tmp")
                aside.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")
                aside.replace(stream)
        for file in self.rollouts.glob("step_*.jsonl"):
            if int(file.stem.removeprefix("step_")) > step:
                file.unlink()

    def write_config(self, text: str) -> None:
        """All options of the run. Half of them would be a different run, so that the file is whole or absent."""
        write_text(self.config, text)

    def write_context(self, context: dict[str, Any]) -> None:
        """What a resumed run has to agree on."""
        write_json(self.context, context)

    def read_context(self) -> dict[str, Any]:
        """What was written by `write_context`.

        Raises:
            DataError: if it is not there.
        """
        return _read_json(self.context)

    def read_summary(self) -> dict[str, Any]:
        """What was written by `write_summary`."""
        return _read_json(self.summary)

    def write_rollouts(self, step: int, rows: Iterable[dict[str, Any]]) -> None:
        """All completions of a step, one a line."""
        text = "".join(json.dumps(finite(row), ensure_ascii=False, allow_nan=False) + "\n" for row in rows)
        (self.rollouts / f"step_{step:06d}.jsonl").write_text(text, encoding="utf-8")

    def write_summary(self, summary: dict[str, Any]) -> None:
        """What the run achieved."""
        write_json(self.summary, finite({"schema_version": SCHEMA_VERSION, **summary}))


def finite(value: Any) -> Any:
    """The same value with numbers that JSON cannot hold as text."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return value


def _read_json(path: Path) -> dict[str, Any]:
    try:
        value: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"'{path}' cannot be read, so the run cannot be resumed: {error}") from error
    return value


def _step(line: str) -> float:
    try:
        return float(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError):
        # The last line of a killed run may be cut off; its step is run again.
        return math.inf


def _free(parent: Path, name: str) -> Path:
    number = 1
    while (parent / f"{name}-{number:03d}").exists():
        number += 1
    return parent / f"{name}-{number:03d}"
