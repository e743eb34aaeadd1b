"""What a problem is, and the tests of one that asks for a program."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

GYM_PREFIX = "reasoning_gym:"
"""What the name of a source of problems begins with that reasoning-gym makes."""

GraderName = Literal["", "number", "literal"]
"""How an answer is compared: as mathematics, as a written number, or as written."""


@dataclass(frozen=True, slots=True)
class StdinTest:
    """A whole program reads `stdin` and has to print `stdout`."""

    stdin: str
    stdout: str


@dataclass(frozen=True, slots=True)
class Source:
    """An argument that is no value but a function, as a Python expression such as `lambda x: x + 1`."""

    text: str


@dataclass(frozen=True, slots=True)
class Step:
    """What a test does with an object that it made: it reads the attribute `name`, and calls it unless args is None.

    fresh: on the object itself; otherwise on what the step before gave.
    """

    name: str
    args: tuple[Any, ...] | None = None
    kwargs: tuple[tuple[str, Any], ...] = ()
    fresh: bool = True


@dataclass(frozen=True, slots=True)
class CallTest:
    """A function is called with these arguments and has to return `expected`; Python literals but for `Source`.

    tolerance, relative_tolerance: two floats count as equal within the larger of the absolute difference and the share
    of the larger magnitude; 0 for exact. view: an expression of `grading.code.language` on `result`, which is
    what was returned, such as `sorted(result)`; its value is compared in place of the returned one. Empty for the
    returned value itself. steps: taken with what the call returned; the last one gives what is looked at. as_python:
    an assert compares, for which 1 is True; otherwise types have to be the same. raises: the
    exception that has to be raised in place of a value; empty for none.
    """

    args: tuple[Any, ...]
    expected: Any
    kwargs: tuple[tuple[str, Any], ...] = ()
    tolerance: float = 0.0
    relative_tolerance: float = 0.0
    view: str = ""
    steps: tuple[Step, ...] = ()
    as_python: bool = False
    raises: str = ""


@dataclass(frozen=True, slots=True)
class CodeTests:
    """What a program is graded by: `calls` of the function `entry_point`, or `stdin` runs of the whole program.

    preamble: code put before the candidate's, such as the imports and helpers that the problem's text gives.
    beginning: the head of the function that the text shows unfinished, for answers that only continue it. helpers:
    functions that views use, in the test language.
    usual_imports: those who made the tests provide the usual imports, as LeetCode does.
    weak_oracle: why these tests say less than those they were made from; empty where they say the same.
    """

    stdin: tuple[StdinTest, ...] = ()
    calls: tuple[CallTest, ...] = ()
    entry_point: str = ""
    preamble: str = ""
    beginning: str = ""
    helpers: str = ""
    weak_oracle: str = ""
    usual_imports: bool = False


class Message(NamedTuple):
    """One turn of a chat."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem with a checkable answer.

    `messages` is the conversation up to the model's turn, without any template; for most files it is one user message.
    `source` says where the problem came from, as `file:line` or `generator:index`, so that an error can name it.
    `tests` are of a problem that asks for a program; its answer is empty. `row` is everything that the file says of it,
    for reward functions of the user's own. `grader` says how the answer is compared where the source knows better
    than the configuration. `scorer` is set where only the source's own scorer can tell: `module:function`, which is
    loaded in a sandbox and reads the row.
    """

    id: str
    messages: tuple[Message, ...]
    answer: str
    domain: str = "math"
    source: str = ""
    tests: CodeTests | None = None
    row: Mapping[str, Any] = field(default_factory=dict)
    grader: GraderName = ""
    scorer: str = ""

    @property
    def place(self) -> str:
        """What names the problem to people: its source, or its id where it has none."""
        return self.source or self.id

    @property
    def question(self) -> str:
        """The text of the last user message."""
        return next((m.content for m in reversed(self.messages) if m.role == "user"), "")
