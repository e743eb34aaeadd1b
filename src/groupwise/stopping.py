"""Leaving a run early: what asks for it, and the places where work can be left without losing a finished step."""

import _thread
import errno
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, Self, TypeVar

T = TypeVar("T")

SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))

GRACE_SECONDS = 4.0
"""Work that can be thrown away and has not come to a place to leave it by then is left wherever it is."""

LOOK_SECONDS = 0.2
"""How often who waits for others looks whether a stop was asked for."""

OVER = "run.stop_after is over"

_here = threading.local()


class Stopped(BaseException):
    """The work is left. Not an Exception: no handler of errors may swallow it."""


class Stop:
    """While it is entered, SIGINT, SIGTERM, SIGHUP, a lost output and a deadline ask for a stop.

    A signal that is ignored stays ignored. The stop comes, as `Stopped`, at the next `now` of the thread; between
    `hold` and `release` at the first one behind them. A second signal raises `Stopped` where it strikes, held or not.
    Entered again, nothing changes; signals belong to the main thread, and elsewhere their owner decides.

    say: is told at once what happens; called by a signal handler. deadline: of `time.monotonic`.
    work: what is being done. saves: the step that will be saved, None where there is nothing to save.
    cause: a signal's number, or a reason in words, once a stop was asked for. is_forced: after a second signal.
    """

    def __init__(self, say: Callable[[str], None], deadline: float = math.inf) -> None:
        self._say = say
        self.deadline = deadline
        self.work = ""
        self.saves: int | None = None
        self.cause: int | str | None = None
        self.is_forced = False
        self._depth, self._is_held, self._is_shared = 0, False, False
        self._outer: Stop | None = None
        self._previous: dict[int, Any] = {}
        self._is_overdue = self._is_over = False
        self._left = threading.Event()

    def __enter__(self) -> Self:
        self._depth += 1
        if self._depth == 1:
            self._outer, _here.stop = getattr(_here, "stop", None), self
            self._left.clear()
            for number in SIGNALS:
                # A handler that was not set from Python could not be put back; a background job ignores Ctrl-C.
                if signal.getsignal(number) in (None, signal.SIG_IGN):
                    continue
                try:
                    self._previous[number] = signal.signal(number, self._handle)
                except ValueError:
                    break
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._restore()
            _here.stop = self._outer

    def ask(self, cause: int | str) -> None:
        """Ask for a stop, and say what happens until then."""
        if self.cause is None:
            self.cause = cause
            then = "" if self.saves is None else f", then saving step {self.saves}; again to stop without saving"
            self._say(f"stopping: finishing {self.work or 'what is being done'}{then}")

    def reached(self, work: str) -> None:
        """Next comes `work`. Raises Stopped if a stop was asked for and nothing holds it."""
        self.work = work
        if self.cause is None and time.monotonic() > self.deadline:
            self.cause = OVER
        if self.cause is not None and not self._is_held:
            raise Stopped

    def hold(self, work: str, saves: int | None) -> None:
        """Work begins that has to be finished, and then `saves` is the step to save."""
        self._is_held, self.work, self.saves = True, work, saves

    def release(self) -> None:
        """That work is finished; nothing is raised."""
        self._is_held = False

    def end(self) -> None:
        """The stop has come: what is left to close is not disturbed by signals any more."""
        self._is_over = True

    def _handle(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        if self._is_over:
            return
        if self._is_overdue:
            self._is_overdue = False
            if not self._is_held and not self._is_shared:
                raise Stopped
        elif self.cause is None:
            self.ask(number)
            threading.Thread(target=self._press, args=(number,), daemon=True).start()
        else:
            self.cause, self.is_forced = number, True
            self._restore()
            raise Stopped

    def _press(self, number: int) -> None:
        while not self._left.wait(GRACE_SECONDS):
            self._is_overdue = True
            _thread.interrupt_main(signal.Signals(number))

    def _restore(self) -> None:
        self._left.set()
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous.clear()


def now(work: str) -> None:
    """A place where a step can be left, in front of `work`. Raises Stopped if this thread's run is to stop."""
    stop: Stop | None = getattr(_here, "stop", None)
    if stop is not None:
        stop.reached(work)


@contextmanager
def unbroken() -> Iterator[None]:
    """Work that other processes take part in: a stop that is overdue waits for its end."""
    stop: Stop | None = getattr(_here, "stop", None)
    if stop is None:
        yield
        return
    stop._is_shared = True
    try:
        yield
    finally:
        stop._is_shared = False


def follow(cause: int | str) -> None:
    """Another process of this thread's run is stopped by `cause`, and so is this one. Raises Stopped in a run."""
    stop: Stop | None = getattr(_here, "stop", None)
    if stop is not None:
        stop.cause = stop.cause or cause
        raise Stopped


def ask(cause: str) -> bool:
    """Ask this thread's run to stop; False where there is none."""
    stop: Stop | None = getattr(_here, "stop", None)
    if stop is not None:
        stop.ask(cause)
    return stop is not None


def result(future: Future[T], work: str) -> T:
    """What a future comes to. While it is waited for, this is a place to leave, see `now`."""
    while not future.done():
        now(work)
        wait([future], timeout=LOOK_SECONDS)
    return future.result()


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out, by whatever a library says then."""
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    said = str(error)
    signs = ("out of memory", "can't allocate memory", "bad_alloc", "could not create a memory object")
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and any(sign in said for sign in signs))
