"""Tests of a program, as data: what goes in and what has to come out. Nothing here is ever run."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class StdinTest:
    """A whole program reads `stdin` and has to print `stdout`."""

    stdin: str
    stdout: str


@dataclass(frozen=True, slots=True)
class CallTest:
    """A function is called with these arguments and has to return `expected`; all of it Python literals.

    tolerance, relative_tolerance: two floats count as equal within the larger of the absolute difference and the share
    of the larger magnitude; 0 for exact. view: an expression of `grading.code.language` on `result`, which stands for
    what was returned, such as `sorted(result)`; its value is compared in place of the returned one. Empty for the
    returned value itself.
    """

    args: tuple[Any, ...]
    expected: Any
    kwargs: tuple[tuple[str, Any], ...] = ()
    tolerance: float = 0.0
    relative_tolerance: float = 0.0
    view: str = ""


@dataclass(frozen=True, slots=True)
class CodeTests:
    """What a program is judged by: `calls` of the function `entry_point`, or `stdin` runs of the whole program.

    preamble: code put before the candidate's, such as the imports and helpers that the problem's text gives.
    beginning: the head of the function that the text shows unfinished, for answers that only continue it. helpers:
    functions that views use, in the test language.
    weak_oracle: why these tests say less than those they were made from; empty where they say the same.
    """

    stdin: tuple[StdinTest, ...] = ()
    calls: tuple[CallTest, ...] = ()
    entry_point: str = ""
    preamble: str = ""
    beginning: str = ""
    helpers: str = ""
    weak_oracle: str = ""
