"""A run as files: config.yaml, metrics.jsonl, failures.jsonl, rollouts/ and summary.json."""

import json
from collections.abc import Sequence
from typing import Any

from groupwise.config import TrainConfig
from groupwise.track import disk
from groupwise.track.journal import FAILURES, METRICS
from groupwise.track.rollouts import Rollouts, finite
from groupwise.track.run_folder import RunFolder
from groupwise.track.tracker import RunContext, Tracker

SCHEMA_VERSION = 1


class RunFiles(Tracker):
    """Writes what is reported to the folder of the run; screen: hears of what was lost or removed there."""

    def __init__(self, folder: RunFolder, screen: Tracker) -> None:
        self._folder, self._screen = folder, screen
        self._told = False

    def start(self, config: TrainConfig, context: RunContext) -> None:
        """Cut the files back to the steps that a resumed run has finished, and write what it changed of its options.

        Of two files that say the options, config.yaml is written first: it is the one that a resumed run follows.
        """
        folder = self._folder
        for remark in folder.journal.cut_back(context.finished_steps, context.files):
            self._screen.note(remark)
        # It is of a shorter run, if there is one.
        disk.remove(folder.summary)
        folder.write_config(config)
        folder.write_context(context.facts)

    def step(self, metrics: dict[str, Any]) -> None:
        """Append a line to metrics.jsonl."""
        line = {"schema_version": SCHEMA_VERSION, **finite(metrics)}
        self._folder.journal.append(METRICS, [json.dumps(line, allow_nan=False)])

    def failures(self, step: int, failures: Sequence[dict[str, Any]]) -> None:
        """Append to failures.jsonl."""
        if failures:
            rows = [json.dumps({"step": step, **finite(row)}, ensure_ascii=False) for row in failures]
            self._folder.journal.append(FAILURES, rows)

    def rollouts(self, step: int, rollouts: Rollouts) -> None:
        """The completions of a step in one file; the first time that some have no room is said."""
        if len(rollouts.groups) < rollouts.sampled and not self._told:
            self._told = True
            self._screen.note(
                f"rollouts/ has {len(rollouts.groups)} of the {rollouts.sampled} groups of step {step}, and as much of "
                "later ones as there is room for: all needs a higher run.rollouts_max_megabytes"
            )
        if rollouts.groups:
            self._folder.journal.write_rollouts(step, rollouts.content)

    def finish(self, summary: dict[str, Any] | None) -> None:
        """Write summary.json."""
        if summary is not None:
            disk.write_json(self._folder.summary, finite({"schema_version": SCHEMA_VERSION, **summary}))
