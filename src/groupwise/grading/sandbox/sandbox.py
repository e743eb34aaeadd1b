"""A sandbox: programs in, outcomes out."""

import math
import secrets
import shutil
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from groupwise.closing import Closing
from groupwise.grading.sandbox import wire_values
from groupwise.grading.sandbox.backend import Backend
from groupwise.grading.sandbox.broker.expose import blocked
from groupwise.grading.sandbox.exchange import exchange
from groupwise.grading.sandbox.frames import results_of
from groupwise.grading.sandbox.launch import START_SECONDS, Broker, Process
from groupwise.grading.sandbox.runs import Call, CallRun, Limits, Outcome, SandboxOptions
from groupwise.grading.sandbox.view import SYSTEM, View, installed_packages, minimal_view

HERE = Path(__file__).parent
FOLDER = "/tmp"
# Those of the launcher, in the count of the control group.
LAUNCHER_PROCESSES = 4


class Sandbox(Closing):
    """Runs programs that nobody has read. Thread-safe. Close it, or use it as a context manager.

    name: of the backend. unsafe: True for `none`, which isolates nothing. limits: of a run that names none.
    """

    def __init__(self, backend: Backend, options: SandboxOptions) -> None:
        self.backend = backend
        self.name = backend.name
        self.unsafe = backend.unsafe
        self.limits = Limits.of(options)
        packages = installed_packages(options.packages)
        self.view = minimal_view([*packages])
        places = ":".join(dict.fromkeys(map(str, packages.values())))
        self._env = {"PYTHONPATH": places, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"} if places else {}
        self.broker = Broker()
        if not self.broker.mounts and any(blocked(path) for path in self._exposed(self.view)):
            self.broker.uids = None
        backend.covers = self.broker.mounts
        self._running: set[Process] = set()
        self._workers: set[Process] = set()
        self._lock = threading.Lock()
        self._closed = False
        self._program = script("inside/limits.py", "inside/program.py")
        self._calls = script("wire_values.py", "inside/limits.py", "inside/calls.py")
        self._worker = script("inside/limits.py", "inside/worker.py")

    def run_program(self, program: str, stdin: str | bytes = b"", limits: Limits | None = None) -> Outcome:
        """Run a whole Python program with this standard input."""
        limits = limits or self.limits
        source = program.encode("utf-8", "surrogatepass")
        data = stdin.encode("utf-8", "surrogatepass") if isinstance(stdin, str) else stdin
        return self._run(self._program, [str(len(source))], source + data, limits)

    def call(self, program: str, entry_point: str, calls: Sequence[Call], limits: Limits | None = None) -> CallRun:
        """Load a program and call its function; limits are of all calls together. Nothing is compared inside.

        Raises ForeignError for arguments that are not made of exact builtins.
        """
        limits = limits or self.limits
        source = program.encode("utf-8", "surrogatepass")
        wanted = wire_values.encode([wire_values.encode(_as_data(call)) for call in calls])
        arguments = [str(len(source)), str(len(wanted)), entry_point]
        outcome = self._run(self._calls, arguments, source + wanted, limits)
        results, load_error = results_of(outcome, len(calls))
        return CallRun(results=results, outcome=outcome, load_error=load_error)

    def start_worker(
        self,
        argv: Sequence[str],
        limits: Limits | None = None,
        read_only: Sequence[Path] = (),
        env: Mapping[str, str] | None = None,
    ) -> Process:
        """Start a long-lived process; `argv[0]` may be `python` for the interpreter.

        It sees the interpreter with its standard library, `read_only`, and besides a few settings the environment
        `env`. Standard error begins with one line of ours. No wall clock is kept: kill it, and close it in any case.
        """
        view = minimal_view(read_only)
        argv = [view.python if argv[0] == "python" else argv[0], *argv[1:]]
        process, _ = self._start(self._worker, argv, limits or self.limits, view, env or {})
        with self._lock:
            self._workers.add(process)
        return process

    def close(self) -> None:
        """Kill what runs and free everything."""
        with self._lock:
            self._closed = True
            running = list(self._running)
        for process in running:
            process.kill()
        for process in list(self._workers):
            process.close()
        # Other threads free what they run themselves.
        deadline = time.monotonic() + START_SECONDS
        while self._running and time.monotonic() < deadline:
            time.sleep(0.002)
        self.broker.close()

    def _run(self, text: str, arguments: Sequence[str], stdin: bytes, limits: Limits) -> Outcome:
        process, ready = self._start(text, arguments, limits, self.view, self._env)
        try:
            return exchange(process, stdin, ready, limits, self.backend.exit_offset)
        finally:
            process.close()

    def _start(
        self, text: str, arguments: Sequence[str], limits: Limits, view: View, env: Mapping[str, str]
    ) -> tuple[Process, bytes]:
        if self._closed:
            raise RuntimeError("the sandbox is closed")
        ready = secrets.token_hex(8)
        # Where we may mount, an empty /tmp is put over that of the host.
        covered = self.broker.mounts and not self.unsafe and not view.has_part_in(FOLDER)
        host_folder = tempfile.mkdtemp(prefix="groupwise-") if self.backend.host_folder and not covered else ""
        folder = host_folder or FOLDER
        processes = 0 if self.backend.shares_users and self.broker.uids is None else limits.processes
        # Whole seconds, as the kernel counts; 0 for no limit.
        cpu_seconds = math.ceil(limits.cpu_seconds or 0)
        numbers = [limits.memory_mb, cpu_seconds, processes, limits.disk_mb, limits.open_files]
        command = [view.python, "-s", "-P", "-S", "-B", "-X", "utf8", "-c", text, ready, *map(str, numbers), folder]
        launch = self.backend.launch(view, [*command, *arguments], limits, folder, env)
        own = {folder: limits.disk_mb << 20} if self.backend.host_folder else {}
        process = self.broker.start(
            replace(launch, cover={**launch.cover, **own}),
            memory_bytes=limits.memory_mb << 20,
            processes=limits.processes + LAUNCHER_PROCESSES,
            folder=host_folder,
            expose=self._exposed(view),
            released=lambda process: self._forget(process, host_folder),
        )
        with self._lock:
            self._running.add(process)
            closed = self._closed
        if closed:
            process.close()
            raise RuntimeError("the sandbox is closed")
        return process, ready.encode() + b"\n"

    def _exposed(self, view: View) -> list[str]:
        paths = [*view.folders, *view.files, *self.backend.reached]
        return [path for path in paths if not path.startswith(("/usr/", "/etc/")) and path not in SYSTEM]

    def _forget(self, process: Process, folder: str) -> None:
        with self._lock:
            self._running.discard(process)
            self._workers.discard(process)
        if folder:
            shutil.rmtree(folder, ignore_errors=True)


def _as_data(call: Call) -> list[Any]:
    steps = [
        (name, None if args is None else list(args), dict(kwargs), fresh) for name, args, kwargs, fresh in call.steps
    ]
    return [list(call.args), dict(call.kwargs), dict(call.sources), steps]


def script(*names: str) -> str:
    """These files as one text, which the interpreter inside is given as an argument."""
    return "\n".join((HERE / name).read_text(encoding="utf-8") for name in names)
