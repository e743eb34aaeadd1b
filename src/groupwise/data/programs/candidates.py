"""What a test does with the function or class under test: its calls, and objects that are made of it."""

import ast
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from groupwise.grading.code.language.library import BUILTINS, ORDERING, copied
from groupwise.grading.code.language.names import Function, Names
from groupwise.problem import Source, Step


@dataclass(frozen=True, slots=True)
class Candidate:
    """The function under test."""


@dataclass(frozen=True, slots=True)
class Call:
    args: tuple[Any, ...]
    kwargs: tuple[tuple[str, Any], ...]
    steps: tuple[Step, ...] = ()


@dataclass(slots=True)
class Instance:
    """An object of the class under test, with what the test has done with it so far."""

    call: Call

    def take(self, steps: Sequence[Step]) -> Call:
        """The call behind these further steps, which are kept."""
        self.call = replace(self.call, steps=(*self.call.steps, *steps))
        return self.call


@dataclass(frozen=True, slots=True)
class Pending:
    """What a name means that depends on what the function returned: an expression on `result`."""

    call: Call
    expression: ast.expr


def is_class(name: str, names: Names) -> bool:
    return name[:1].isupper() and isinstance(names.get(name), Candidate)


def chain_of(node: ast.expr) -> tuple[ast.expr, list[tuple[str, ast.Call | None]]]:
    """What `a.b(1).c` begins with, and its attributes in order, each with its call where it is called."""
    parts: list[tuple[str, ast.Call | None]] = []
    while True:
        match node:
            case ast.Call(func=ast.Attribute(value=inner, attr=name)):
                parts.append((name, node))
            case ast.Attribute(value=inner, attr=name):
                parts.append((name, None))
            case _:
                return node, parts[::-1]
        node = inner


def as_argument(value: Any) -> Any:
    """A copy of a value, or the source of a function without names of its test."""
    if isinstance(value, Function) and isinstance(value.node, ast.Lambda):
        own = {parameter.arg for parameter in value.node.args.args}
        read = {part.id for part in ast.walk(value.node) if isinstance(part, ast.Name)} - own
        if not read & value.names.keys():
            return Source(ast.unparse(value.node))
    if callable(value) and value in (*BUILTINS.values(), *ORDERING.values()):
        return Source(next(name for name, one in (*BUILTINS.items(), *ORDERING.items()) if one is value))
    return copied(value)
