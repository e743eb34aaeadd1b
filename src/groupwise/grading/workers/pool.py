"""A pool of worker processes that are killed when a call takes too long."""

import json
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from queue import SimpleQueue

from groupwise.closing import Closing
from groupwise.grading.workers.launched import Launch, LocalProcess
from groupwise.grading.workers.process import JSON, Failure, Result, WorkerProcess, WorkerSpec

_CLOSED = Failure("closed", "the pool of worker processes was closed")


@dataclass(frozen=True, slots=True)
class _Job:
    payload: bytes
    future: Future[Result]


class WorkerPool(Closing):
    """Calls a function in worker processes, `workers` at a time.

    target: `module:factory`. In each process `factory(init)` is called once and gives the function, which is then
    called with the payload of each `submit`. Payloads and values are JSON; nothing is pickled.
    timeout_seconds: of one call, counted from when a process takes it up. The process is then killed with everything
    that it started, and replaced. No signal reaches the caller's process.
    memory_mb: address space beyond what a process has once the target is loaded; 0 for no limit.
    retries: further attempts after a failure.
    startup_seconds: for loading the target.
    paths: put in front of the import path of the processes.
    launch: starts a command line, for example inside a sandbox.
    eager: start the processes at once instead of at the first call.
    output_bytes: so much of what the function prints is passed on to standard error, in all; the end of it is part of
    a failure in any case.
    """

    def __init__(
        self,
        target: str,
        *,
        workers: int,
        timeout_seconds: float,
        memory_mb: int,
        retries: int = 0,
        init: JSON = None,
        startup_seconds: float = 120.0,
        paths: Sequence[str] = (),
        launch: Launch = LocalProcess,
        eager: bool = False,
        output_bytes: int = 0,
    ) -> None:
        if workers < 1:
            raise ValueError(f"a pool needs at least one worker, not {workers}")
        forward = _Forward(target, output_bytes)
        first = {"target": target, "init": init, "memory_mb": memory_mb, "paths": list(paths)}
        self._spec = WorkerSpec(json.dumps(first), startup_seconds, launch, forward)
        self._timeout_seconds = timeout_seconds
        self._retries = retries
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._closed = False
        self._processes: set[WorkerProcess] = set()
        # A process is started by the thread that serves it: Linux ends it when that thread ends.
        self._threads = [
            threading.Thread(target=self._serve, args=(eager,), name=f"{target} {n}", daemon=True)
            for n in range(workers)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, payload: JSON) -> Future[Result]:
        """Call the function. Failures are part of the result; the future itself raises only if it is cancelled.

        Raises TypeError if the payload is not JSON (NaN and Infinity are taken), RuntimeError after `close`.
        """
        job = _Job(json.dumps(payload).encode(), Future())
        with self._lock:
            if self._closed:
                raise RuntimeError("the pool of worker processes is closed")
            self._jobs.put(job)
        return job.future

    def close(self) -> None:
        """Cancel what waits, kill what runs, and leave neither process nor file descriptor behind."""
        with self._lock:
            if not self._closed:
                self._closed = True
                for _ in self._threads:
                    self._jobs.put(None)
            running = list(self._processes)
        for process in running:
            process.kill()
        for thread in self._threads:
            thread.join()

    def _serve(self, eager: bool) -> None:
        process = self._start()[0] if eager else None
        while (job := self._jobs.get()) is not None:
            if self._closed:
                job.future.cancel()
            elif job.future.set_running_or_notify_cancel():
                try:
                    process, result = self._answer(process, job.payload)
                except Exception as error:  # Nobody may wait for ever for an answer.
                    process, result = None, Result(failure=Failure("broken", f"the pool failed: {error!r}"))
                job.future.set_result(result)
                failed = result.failure is not None and result.failure.kind != "not_started"
                if process is None and failed and not self._closed:
                    process = self._start()[0]
        if process is not None:
            self._stop(process)

    def _answer(self, process: WorkerProcess | None, payload: bytes) -> tuple[WorkerProcess | None, Result]:
        attempt = 0
        while True:
            attempt += 1
            process, result = self._attempt(process, payload)
            if result.failure is None or self._closed or attempt > self._retries:
                return process, replace(result, attempts=attempt)

    def _attempt(self, process: WorkerProcess | None, payload: bytes) -> tuple[WorkerProcess | None, Result]:
        if process is not None and not process.usable:
            self._stop(process)
            process = None
        if process is None:
            process, failure = self._start()
            if process is None:
                return None, Result(failure=_CLOSED if self._closed else failure)
        result = process.call(payload, self._timeout_seconds)
        if not process.usable or (result.failure is not None and result.failure.kind == "memory"):
            self._stop(process)
            process = None
        if result.failure is not None and self._closed:
            result = Result(failure=_CLOSED)
        return process, result

    def _start(self) -> tuple[WorkerProcess | None, Failure | None]:
        try:
            process = WorkerProcess(self._spec)
        except Exception as error:
            return None, Failure("not_started", f"no process could be started: {error}")
        with self._lock:
            self._processes.add(process)
            closed = self._closed
        failure = _CLOSED if closed else process.start()
        if failure is None:
            return process, None
        self._stop(process)
        return None, failure

    def _stop(self, process: WorkerProcess) -> None:
        with self._lock:
            self._processes.discard(process)
        process.close()


class _Forward:
    """Passes on to standard error what the processes print, up to a bound."""

    def __init__(self, name: str, limit_bytes: int) -> None:
        self._name = name
        self._left = limit_bytes
        self._lock = threading.Lock()

    def __call__(self, output: bytes) -> None:
        with self._lock:
            if self._left <= 0:
                return
            text = output[: self._left].decode(errors="replace")
            self._left -= len(output)
            if self._left <= 0:
                text += f"\n(further output of {self._name} is not shown)\n"
            with suppress(OSError, ValueError):  # Standard error may be closed.
                sys.stderr.write(text)
                sys.stderr.flush()
