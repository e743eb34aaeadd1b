"""Functions called in their own processes, which are killed when they take too long."""

from groupwise.grading.workers.launched import Launch, Launched, LocalProcess
from groupwise.grading.workers.pool import WorkerPool
from groupwise.grading.workers.process import JSON, Failure, Result

__all__ = ["JSON", "Failure", "Launch", "Launched", "LocalProcess", "Result", "WorkerPool"]
