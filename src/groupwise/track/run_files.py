"""A run as files: config.yaml, context.json, metrics.jsonl, failures.jsonl, rollouts/ and summary.json."""

import json
import math
import os
from collections.abc import Sequence
from typing import Any

from groupwise.config import TrainConfig
from groupwise.config.compose import dump_config
from groupwise.track.atomic_files import write_json, write_text
from groupwise.track.run_folder import RunFolder
from groupwise.track.tracker import RunContext, Tracker

SCHEMA_VERSION = 1


class RunFiles(Tracker):
    """Writes what is reported to the folder of the run."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder

    def start(self, config: TrainConfig, context: RunContext) -> None:
        """Write the configuration and, once, the context; drop the lines of steps that a resumed run repeats."""
        folder = self._folder
        for stream in (folder.metrics, folder.failures):
            if stream.is_file():
                lines = stream.read_text(encoding="utf-8").splitlines()
                write_text(stream, "".join(f"{line}\n" for line in lines if _step(line) <= context.finished_steps))
        for file in folder.rollouts.glob("step_*.jsonl"):
            if int(file.stem.removeprefix("step_")) > context.finished_steps:
                file.unlink()
        # Half of the options would be a different run: the file is whole or absent.
        write_text(folder.config, dump_config(config))
        if not folder.context.is_file():
            write_json(folder.context, context.facts)

    def step(self, metrics: dict[str, Any]) -> None:
        """Append a line to metrics.jsonl, safe on the disk."""
        with self._folder.metrics.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"schema_version": SCHEMA_VERSION, **finite(metrics)}, allow_nan=False) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def failures(self, step: int, failures: Sequence[dict[str, Any]]) -> None:
        """Append to failures.jsonl."""
        if failures:
            with self._folder.failures.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps({"step": step, **row}, ensure_ascii=False) + "\n" for row in failures)

    def rollouts(self, step: int, rows: Sequence[dict[str, Any]]) -> None:
        """All completions of a step in one file."""
        text = "".join(json.dumps(finite(row), ensure_ascii=False, allow_nan=False) + "\n" for row in rows)
        (self._folder.rollouts / f"step_{step:06d}.jsonl").write_text(text, encoding="utf-8")

    def finish(self, summary: dict[str, Any] | None) -> None:
        """Write summary.json."""
        if summary is not None:
            write_json(self._folder.summary, finite({"schema_version": SCHEMA_VERSION, **summary}))


def finite(value: Any) -> Any:
    """The same value with numbers that JSON cannot hold as text."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return value


def _step(line: str) -> float:
    try:
        return float(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError):
        # The last line of a killed run may be cut off; its step is run again.
        return math.inf
