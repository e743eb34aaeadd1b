"""math-verify on one pair of answers. It hands the text to SymPy: only for a process that can be killed."""

from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from typing import Any


def load(_: Any) -> Callable[[list[str]], str]:
    """The handler of a worker: [answer, reference answer] to `correct`, `wrong`, or `gold_unread`.

    Its own time limits are alarm signals, which do not interrupt what runs in C; here they are off.
    """
    library = import_module("math_verify")
    parse, verify = library.parse, library.verify

    @lru_cache(maxsize=1024)
    def reference(gold: str) -> list[Any]:
        return list(parse(boxed(gold), parsing_timeout=None))

    def judge(pair: list[str]) -> str:
        answer, gold = pair
        expected = reference(gold)
        if not expected:
            return "gold_unread"
        if not balanced(answer):
            return "wrong"
        found = parse(boxed(answer), parsing_timeout=None)
        return "correct" if found and verify(expected, found, timeout_seconds=None) else "wrong"

    return judge


def boxed(answer: str) -> str:
    """The form in which math-verify reads LaTeX whole; bare LaTeX it reads up to the first number."""
    return f"\\boxed{{{answer}}}"


def balanced(answer: str) -> bool:
    """Whether no brace of the answer could close the box around it."""
    depth = 0
    for char in answer.replace("\\\\", "").replace("\\{", "").replace("\\}", ""):
        depth += (char == "{") - (char == "}")
        if depth < 0:
            return False
    return depth == 0
