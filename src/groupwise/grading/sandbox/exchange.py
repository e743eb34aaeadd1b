"""Talking to a running program: its input in, its output out, all within the limits."""

import os
import selectors
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from groupwise.grading.sandbox.launch import START_SECONDS, Process


@dataclass(frozen=True, slots=True)
class Exchange:
    """What came out of a program, and how it ended. started: standard error began with the sign of a start."""

    status: str
    stdout: bytes
    stderr: bytes
    wall_seconds: float
    report: Mapping[str, Any]
    started: bool


def exchange(process: Process, stdin: bytes, ready: bytes, wall_seconds: float | None, output_bytes: int) -> Exchange:
    """Write the input, read the output within the limits, wait for the end. The clock runs from the ready sign."""
    talk = Talk(process, stdin, ready, output_bytes)
    launched = began = time.monotonic()
    status = "exited"
    with selectors.DefaultSelector() as selector:
        for fd, events in ((process.stdin, selectors.EVENT_WRITE), (process.stdout, 1), (process.stderr, 1)):
            os.set_blocking(fd, False)
            selector.register(fd, events)
        selector.register(process.control, selectors.EVENT_READ)
        while process.report is None:
            if not talk.ready_at:
                left = launched + START_SECONDS - time.monotonic()
            elif wall_seconds is None:
                left = None
            else:
                began = talk.ready_at
                left = began + wall_seconds - time.monotonic()
            if status == "exited" and left is not None and left <= 0:
                status = "timeout"
                process.kill()
            for key, _ in selector.select(left if status == "exited" else START_SECONDS):
                talk.serve(selector, key)
            if status == "exited" and talk.overflowed:
                status = "output_limit"
                process.kill()
        talk.drain()
    ended = time.monotonic()
    if status == "exited" and talk.overflowed:
        status = "output_limit"
    return Exchange(status, bytes(talk.out), talk.error_tail(), ended - began, process.report, bool(talk.ready_at))


class Talk:
    """The three streams of one run."""

    def __init__(self, process: Process, stdin: bytes, ready: bytes, output_bytes: int) -> None:
        self.process = process
        self.input = memoryview(stdin)
        self.ready = ready
        self.ready_at = 0.0
        self.output_bytes = output_bytes
        self.out = bytearray()
        self.err = bytearray()
        self.err_bytes = 0
        self.overflowed = False

    def serve(self, selector: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
        """One event."""
        if key.fileobj is self.process.control:
            self.process.wait(0)
        elif key.fd == self.process.stdin:
            try:
                self.input = self.input[os.write(key.fd, self.input[:65536]) :]
            except BlockingIOError:
                return
            except BrokenPipeError:
                self.input = self.input[:0]
            if not self.input:
                selector.unregister(key.fd)
                self.process.close_stdin()
        else:
            with suppress(BlockingIOError):
                if not self.read(key.fd):
                    selector.unregister(key.fd)

    def read(self, fd: int) -> bool:
        """Take what there is; false at the end of the stream."""
        data = os.read(fd, 65536)
        if fd == self.process.stdout:
            space = self.output_bytes - len(self.out)
            self.out += data[:space]
            self.overflowed |= len(data) > space
        else:
            self.err_bytes += len(data)
            self.overflowed |= self.err_bytes > 16 * self.output_bytes
            self.err += data
            if not self.ready_at and self.err.startswith(self.ready):
                self.ready_at = time.monotonic()
                del self.err[: len(self.ready)]
            if self.ready_at and len(self.err) > 2 * self.output_bytes:
                del self.err[: -self.output_bytes]
        return bool(data)

    def drain(self) -> None:
        """Read what is left in the pipes; nobody writes to them any more."""
        for fd in (self.process.stdout, self.process.stderr):
            with suppress(BlockingIOError):
                while not self.overflowed and self.read(fd):
                    continue

    def error_tail(self) -> bytes:
        """The last part of standard error."""
        return bytes(self.err[-self.output_bytes :])
