"""Where a run says what it does: on the screen, in the files of its folder, and wherever else it is followed.

To follow a run with one more service, subclass `Sink` in `track.sinks` and add it to `SINKS`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from groupwise.config import TrainConfig
from groupwise.track.rollouts import Rollouts


@dataclass(frozen=True)
class RunContext:
    """folder: of the run. finished_steps: 0 for a new run. facts: what a resumed run has to agree on.

    files: what was written up to the last finished step, as `track.journal` records it.
    """

    folder: Path
    finished_steps: int
    facts: dict[str, Any]
    files: dict[str, tuple[int, str]] = field(default_factory=dict)


class Tracker:
    """What a run reports. A subclass overrides what it needs; the rest does nothing."""

    def note(self, text: str) -> None:
        """A remark for people, at any time."""

    def stopping(self, text: str) -> None:
        """A stop was asked for. Called by a signal handler, so that it may wait for nothing and take no lock."""

    def start(self, config: TrainConfig, context: RunContext) -> None:
        """Training starts or resumes."""

    def step(self, metrics: dict[str, Any]) -> None:
        """The metrics of a finished step, by the names of `track.metrics`."""

    def failures(self, step: int, failures: Sequence[dict[str, Any]]) -> None:
        """Completions of the step that a reward failed on: problem, source, sample, component, reason."""

    def rollouts(self, step: int, rollouts: Rollouts) -> None:
        """The completions of the step, every `run.rollouts_every_steps`, as far as there is room for them."""

    def health(self, found: Sequence[str]) -> None:
        """What the health rules found so far, the worst first; each time that they are asked."""

    def finish(self, summary: dict[str, Any] | None) -> None:
        """The run is over; without a summary it was interrupted or failed."""


class Trackers(Tracker):
    """Several trackers as one, called in order."""

    def __init__(self, *trackers: Tracker) -> None:
        self._trackers = trackers

    def note(self, text: str) -> None:
        for tracker in self._trackers:
            tracker.note(text)

    def stopping(self, text: str) -> None:
        for tracker in self._trackers:
            tracker.stopping(text)

    def start(self, config: TrainConfig, context: RunContext) -> None:
        for tracker in self._trackers:
            tracker.start(config, context)

    def step(self, metrics: dict[str, Any]) -> None:
        for tracker in self._trackers:
            tracker.step(metrics)

    def failures(self, step: int, failures: Sequence[dict[str, Any]]) -> None:
        for tracker in self._trackers:
            tracker.failures(step, failures)

    def rollouts(self, step: int, rollouts: Rollouts) -> None:
        for tracker in self._trackers:
            tracker.rollouts(step, rollouts)

    def health(self, found: Sequence[str]) -> None:
        for tracker in self._trackers:
            tracker.health(found)

    def finish(self, summary: dict[str, Any] | None) -> None:
        for tracker in self._trackers:
            tracker.finish(summary)
