"""Wall and CPU time of a step."""

import time
from collections.abc import Callable


class Clock:
    """Wall and CPU seconds since it was made, and of the phases between laps.

    finish: returns when what was begun is done, also on a device that works by itself; called at the end of a phase.
    """

    def __init__(self, finish: Callable[[], None] = lambda: None) -> None:
        self._finish = finish
        self._wall, self._cpu = time.perf_counter(), time.process_time()
        self._last = self._wall
        self._laps: dict[str, float] = {}

    def lap(self, name: str) -> None:
        """Close a phase."""
        self._finish()
        now = time.perf_counter()
        self._laps[f"time/{name}_seconds"] = now - self._last
        self._last = now

    def seconds(self) -> tuple[float, float]:
        """Wall and CPU seconds so far."""
        return time.perf_counter() - self._wall, time.process_time() - self._cpu

    def fields(self, tokens: float, elapsed_before: float) -> dict[str, float]:
        """The fields of a line of metrics that depend on the machine's speed; no other does."""
        wall, cpu = self.seconds()
        return {
            **self._laps,
            "time/step_seconds": wall,
            "time/step_cpu_seconds": cpu,
            "time/tokens_per_second": tokens / wall,
            "time/elapsed_seconds": elapsed_before + wall,
        }
