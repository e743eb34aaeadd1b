"""A second opinion on answers that the grader leaves undecided: math-verify, in processes killed at a deadline."""

import importlib.util
import math
from concurrent.futures import CancelledError, Future
from typing import TYPE_CHECKING

from groupwise.closing import Closing
from groupwise.errors import DataError
from groupwise.grading.records import Status, Verdict
from groupwise.grading.workers import Launch, LocalProcess, Result, WorkerPool

if TYPE_CHECKING:
    from groupwise.grading.sandbox.sandbox import Sandbox

METHOD = "math_verify"
_MODULES = ("math_verify", "latex2sympy2_extended", "antlr4")
# Address space that the interpreter with SymPy takes, at most.
_LIBRARIES_MB = 1024


class SecondGrader(Closing):
    """Compares answers with math-verify; close it, or use it as a context manager.

    It parses the text with SymPy, so it runs inside `sandbox` where one is given, otherwise in processes with a limit
    on memory alone; the verdict's detail says which. workers: processes. timeout_seconds: of one comparison.
    memory_mb: address space of a process, beyond what the libraries take.

    Raises DataError if math-verify is not installed.
    """

    def __init__(
        self,
        *,
        workers: int = 2,
        timeout_seconds: float = 2.0,
        memory_mb: int = 1024,
        sandbox: "Sandbox | None" = None,
    ) -> None:
        missing = [name for name in _MODULES if importlib.util.find_spec(name) is None]
        if missing:
            raise DataError(
                f"rewards.correctness.second_grader: math_verify needs the Python packages {', '.join(missing)}, which "
                "are not installed. Run: pip install 'groupwise[math-verify]'"
            )
        self.where = "in its own process"
        launch: Launch = LocalProcess
        paths: list[str] = []
        if sandbox is not None:
            from groupwise.grading.workers.sandboxed import import_paths, launch_in

            self.where = f"in a sandbox ({sandbox.name})"
            launch, paths = launch_in(sandbox, memory_mb=memory_mb + _LIBRARIES_MB), import_paths()
        self._pool = WorkerPool(
            "groupwise.grading.math.math_verify_worker:load",
            workers=workers,
            timeout_seconds=timeout_seconds,
            memory_mb=memory_mb if sandbox is None else 0,
            launch=launch,
            paths=paths,
        )

    def submit(self, answer: str, gold: str) -> Future[Verdict]:
        """Compare an answer with the reference answer; neither has a box around it.

        The status is `correct`, `wrong`, `timeout`, `undecided` where the comparison ended its process or ran out of
        memory, or `error` where it could not start or math-verify cannot read the reference answer.
        """
        verdict: Future[Verdict] = Future()
        verdict.set_running_or_notify_cancel()
        call = self._pool.submit([answer, gold])
        call.add_done_callback(lambda done: verdict.set_result(self._verdict(done, answer)))
        return verdict

    def close(self) -> None:
        """End its processes."""
        self._pool.close()

    def _verdict(self, call: Future[Result], answer: str) -> Verdict:
        try:
            result = call.result()
        except CancelledError:
            return Verdict("error", math.nan, answer, METHOD, detail="the grader was closed")
        status, detail = _status(result)
        score = math.nan if status == "error" else float(status == "correct")
        detail = f"{detail} ({self.where})" if detail else self.where
        return Verdict(status, score, answer, METHOD, 1000 * result.seconds, detail)


def _status(result: Result) -> tuple[Status, str]:
    failure = result.failure
    if failure is not None:
        known: dict[str, Status] = {"timeout": "timeout", "not_started": "error", "closed": "error"}
        return known.get(failure.kind, "undecided"), failure.message
    if result.value == "gold_unread":
        return "error", "math-verify cannot read the reference answer"
    return ("correct" if result.value == "correct" else "wrong"), ""
