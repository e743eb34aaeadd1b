"""A tracker in a thread of its own: a slow or failing one costs a run one warning, and no step waits for it."""

import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from groupwise.config import TrainConfig
from groupwise.errors import GroupwiseError
from groupwise.track.rollouts import Rollouts, finite
from groupwise.track.sinks import Sink
from groupwise.track.tracker import RunContext, Tracker

# What may wait, in steps and their completions, before the tracker counts as too slow.
MAX_WAITING = 128

# So long the end of a run waits for what is still to be sent.
FINISH_SECONDS = 30.0


class Background(Tracker):
    """Hands everything to a sink, in order, in one thread; after its first failure the sink hears nothing more.

    open_sink: makes the sink, in the thread, since some libraries take seconds to be imported and to answer.
    screen: hears of a failure, once. write_report: writes the report of the complete run and says where it is; asked
    only for a sink that shows it.
    """

    def __init__(
        self,
        name: str,
        open_sink: Callable[[TrainConfig, RunContext], Sink],
        screen: Tracker,
        finish_seconds: float = FINISH_SECONDS,
        write_report: Callable[[], Path] | None = None,
    ) -> None:
        self._name, self._open, self._screen, self._finish_seconds = name, open_sink, screen, finish_seconds
        self._write_report = write_report
        self._waiting: queue.Queue[Callable[[Sink], None] | None] = queue.Queue(MAX_WAITING)
        self._dropped = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, config: TrainConfig, context: RunContext) -> None:
        """Start the thread; nothing of the library is imported before."""
        self._thread = threading.Thread(target=self._work, args=(config, context), name=self._name, daemon=True)
        self._thread.start()

    def step(self, metrics: dict[str, Any]) -> None:
        """The numbers of a step that are finite."""
        numbers = {key: value for key, value in finite(metrics).items() if isinstance(value, int | float)}
        self._put(lambda sink: sink.step(int(metrics["step"]), numbers))

    def rollouts(self, step: int, rollouts: Rollouts) -> None:
        """The completions of a step, unpacked in the thread."""
        self._put(lambda sink: sink.rollouts(step, rollouts.rows()))

    def finish(self, summary: dict[str, Any] | None) -> None:
        """Wait a bounded time for what is still to be sent."""
        if self._thread is None or self._dropped.is_set():
            return
        end = time.monotonic() + self._finish_seconds
        with suppress(queue.Full):
            for last in (lambda sink: self._report(sink, summary), lambda sink: sink.finish(summary), None):
                self._waiting.put(last, timeout=max(0.0, end - time.monotonic()))
        self._thread.join(max(0.0, end - time.monotonic()))
        if self._thread.is_alive():
            self._drop(f"it was not done {self._finish_seconds:g} s after the run")
        self._thread = None

    def _report(self, sink: Sink, summary: dict[str, Any] | None) -> None:
        if summary is None or self._write_report is None or type(sink).report is Sink.report:
            return
        # The run is complete without it, and whoever writes it to be read says why there is none.
        with suppress(GroupwiseError):
            sink.report(int(summary["steps"]), self._write_report())

    def _put(self, call: Callable[[Sink], None]) -> None:
        if self._thread is None or self._dropped.is_set():
            return
        try:
            self._waiting.put_nowait(call)
        except queue.Full:
            self._drop(f"it is {MAX_WAITING} entries behind")

    def _work(self, config: TrainConfig, context: RunContext) -> None:
        try:
            sink = self._open(config, context)
            while (call := self._waiting.get()) is not None and not self._dropped.is_set():
                call(sink)
        # Whatever a library raises, and some of them leave by SystemExit: none of it ends the run.
        except BaseException as error:
            missing = isinstance(error, ModuleNotFoundError)
            advice = f": pip install 'groupwise[{self._name}]'" if missing else ""
            self._drop(f"{type(error).__name__}: {' '.join(str(error).split())[:300]}{advice}")
            # The end of the run may wait for room.
            with suppress(queue.Empty):
                while True:
                    self._waiting.get_nowait()

    def _drop(self, reason: str) -> None:
        if not self._dropped.is_set():
            self._dropped.set()
            self._screen.note(f"warning: tracker {self._name} is dropped, the run continues without it: {reason}")
