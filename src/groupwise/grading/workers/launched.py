"""A started process with three pipes, on this machine as it is or inside a sandbox."""

import os
import subprocess
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol

from groupwise.grading.sandbox.launch import describe_ending
from groupwise.grading.workers.kill import kill_tree


class Launched(Protocol):
    """What a worker process is to its pool. `kill` and `close` may be called from any thread, and more than once."""

    @property
    def stdin(self) -> int: ...

    @property
    def stdout(self) -> int: ...

    @property
    def stderr(self) -> int: ...

    def runs(self) -> bool:
        """Whether it has not ended."""

    def kill(self) -> None:
        """End it with everything that it started."""

    def ending(self) -> str:
        """How it ended, as in "the process ended with exit status 1"; waits for the end."""

    def close(self) -> None:
        """Kill it, collect it, and close the pipes."""


Launch = Callable[[list[str]], Launched]


class LocalProcess:
    """A process in its own session.

    Start it in a thread that outlives it: a worker process asks Linux to end it together with that thread.
    """

    def __init__(self, argv: Sequence[str]) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0, start_new_session=True)
        self._lock = threading.Lock()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._streams = (self._process.stdin, self._process.stdout, self._process.stderr)
        self.stdin, self.stdout, self.stderr = (stream.fileno() for stream in self._streams)

    def runs(self) -> bool:
        """Without collecting it: its number has to stay taken until `kill` has ended its session."""
        if self._process.returncode is not None:
            return False
        return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None

    def kill(self) -> None:
        with self._lock:
            if self._process.returncode is None:
                kill_tree(self._process.pid)

    def ending(self) -> str:
        with self._lock:
            code = self._process.wait()
        return describe_ending(code, None) if code >= 0 else describe_ending(None, -code)

    def close(self) -> None:
        self.kill()
        self.ending()
        for stream in self._streams:
            with suppress(OSError):
                stream.close()
