"""A reward function that no worker can load: it is called in this process, where nothing ends a call that hangs."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from groupwise.grading.functions.function_worker import handler
from groupwise.grading.functions.returned import Returns
from groupwise.grading.workers import JSON, Failure, Result
from groupwise.grading.workers.child import failure_of
from groupwise.own_code import LoadError

IN_PROCESS = "object:"
"""What the path of such a function begins with, in front of its name."""


class InProcess:
    """Answers as a `WorkerPool` does, one call at a time, in a thread: no deadline, no limit on memory, no retries."""

    def __init__(self, function: Callable[..., Any], name: str, call: str, returns: Returns) -> None:
        self._load: Callable[[], Callable[[Any], Any]] = lambda: handler(function, name, call, returns)
        self._handler: Callable[[Any], Any] | None = None
        self._threads = ThreadPoolExecutor(1, thread_name_prefix=name)

    def submit(self, payload: JSON) -> Future[Result]:
        """Call the function. Failures are part of the result; the future itself raises only if it is cancelled."""
        return self._threads.submit(self._answer, payload)

    def close(self) -> None:
        """Cancel what waits. What runs is not ended."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _answer(self, payload: JSON) -> Result:
        try:
            if self._handler is None:
                self._handler = self._load()
            return Result(self._handler(payload))
        except LoadError as error:
            return Result(failure=Failure("not_started", str(error)))
        except Exception as error:
            failed = failure_of(error)
            return Result(failure=Failure(failed["kind"], failed["message"], data=failed.get("data")))
