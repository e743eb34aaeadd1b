"""The trainer's side of the broker: starting a program and talking to it."""

import json
import os
import queue
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from groupwise.errors import DataError

BROKER = """
import sys, types
for name in ("groupwise", "groupwise.grading", "groupwise.grading.sandbox"):
    package = types.ModuleType(name)
    package.__path__ = [sys.argv[1] + name.removeprefix("groupwise").replace(".", "/")]
    sys.modules[name] = package
from groupwise.grading.sandbox.broker.main import main
main(int(sys.argv[2]))
"""
PACKAGE = Path(__file__).parents[2]
SLOTS = 256
START_SECONDS = 60.0
END_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Launch:
    """A program behind its launcher; the environment inside is part of argv where the launcher can set it there.

    extra: the content of descriptor 3, if any. cover: folders of the host over which the run gets empty file systems,
    with their bytes; only where we may mount, and it does not start where that fails.
    """

    argv: Sequence[str]
    env: Mapping[str, str]
    extra: bytes = b""
    cover: Mapping[str, int] = field(default_factory=dict)


class Process:
    """A started program. `kill` and `close` may be called from any thread."""

    def __init__(self, control: socket.socket, pipes: Sequence[int], release: Callable[[], None]) -> None:
        self.control = control
        self.stdin, self.stdout, self.stderr = pipes
        self.report: dict[str, Any] | None = None
        self._release = release
        self._lock = threading.Lock()
        self._closed = False

    def kill(self) -> None:
        """Kill it with all its descendants; returns at once."""
        with self._lock, suppress(OSError):
            if not self._closed:
                self.control.send(b"kill")

    def wait(self, timeout_seconds: float | None = None) -> dict[str, Any] | None:
        """Wait for the end of the program and of all that it left behind; None at the timeout.

        The report has `exit_code`, `signal` and `cpu_seconds`.
        """
        if self.report is None:
            readable = select.poll()
            readable.register(self.control, select.POLLIN)
            if not readable.poll(None if timeout_seconds is None else max(0, round(timeout_seconds * 1000))):
                return None
            with self._lock:
                if self.report is None:
                    message = received(self.control)
                    lost = {"exit_code": None, "signal": None, "cpu_seconds": 0.0, "left": 0}
                    self.report = json.loads(message) if message else lost
        return self.report

    def runs(self) -> bool:
        """Whether it has not ended."""
        return self.wait(0.001) is None

    def ending(self) -> str:
        """How it ended, see `describe_ending`."""
        report = self.wait(END_SECONDS) or {}
        return describe_ending(report.get("exit_code"), report.get("signal"))

    def close_stdin(self) -> None:
        """End of input."""
        if self.stdin >= 0:
            os.close(self.stdin)
            self.stdin = -1

    def close(self) -> None:
        """Kill it if it still runs, wait for its end, and free its descriptors."""
        if not self._closed:
            self.kill()
            self.wait(START_SECONDS)
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self.close_stdin()
        os.close(self.stdout)
        os.close(self.stderr)
        self.control.close()
        self._release()


def received(control: socket.socket) -> bytes:
    """The report; empty where the supervisor ended without one."""
    for _ in range(2):
        # An order to kill that the supervisor had no time to read shows as one reset, before the report.
        with suppress(ConnectionResetError):
            return control.recv(4096)
    return b""


class Broker:
    """Starts programs through one small process, which ends with this one. Thread-safe.

    cgroups: folders of the control groups of the runs; empty where we may not make any. mounts: whether a run can have
    its own mounts. uids: host users for the programs, one for each at a time; None where all run as our own user.
    """

    def __init__(self) -> None:
        self.owner = os.getpid()
        self._lock = threading.Lock()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [interpreter(), "-I", "-S", "-c", BROKER, str(PACKAGE), str(theirs.fileno())],
                env={},
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self.pid = self._process.pid
        self._socket = ours
        self.uids = user_ids(self._process.pid) if os.geteuid() == 0 else None
        self._slots: queue.SimpleQueue[int] = queue.SimpleQueue()
        for slot in range(SLOTS):
            self._slots.put(slot)
        ours.settimeout(START_SECONDS)
        try:
            answer = ours.recv(1 << 16)
        except OSError as error:
            answer, reason = b"", str(error)
        else:
            reason = "it ended"
        if not answer:
            self.close()
            raise DataError(f"the process that starts sandboxed programs did not start: {reason}")
        ours.settimeout(None)
        prepared = json.loads(answer)
        self.cgroups: list[str] = prepared["cgroups"]
        self.mounts: bool = prepared["mounts"]

    def start(
        self,
        launch: Launch,
        memory_bytes: int,
        processes: int,
        folder: str,
        expose: Sequence[str],
        released: Callable[[Process], None],
    ) -> Process:
        """Start a program with pipes at its standard input, output and error, as its own user where we may.

        memory_bytes and processes: for the control groups of the run. folder: of the host that is given to the user of
        the program. expose: paths of the host that this user has to reach. released: called when the process is closed.
        """
        slot = self._slots.get()
        parent_ends: list[int] = []
        child_ends: list[int] = []
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            for parent_reads in (False, True, True):
                read, write = os.pipe()
                parent_ends.append(read if parent_reads else write)
                child_ends.append(write if parent_reads else read)
            if launch.extra:
                child_ends.append(memory_file(launch.extra))
            message = {
                "argv": list(launch.argv),
                "env": dict(launch.env),
                "uid": self.uids[slot] if self.uids else None,
                "memory_bytes": memory_bytes,
                "processes": processes,
                "folder": folder,
                "expose": list(expose) if self.uids and self.mounts else [],
                "cover": dict(launch.cover) if self.mounts else {},
            }
            with self._lock:
                socket.send_fds(self._socket, [json.dumps(message).encode()], [theirs.fileno(), *child_ends])
        except BaseException:
            for fd in parent_ends:
                os.close(fd)
            ours.close()
            self._slots.put(slot)
            raise
        finally:
            theirs.close()
            for fd in child_ends:
                os.close(fd)

        def release() -> None:
            self._slots.put(slot)
            released(process)

        process = Process(ours, parent_ends, release)
        return process

    def close(self) -> None:
        """End the broker; what it still runs is killed."""
        self._socket.close()
        if os.getpid() == self.owner:
            try:
                self._process.wait(START_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


def describe_ending(exit_code: int | None, number: int | None) -> str:
    """An exit code or the number of a signal, in words."""
    if number is None:
        return "the process was lost" if exit_code is None else f"the process ended with exit status {exit_code}"
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    hint = " (if nobody sent it, memory ran out)" if name == "SIGKILL" else ""
    return f"the process was ended by {name}{hint}"


def memory_file(content: bytes) -> int:
    """A descriptor to read this content from."""
    fd = os.memfd_create("groupwise")
    os.write(fd, content)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def interpreter() -> str:
    """The interpreter itself, not the link to it in a virtual environment."""
    return os.path.realpath(getattr(sys, "_base_executable", "") or sys.executable)


def user_ids(pid: int) -> list[int] | None:
    """Host user ids for the slots that nobody else is likely to have; None where there are too few to choose from."""
    wanted = 1_900_000_000 + pid % 500_000 * SLOTS
    best = 0
    for line in Path("/proc/self/uid_map").read_text().splitlines():
        first, _, count = (int(word) for word in line.split())
        if first <= wanted and wanted + SLOTS <= first + count:
            return list(range(wanted, wanted + SLOTS))
        if count > 4 * SLOTS:
            # The upper half but for its last range, which holds `nobody`; trainers side by side rarely meet there.
            ranges = count // SLOTS
            upper = ranges // 2
            best = max(best, first + (upper + pid % (ranges - upper - 1)) * SLOTS)
    return list(range(best, best + SLOTS)) if best else None
