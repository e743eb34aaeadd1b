"""Python asserts become calls with expected values: `assert f(2) == 4` is the call f(2) that has to return 4.

What surrounds the asserts (loops over cases, helper functions, seeded draws) is worked out by the test language.
"""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from groupwise.data.programs.assert_forms import Comparison, comparison_of
from groupwise.grading.code.language.interpreter import Interpreter
from groupwise.grading.code.language.library import copied
from groupwise.grading.code.language.literals import literal_error, literal_source
from groupwise.grading.code.language.names import ERRORS, Function, Module, Names, Unknown
from groupwise.grading.code.language.operations import UnsupportedError
from groupwise.problem import CallTest

RESULT = "result"
_MOST_CALLS = 2000
# Of budget, for reading one assert.
_ASSERT_WORK = 50


@dataclass(frozen=True, slots=True)
class AssertTests:
    """The calls that the asserts of a row became, and for each other assert the reason why it did not."""

    calls: tuple[CallTest, ...]
    refused: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Candidate:
    """The function under test."""


@dataclass(frozen=True, slots=True)
class _Call:
    args: tuple[Any, ...]
    kwargs: tuple[tuple[str, Any], ...]


@dataclass(frozen=True, slots=True)
class _Pending:
    """What a name means that depends on what the function returned: an expression on `result`."""

    call: _Call
    expression: ast.expr


def read_asserts(body: Sequence[ast.stmt], candidates: Sequence[str], setup: Sequence[ast.stmt] = ()) -> AssertTests:
    """Reads the statements of a test. `candidates` are the names of the function under test; `setup` comes before."""
    names: Names = {}
    reader = _Reader()
    reader.read(setup, names)
    reader.refused.clear()
    names.update(dict.fromkeys(candidates, _Candidate()))
    reader.read(body, names)
    return AssertTests(tuple(reader.calls), tuple(dict.fromkeys(reader.refused)))


class _Reader(Interpreter):
    def __init__(self) -> None:
        super().__init__()
        self.calls: list[CallTest] = []
        self.refused: list[str] = []

    def call(self, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if isinstance(function, _Candidate):
            raise UnsupportedError("it uses what the function returned")
        return super().call(function, args, kwargs)

    def read(self, body: Sequence[ast.stmt], names: Names) -> None:
        for node in body:
            self.statement(node, names)

    def statement(self, node: ast.stmt, names: Names) -> None:
        if self._depth:
            super().statement(node, names)
            return
        try:
            self._top_statement(node, names)
        except ERRORS as error:
            reason = str(error) if isinstance(error, UnsupportedError) else f"{type(error).__name__}: {error}"
            if self._depends(node, names) or any(isinstance(part, ast.Assert) for part in ast.walk(node)):
                self.refused.append(f"`{_first_line(node)}`: {reason}")
            for name in _assigned(node):
                names[name] = Unknown(reason)

    def _top_statement(self, node: ast.stmt, names: Names) -> None:
        match node:
            case ast.Assert():
                self._assert(node.test, names)
            case ast.Assign(targets=[ast.Name() as target]) if self._depends(node.value, names):
                names[target.id] = self._pending(node.value, names)
            case ast.FunctionDef() if isinstance(names.get(node.name), _Candidate):
                raise UnsupportedError(f"the test defines `{node.name}` itself")
            case ast.Return() | ast.Expr(value=ast.Constant() | ast.Name()):
                pass
            case ast.Try() | ast.With():
                raise UnsupportedError(f"a `{type(node).__name__.lower()}` statement")
            case ast.If(test=head) | ast.While(test=head) | ast.For(iter=head) if self._depends(head, names):
                raise UnsupportedError("it uses what the function returned")
            case ast.Expr() | ast.Assign() | ast.AugAssign() if self._depends(node, names):
                raise UnsupportedError("it uses what the function returned")
            case _:
                super().statement(node, names)

    def _assert(self, test: ast.expr, names: Names) -> None:
        """An assert on the function's result is recorded; one on anything else says nothing about the function."""
        self.budget.charge(_ASSERT_WORK)
        if not self._depends(test, names):
            if not self.evaluate(test, names):
                raise UnsupportedError("it fails whatever the function does")
            return
        for part, inner in self._parts(test, names):
            self._record(comparison_of(part, partial(self._depends, names=inner)), inner)

    def _parts(self, test: ast.expr, names: Names) -> Iterator[tuple[ast.expr, Names]]:
        """`a and b` and `all(a for …)` are several asserts."""
        match test:
            case ast.BoolOp(op=ast.And()):
                for part in test.values:
                    yield from self._parts(part, names)
            case ast.Call(func=ast.Name(id="all"), args=[ast.GeneratorExp() | ast.ListComp() as turns]):
                for inner in self.turns(turns.generators, names):
                    yield from self._parts(turns.elt, inner)
            case _:
                if self._depends(test, names) or not self.evaluate(test, names):
                    yield test, names

    def _record(self, comparison: Comparison, names: Names) -> None:
        found: list[_Call] = []
        view = self._on_result(comparison.view, names, found)
        expected = self.evaluate(comparison.expected, names)
        bounds = [self.evaluate(bound, names) for bound in (comparison.tolerance, comparison.relative_tolerance)]
        distinct = [call for number, call in enumerate(found) if call not in found[:number]]
        if not distinct:
            raise UnsupportedError("it fails whatever the function does")
        if len(distinct) > 1:
            raise UnsupportedError("it compares two calls with each other")
        if _is_tautology(view):
            raise UnsupportedError("it compares a call with itself")
        error = next(filter(None, map(literal_error, (*distinct[0].args, distinct[0].kwargs, expected))), "")
        if error:
            raise UnsupportedError(error)
        if len(self.calls) >= _MOST_CALLS:
            self.budget.left = 0
            raise UnsupportedError(f"more than {_MOST_CALLS} calls")
        source = ast.unparse(ast.fix_missing_locations(view))
        self.calls.append(
            CallTest(
                distinct[0].args,
                expected,
                distinct[0].kwargs,
                tolerance=float(bounds[0]),
                relative_tolerance=float(bounds[1]),
                view="" if source == RESULT else source,
            )
        )

    def _pending(self, node: ast.expr, names: Names) -> _Pending:
        found: list[_Call] = []
        expression = self._on_result(node, names, found)
        if len(found) != 1:
            raise UnsupportedError("it combines two calls")
        return _Pending(found[0], expression)

    def _depends(self, node: ast.AST, names: Names) -> bool:
        """Whether the function under test, or what it returned, occurs in a piece of code."""
        return any(
            isinstance(part, ast.Name) and isinstance(names.get(part.id), (_Candidate, _Pending))
            for part in ast.walk(node)
        )

    def _on_result(self, node: ast.expr, names: Names, found: list[_Call]) -> ast.expr:
        """The expression with `result` for the call, and all else worked out; the call is added to those found."""
        match node:
            case ast.Name() if node.id not in names:
                return node
            case ast.Tuple() | ast.Slice():
                pass
            case _ if not self._depends(node, names):
                return _literal(self.evaluate(node, names))
        match node:
            case ast.Name():
                value = names[node.id]
                if isinstance(value, _Pending):
                    found.append(value.call)
                    return value.expression
                raise UnsupportedError("it uses the function as a value")
            case ast.Call(func=ast.Name(id=name)) if isinstance(names.get(name), _Candidate):
                found.append(self._arguments(node, names))
                return ast.Name(RESULT, ast.Load())
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp() | ast.Lambda() | ast.JoinedStr():
                raise UnsupportedError("it calls the function within a comprehension, lambda or f-string")
        parts: dict[str, Any] = {}
        for name, part in ast.iter_fields(node):
            if isinstance(part, ast.expr):
                is_function = isinstance(node, ast.Call) and name == "func" and not self._depends(part, names)
                parts[name] = _function(part, names) if is_function else self._on_result(part, names, found)
            elif isinstance(part, list):
                parts[name] = [self._part_on_result(item, names, found) for item in part]
            else:
                parts[name] = part
        return type(node)(**parts)

    def _part_on_result(self, part: Any, names: Names, found: list[_Call]) -> Any:
        if isinstance(part, ast.keyword):
            return ast.keyword(part.arg, self._on_result(part.value, names, found))
        return self._on_result(part, names, found) if isinstance(part, ast.expr) else part

    def _arguments(self, node: ast.Call, names: Names) -> _Call:
        if any(self._depends(part, names) for part in (*node.args, *(keyword.value for keyword in node.keywords))):
            raise UnsupportedError("a call within the arguments of another")
        if any(keyword.arg is None for keyword in node.keywords):
            raise UnsupportedError("`**` in a call")
        kwargs = tuple((str(keyword.arg), copied(self.evaluate(keyword.value, names))) for keyword in node.keywords)
        # As they are at the call: what the test changes later is not seen by the function.
        args = tuple(copied(value) for value in self._elements(node.args, names))
        return _Call(args, kwargs)


def _function(node: ast.expr, names: Names) -> ast.expr:
    """The name of a function that a view may call: of the library, or a helper that is kept with the tests."""
    match node:
        case ast.Name(id=name) if name not in names or isinstance(names[name], Function):
            return node
        case ast.Attribute(value=ast.Name(id=name), attr=member) if isinstance(names.get(name), Module):
            return ast.Attribute(ast.Name(names[name].name, ast.Load()), member, ast.Load())
    raise UnsupportedError(f"`{ast.unparse(node)}` on what the function returned")


def _is_tautology(view: ast.expr) -> bool:
    match view:
        case ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]):
            return ast.dump(left) == ast.dump(right)
    return False


def _literal(value: Any) -> ast.expr:
    error = literal_error(value)
    if error:
        raise UnsupportedError(error)
    return ast.parse(literal_source(value), mode="eval").body


def _assigned(node: ast.stmt) -> list[str]:
    """The names that a statement would have bound."""
    return [part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)]


def _first_line(node: ast.stmt) -> str:
    line = ast.unparse(node).splitlines()[0]
    return line if len(line) <= 80 else line[:80] + "…"
