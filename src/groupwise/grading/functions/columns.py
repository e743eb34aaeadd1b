"""Which columns of the problems a reward function reads, as far as its source says so."""

import ast
import difflib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from groupwise.grading.functions.samples import row_of
from groupwise.problem import Problem


def unknown_columns(path: str, problems: Iterable[Problem], function: Callable[..., Any] | None = None) -> str:
    """A remark on columns that a function reads and that no problem has; empty without one.

    What is read is `row["NAME"]` and `row.get("NAME")` in the source of `FILE.py:FUNCTION`, which is not run, or of
    `function`. Nothing is said of code that stands elsewhere.
    """
    wanted = columns_read(path, function)
    if not wanted:
        return ""
    known = {name for problem in problems for name in row_of(problem)}
    parts = []
    for name in sorted(wanted - known):
        near = difflib.get_close_matches(name, known, 1)
        parts.append(f"row[{name!r}]" + (f" (did you mean {near[0]!r}?)" if near else ""))
    if not parts:
        return ""
    return f"reads {', '.join(parts)}, which no problem has; they have {', '.join(sorted(known))}"


def columns_read(path: str, function: Callable[..., Any] | None = None) -> set[str]:
    """The columns that the source names."""
    file, _, name = path.rpartition(":")
    if function is not None:
        code = getattr(function, "__code__", None)
        file, name = getattr(code, "co_filename", ""), getattr(function, "__name__", "")
    try:
        tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError):
        return set()
    found = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef) and n.name == name]
    return {column for part in found for node in ast.walk(part) if (column := _column(node))}


def _column(node: ast.AST) -> str:
    match node:
        case ast.Subscript(value=owner, slice=ast.Constant(value=str(name))):
            return name if _is_row(owner) else ""
        case ast.Call(func=ast.Attribute(value=owner, attr="get"), args=[ast.Constant(value=str(name)), *_]):
            return name if _is_row(owner) else ""
        case _:
            return ""


def _is_row(node: ast.AST) -> bool:
    """`row`, or one of the rows that a function of whole groups is given."""
    return (isinstance(node, ast.Name) and node.id == "row") or (
        isinstance(node, ast.Subscript) and _is_row(node.value)
    )
