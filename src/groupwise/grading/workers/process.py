"""One worker process, seen from its parent."""

import json
import os
import select
import struct
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from groupwise.grading.workers.launched import Launch

_CHILD = Path(__file__).with_name("child.py")
_TICK_SECONDS = 0.1
_REPLY_BYTES = 1 << 26
_TAIL_BYTES = 4096

# What the kinds of failure mean while the target is loaded.
_LOADING = {"timeout": "loading it ", "died": "while it was loaded, ", "memory": "loading it: ", "raised": ""}


# Anything that JSON can hold. Its exact recursive type would only make callers cast.
JSON = Any


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a call has no value.

    kind: `timeout` (killed at the deadline), `raised`, `memory` (the limit on address space), `died` (the process ended
    by itself: exit, signal, crash), `bad_value` (not JSON), `not_started` (the target could not be loaded), `closed`
    (the pool was closed meanwhile), `broken` (the pool itself failed), or a kind that the target names itself: the
    attribute `failure_kind` of what it raises, with `failure_data` as data. output: the end of what the call printed.
    """

    kind: str
    message: str
    output: str = ""
    data: JSON = None


@dataclass(frozen=True, slots=True)
class Result:
    """`value` where `failure` is None. `attempts` counts the tries, `seconds` is the time of the last one."""

    value: JSON = None
    failure: Failure | None = None
    attempts: int = 1
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """How a worker process is started: `first` is the JSON object that tells it what to load."""

    first: str
    startup_seconds: float
    launch: Launch
    on_output: Callable[[bytes], None]


class _NoReplyError(Exception):
    """A call without a reply: the kind of its failure, and the message where the end of the process is not the one."""

    def __init__(self, kind: str, message: str = "") -> None:
        super().__init__(kind)
        self.kind = kind
        self.message = message


class WorkerProcess:
    """Answers one call at a time. Start it in a thread that outlives it, see LocalProcess."""

    def __init__(self, spec: WorkerSpec) -> None:
        self._process = spec.launch([sys.executable, "-P", str(_CHILD)])
        self._output_open = True
        for fd in (self._process.stdin, self._process.stdout, self._process.stderr):
            os.set_blocking(fd, False)
        self._spec = spec
        self._broken = False
        self._calls = 0
        self._tail = bytearray()
        self._buffer = bytearray()

    def start(self) -> Failure | None:
        """Load the target."""
        failure = self._exchange(self._spec.first[1:-1].encode(), self._spec.startup_seconds).failure
        if failure is None or failure.kind not in _LOADING:
            return failure
        return replace(failure, kind="not_started", message=_LOADING[failure.kind] + failure.message)

    def call(self, payload: bytes, timeout_seconds: float) -> Result:
        """One call with JSON as its argument. Afterwards the process may be dead, and has to be replaced."""
        return self._exchange(b'"payload": ' + payload, timeout_seconds)

    @property
    def usable(self) -> bool:
        """Whether it can take a call."""
        return not self._broken and self._process.runs()

    def kill(self) -> None:
        """End the process and everything that it started. Safe from any thread, and more than once."""
        self._broken = True
        self._process.kill()

    def close(self) -> None:
        """Kill, collect the exit status and close the pipes."""
        self.kill()
        self._process.close()

    def _await_exit(self) -> None:
        """The channel closes a moment before the exit status is there."""
        for _ in range(100):
            if not self._process.runs():
                return
            time.sleep(0.005)

    def _exchange(self, members: bytes, timeout_seconds: float) -> Result:
        self._read_output()
        self._tail.clear()
        self._calls += 1
        body = b'{"id": %d, %b}' % (self._calls, members)
        began = time.monotonic()
        value: JSON = None
        failure: Failure | None = None
        try:
            reply = self._wait(struct.pack(">I", len(body)) + body, timeout_seconds)
        except _NoReplyError as error:
            if error.kind == "died":
                self._await_exit()
            self.kill()
            self._read_output()
            failure = self._failure(error.kind, error.message or self._process.ending())
        else:
            self._read_output()
            value = reply.get("value")
            if "kind" in reply:
                failure = self._failure(reply["kind"], reply["message"], reply.get("data"))
        return Result(value, failure, seconds=time.monotonic() - began)

    def _failure(self, kind: str, message: str, data: JSON = None) -> Failure:
        # What a function raises may hold characters that no file and no terminal takes.
        message = message.encode("utf-8", "backslashreplace").decode("utf-8")
        return Failure(kind, message, self._tail.decode(errors="replace").strip(), data)

    def _wait(self, data: bytes, timeout_seconds: float) -> dict[str, JSON]:
        deadline = time.monotonic() + timeout_seconds
        outgoing = memoryview(data)
        while True:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise _NoReplyError("timeout", f"did not return within {timeout_seconds:g} s and was killed")
            poll = select.poll()
            poll.register(self._process.stdout, select.POLLIN)
            if self._output_open:
                poll.register(self._process.stderr, select.POLLIN)
            if outgoing:
                poll.register(self._process.stdin, select.POLLOUT)
            ready = poll.poll(1000 * min(remaining, _TICK_SECONDS) + 1)
            fds = {fd for fd, _ in ready}
            if self._process.stderr in fds:
                self._read_output()
            if self._process.stdin in fds:
                try:
                    outgoing = outgoing[os.write(self._process.stdin, outgoing) :]
                except BlockingIOError:
                    pass
                except BrokenPipeError:
                    outgoing = memoryview(b"")
            if self._process.stdout in fds:
                chunk = os.read(self._process.stdout, 1 << 16)
                if not chunk:
                    raise _NoReplyError("died")
                self._buffer += chunk
                reply = self._take_frame()
                if reply is not None:
                    return reply
            elif not ready and not self._process.runs():
                raise _NoReplyError("died")  # A process that it left behind holds the pipe open.

    def _take_frame(self) -> dict[str, JSON] | None:
        """The reply to the current call, once it is complete."""
        while len(self._buffer) >= 4:
            length = struct.unpack(">I", self._buffer[:4])[0]
            if length > _REPLY_BYTES:
                raise _NoReplyError("bad_value", f"returned {length} bytes; at most {_REPLY_BYTES} are read")
            if len(self._buffer) < 4 + length:
                return None
            body = bytes(self._buffer[4 : 4 + length])
            del self._buffer[: 4 + length]
            try:
                reply = json.loads(body)
            except ValueError:
                raise _NoReplyError("bad_value", "something else wrote to the channel of replies") from None
            if isinstance(reply, dict) and reply.get("id") == self._calls:
                return reply
        return None

    def _read_output(self) -> None:
        """Take what was printed, without waiting; at most a pipe full at a time."""
        if not self._output_open:
            return
        try:
            chunk = os.read(self._process.stderr, 1 << 16)
        except BlockingIOError:
            return
        if not chunk:
            self._output_open = False
            return
        self._spec.on_output(chunk)
        self._tail += chunk
        del self._tail[:-_TAIL_BYTES]
