"""Ctrl-C: the state of the last finished step is saved, and nothing half-done is."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any


class Interrupted(BaseException):
    """The user or the system asked the run to stop. Not an Exception: no handler of errors may swallow it."""


class Interrupts:
    """While active, SIGINT and SIGTERM ask for a stop; a second one ends the process as usual.

    Inside of `immediate()` the stop comes at once, elsewhere at the next `raise_if_asked()`.
    """

    def __init__(self) -> None:
        self.asked = False
        self._immediate = False
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> "Interrupts":
        for number in (signal.SIGINT, signal.SIGTERM):
            # A handler that was not set from Python could not be put back.
            if signal.getsignal(number) is None:
                continue
            try:
                self._previous[number] = signal.signal(number, self._handle)
            except ValueError:  # signals belong to the main thread; elsewhere its owner decides
                break
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._restore()

    @contextmanager
    def immediate(self) -> Iterator[None]:
        """A stretch of work that may be thrown away."""
        self.raise_if_asked()
        self._immediate = True
        try:
            yield
        finally:
            self._immediate = False

    def raise_if_asked(self) -> None:
        """Raises `Interrupted` if a stop was asked for."""
        if self.asked:
            raise Interrupted

    def _handle(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        self.asked = True
        self._restore()
        if self._immediate:
            raise Interrupted

    def _restore(self) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous.clear()
