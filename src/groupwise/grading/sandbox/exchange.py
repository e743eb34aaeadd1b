"""Talking to a running program: its input in, its output out, all within the limits."""

import os
import selectors
import time
from contextlib import suppress

from groupwise.grading.sandbox.launch import START_SECONDS, Process
from groupwise.grading.sandbox.runs import Ending, Limits, Outcome

KILLED_BY_LIMIT = {9: "killed, as for too much CPU time or memory", 24: "CPU time", 25: "a file beyond disk_mb"}
STOPPED: dict[Ending, str] = {"timeout": "stopped at the wall clock", "output_limit": "wrote too much"}


def exchange(process: Process, stdin: bytes, ready: bytes, limits: Limits, exit_offset: int) -> Outcome:
    """Write the input, read the output within the limits, wait for the end. The clock runs from the ready sign.

    The outcome is that of the program and not of its launcher; exit_offset: see Backend.
    """
    talk = Talk(process, stdin, ready, limits.output_kb << 10)
    launched = began = time.monotonic()
    status: Ending = "exited"
    with selectors.DefaultSelector() as selector:
        for fd, events in ((process.stdin, selectors.EVENT_WRITE), (process.stdout, 1), (process.stderr, 1)):
            os.set_blocking(fd, False)
            selector.register(fd, events)
        selector.register(process.control, selectors.EVENT_READ)
        while process.report is None:
            if not talk.ready_at:
                left = launched + START_SECONDS - time.monotonic()
            elif limits.wall_seconds is None:
                left = None
            else:
                began = talk.ready_at
                left = began + limits.wall_seconds - time.monotonic()
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
    code, number = process.report["exit_code"], process.report["signal"]
    if code is not None and exit_offset and exit_offset < code <= exit_offset + 64:
        number = code - exit_offset
        code = None
    stderr, detail = bytes(talk.err[-talk.output_bytes :]), STOPPED.get(status, "")
    if not talk.ready_at:
        status, detail = "failed", "the sandbox did not start: " + stderr[-500:].decode("utf-8", "replace").strip()
    elif status == "exited" and number is not None:
        status, detail = "killed", KILLED_BY_LIMIT.get(number, f"signal {number}")
    elif status == "exited" and code is None:
        status, detail = "failed", "what watches over the program was killed"
    return Outcome(
        status=status,
        exit_code=code if status == "exited" else None,
        signal=number if status == "killed" else None,
        stdout=bytes(talk.out),
        stderr=stderr,
        wall_seconds=ended - began,
        cpu_seconds=process.report["cpu_seconds"],
        detail=detail,
    )


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
