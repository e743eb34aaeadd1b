"""Answers that only the source of their problem can score, by its own scorer inside a sandbox."""

import math
from concurrent.futures import CancelledError, Future

from groupwise.closing import Closing
from groupwise.errors import DataError
from groupwise.grading.records import Status, Verdict
from groupwise.grading.sandbox.sandbox import Sandbox
from groupwise.grading.workers import Result, WorkerPool
from groupwise.grading.workers.sandboxed import import_paths, launch_in
from groupwise.problem import Problem

_ANSWER_CHARACTERS = 1 << 16
# Address space that the interpreter with a scorer's libraries takes, at most.
_LIBRARIES_MB = 2048
_STATUS: dict[str, Status] = {
    "raised": "wrong",
    "timeout": "timeout",
    "not_started": "error",
    "closed": "error",
    "other_problem": "error",
}


class SourceScorer(Closing):
    """Scores answers with the scorer of their source; close it, or use it as a context manager.

    Some scorers evaluate the answer, so that it could run any program: they run inside `sandbox` or not at all.
    target: the `scorer` of the problems. workers: processes. timeout_seconds: of one answer. memory_mb: address space
    beyond what the libraries take.

    Raises DataError if the sandbox isolates nothing.
    """

    def __init__(
        self,
        target: str,
        sandbox: Sandbox,
        *,
        workers: int = 1,
        timeout_seconds: float = 5.0,
        memory_mb: int = 512,
    ) -> None:
        if sandbox.unsafe:
            raise DataError(
                "some data sets of reasoning_gym can only be graded by their own scorers, which evaluate the answer "
                f"as a program, and sandbox.backend: {sandbox.name} isolates nothing. Choose another sandbox, or a "
                "data set whose answers are compared as written, such as reasoning_gym:basic_arithmetic"
            )
        self._pool = WorkerPool(
            target,
            workers=workers,
            timeout_seconds=timeout_seconds,
            memory_mb=0,
            launch=launch_in(sandbox, memory_mb=_LIBRARIES_MB + memory_mb, env={"MPLCONFIGDIR": "/tmp"}),
            paths=import_paths(),
        )

    def submit(self, problem: Problem, answer: str) -> Future[Verdict]:
        """Score an answer, already extracted. Only a full score is right: the partial scores of some are noise.

        The status is `correct`, `wrong` (also where the scorer raised an exception, as some do on what they cannot
        read), `timeout`, `undecided` where the answer ended the scorer's process or took its memory, or `error` where
        it could not start or makes another problem than was asked.
        """
        verdict: Future[Verdict] = Future()
        verdict.set_running_or_notify_cancel()
        payload = {"row": dict(problem.row), "answer": answer[:_ANSWER_CHARACTERS]}
        call = self._pool.submit(payload)
        call.add_done_callback(lambda done: verdict.set_result(_verdict(done, answer)))
        return verdict

    def close(self) -> None:
        """End its processes."""
        self._pool.close()


def _verdict(call: Future[Result], answer: str) -> Verdict:
    try:
        result = call.result()
    except CancelledError:
        return Verdict("error", math.nan, answer, "scorer", detail="the scorer was closed")
    failure = result.failure
    if failure is None:
        right = result.value == 1.0
        status: Status = "correct" if right else "wrong"
        return Verdict(status, float(right), answer, "scorer", 1000 * result.seconds, f"scored {result.value:g}")
    status = _STATUS.get(failure.kind, "undecided")
    score = math.nan if status == "error" else 0.0
    return Verdict(status, score, answer, "scorer", 1000 * result.seconds, f"{failure.kind}: {failure.message}")
