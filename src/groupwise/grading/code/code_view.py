"""What a test looks at in place of the returned value, such as `sorted(result)`."""

import ast
from functools import lru_cache
from typing import Any

from groupwise.grading.code.language.interpreter import Interpreter, parse_tests
from groupwise.grading.code.language.library import MODULES, copied
from groupwise.grading.code.language.names import ERRORS, Module, Names

_TRUTH = "bool(result)"
# Objects of these types are always true; they cannot leave the sandbox, and asserts on their truth are common.
_ALWAYS_TRUE = ("re.Match",)


class Views:
    """Works out the views of the tests of one problem, whose helper functions are `helpers`."""

    def __init__(self, helpers: str) -> None:
        self._helpers = helpers

    def value(self, view: str, result: Any) -> tuple[Any, str]:
        """The view's value on a returned one; or why there is none, as where the result is of the wrong kind."""
        interpreter = Interpreter()
        try:
            names: Names = {module: Module(module) for module in MODULES}
            interpreter.execute(_statements(self._helpers), names)
            return interpreter.evaluate(_expression(view), {**names, "result": copied(result)}), ""
        except ERRORS as error:
            return None, f"{view} fails: {type(error).__name__}: {error}"[:200]

    def accepts_foreign(self, view: str, detail: str) -> bool:
        """Whether a test asks only for the truth of an object of a type that is always true."""
        return view == _TRUTH and detail.endswith(_ALWAYS_TRUE)


@lru_cache(maxsize=256)
def _statements(helpers: str) -> list[ast.stmt]:
    return parse_tests(helpers).body


@lru_cache(maxsize=4096)
def _expression(view: str) -> ast.expr:
    return ast.parse(view, mode="eval").body
