"""A grader of programs for a model that writes none."""

from collections.abc import Callable

from groupwise.grading.code.code_grader import grade_code
from groupwise.grading.components.correctness import CodeOptions
from groupwise.grading.records import Response, Verdict
from groupwise.grading.sandbox.sandbox import Sandbox
from groupwise.problem import CodeTests


def passed(text: str) -> int:
    """How many of the six tests the program passes that stands for a completion."""
    return len(text) % 7


def writes_programs(seconds: float = 0.0) -> Callable[[Response, CodeTests, Sandbox, CodeOptions], Verdict]:
    """The grader of programs for a model that knows only sums: each completion stands for a program.

    seconds: that every call of it takes.
    """

    def judge(response: Response, tests: CodeTests, sandbox: Sandbox, options: CodeOptions) -> Verdict:
        known = {call.args: call.expected for call in tests.calls[: passed(response.text)]}
        program = f"import time\ndef {tests.entry_point}(*n):\n    time.sleep({seconds})\n    return {known!r}.get(n)"
        return grade_code(Response((), f"```python\n{program}\n```"), tests, sandbox, options)

    return judge
