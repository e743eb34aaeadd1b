"""A sandbox that answers what the test says, and keeps what it was asked."""

from collections.abc import Callable, Sequence
from typing import Any, cast

from groupwise.grading.sandbox.runs import Call, CallResult, CallRun, Limits, Outcome
from groupwise.grading.sandbox.sandbox import Sandbox

Answer = Callable[[str], Outcome]
EXITED = Outcome("exited", exit_code=0)


class FakeSandbox:
    """`outcomes(stdin)` answers programs; `results` answer calls, which end as `outcome`."""

    def __init__(
        self,
        outcomes: Answer | None = None,
        results: Sequence[CallResult] = (),
        outcome: Outcome = EXITED,
        load_error: str = "",
    ) -> None:
        self._outcomes = outcomes
        self._run = CallRun(tuple(results), outcome, load_error)
        self.programs: list[str] = []
        self.stdins: list[str] = []
        self.calls: list[tuple[str, tuple[Call, ...]]] = []

    def run_program(self, program: str, stdin: str = "", limits: Limits | None = None) -> Outcome:
        del limits
        assert self._outcomes is not None
        self.programs.append(program)
        self.stdins.append(stdin)
        return self._outcomes(stdin)

    def call(self, program: str, entry_point: str, calls: Sequence[Call], limits: Limits | None = None) -> CallRun:
        del limits
        self.programs.append(program)
        self.calls.append((entry_point, tuple(calls)))
        return self._run

    def as_sandbox(self) -> Sandbox:
        """For functions that take a real one."""
        return cast(Sandbox, self)


def returned(*values: Any) -> tuple[CallResult, ...]:
    """Results of calls that returned these values."""
    return tuple(CallResult("returned", value) for value in values)


def printed(text: str) -> Outcome:
    """A program that printed a text and ended well."""
    return Outcome("exited", exit_code=0, stdout=text.encode())
