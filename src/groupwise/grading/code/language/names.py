"""What names of the test language can mean besides plain values, and what can go wrong."""

import ast
from dataclasses import dataclass
from typing import Any

from groupwise.grading.code.language.operations import UnsupportedError

# What an operation on values of the wrong kind or size raises.
ERRORS = (
    UnsupportedError,
    TypeError,
    ValueError,
    ArithmeticError,
    LookupError,
    AttributeError,
    RecursionError,
    MemoryError,
)

Names = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Function:
    """A function or lambda that the tests define, with the names around it."""

    node: ast.FunctionDef | ast.Lambda
    names: Names


@dataclass(frozen=True, slots=True)
class Module:
    """An imported module of the library."""

    name: str


@dataclass(frozen=True, slots=True)
class Method:
    """A method of a value, not called yet."""

    value: Any
    name: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """The value of a name that could not be worked out, with the reason."""

    reason: str
