"""Python asserts become calls with expected values: `assert f(2) == 4` is the call f(2) that has to return 4.

What surrounds the asserts (loops over cases, helper functions, seeded draws) is worked out by the test language.
"""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from groupwise.data.programs.assert_forms import Comparison, comparison_of, is_raises
from groupwise.data.programs.candidates import Call, Candidate, Instance, Pending, as_argument, chain_of, is_class
from groupwise.grading.code.language.interpreter import Interpreter
from groupwise.grading.code.language.library import copied
from groupwise.grading.code.language.literals import literal_error, literal_source
from groupwise.grading.code.language.names import ERRORS, Function, Module, Names, Unknown
from groupwise.grading.code.language.operations import UnsupportedError
from groupwise.problem import CallTest, Source, Step

RESULT = "result"
_MOST_CALLS = 2000
# Of budget, for reading one assert.
_ASSERT_WORK = 50


@dataclass(frozen=True, slots=True)
class AssertTests:
    """The calls that the asserts of a row became, and for each other assert the reason why it did not."""

    calls: tuple[CallTest, ...]
    refused: tuple[str, ...]


def read_asserts(body: Sequence[ast.stmt], candidates: Sequence[str], setup: Sequence[ast.stmt] = ()) -> AssertTests:
    """Reads the statements of a test. `candidates` are the names of the function under test; `setup` comes before."""
    names: Names = {}
    reader = _Reader()
    reader.read(setup, names)
    reader.refused.clear()
    names.update(dict.fromkeys(candidates, Candidate()))
    reader.read(body, names)
    return AssertTests(tuple(reader.calls), tuple(dict.fromkeys(reader.refused)))


class _Reader(Interpreter):
    def __init__(self) -> None:
        super().__init__()
        self.calls: list[CallTest] = []
        self.refused: list[str] = []

    def call(self, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if isinstance(function, Candidate):
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
            case ast.Assign(targets=[ast.Name() as target], value=ast.Call(func=ast.Name(id=name)) as made) if is_class(
                name, names
            ):
                names[target.id] = Instance(self._arguments(made, names))
            case ast.Assign(targets=[ast.Name() as target]) if self._depends(node.value, names):
                names[target.id] = self._pending(node.value, names)
            case ast.Expr(value=ast.Call() as used) if self._chain(used, names):
                pass
            case ast.With(items=[ast.withitem(context_expr=ast.Call() as block)], body=[ast.Expr(value=tried)]) if (
                is_raises(block) and self._depends(tried, names)
            ):
                self._record(Comparison(tried, ast.Constant(None)), names, raises=ast.unparse(block.args[0]))
            case ast.FunctionDef() if isinstance(names.get(node.name), Candidate):
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

    def _record(self, comparison: Comparison, names: Names, raises: str = "") -> None:
        found: list[Call] = []
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
        values = [value for value in distinct[0].args if not isinstance(value, Source)]
        steps = [value for step in distinct[0].steps for value in (*(step.args or ()), step.kwargs)]
        error = next(filter(None, map(literal_error, (*values, distinct[0].kwargs, *steps, expected))), "")
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
                steps=distinct[0].steps,
                as_python=not comparison.identical,
                raises=raises,
            )
        )

    def _pending(self, node: ast.expr, names: Names) -> Pending:
        found: list[Call] = []
        expression = self._on_result(node, names, found)
        if len(found) != 1:
            raise UnsupportedError("it combines two calls")
        return Pending(found[0], expression)

    def _depends(self, node: ast.AST, names: Names) -> bool:
        """Whether the function under test, or what it returned, occurs in a piece of code."""
        return any(
            isinstance(part, ast.Name) and isinstance(names.get(part.id), (Candidate, Pending, Instance))
            for part in ast.walk(node)
        )

    def _on_result(self, node: ast.expr, names: Names, found: list[Call]) -> ast.expr:
        """The expression with `result` for the call, and all else worked out; the call is added to those found."""
        match node:
            case ast.Name() if node.id not in names:
                return node
            case ast.Tuple() | ast.Slice():
                pass
            case _ if not self._depends(node, names):
                return _literal(self.evaluate(node, names))
        if steps := self._chain(node, names):
            found.append(steps)
            return ast.Name(RESULT, ast.Load())
        match node:
            case ast.Name():
                value = names[node.id]
                if isinstance(value, Pending):
                    found.append(value.call)
                    return value.expression
                raise UnsupportedError("it uses the function as a value")
            case ast.Call(func=ast.Name(id=name)) if isinstance(names.get(name), Candidate):
                found.append(self._arguments(node, names))
                return ast.Name(RESULT, ast.Load())
            case ast.ListComp(generators=[first]) | ast.GeneratorExp(generators=[first]) if not (
                self._depends(node.elt, names) or any(self._depends(condition, names) for condition in first.ifs)
            ):
                return self._turns_on_result(node, first, names, found)
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

    def _turns_on_result(
        self, node: ast.ListComp | ast.GeneratorExp, turns: ast.comprehension, names: Names, found: list[Call]
    ) -> ast.expr:
        """`[x for x in f(3)]`, which needs no other name of the test."""
        own = {part.id for part in ast.walk(turns.target) if isinstance(part, ast.Name)}
        read = {part.id for one in (node.elt, *turns.ifs) for part in ast.walk(one) if isinstance(part, ast.Name)}
        if read & names.keys() - own:
            raise UnsupportedError("it needs names of the test within a comprehension on what the function returned")
        over = self._on_result(turns.iter, names, found)
        return ast.ListComp(node.elt, [ast.comprehension(turns.target, over, turns.ifs, turns.is_async)])

    def _part_on_result(self, part: Any, names: Names, found: list[Call]) -> Any:
        if isinstance(part, ast.keyword):
            return ast.keyword(part.arg, self._on_result(part.value, names, found))
        return self._on_result(part, names, found) if isinstance(part, ast.expr) else part

    def _arguments(self, node: ast.Call, names: Names) -> Call:
        if any(self._depends(part, names) for part in (*node.args, *(keyword.value for keyword in node.keywords))):
            raise UnsupportedError("a call within the arguments of another")
        if any(keyword.arg is None for keyword in node.keywords):
            raise UnsupportedError("`**` in a call")
        kwargs = tuple((str(keyword.arg), copied(self.evaluate(keyword.value, names))) for keyword in node.keywords)
        # As they are at the call: what the test changes later is not seen by the function.
        args = tuple(as_argument(value) for value in self._elements(node.args, names))
        return Call(args, kwargs)

    def _chain(self, node: ast.expr, names: Names) -> Call | None:
        """Attributes and calls that begin with an object of the class under test; None for anything else."""
        root, parts = chain_of(node)
        match root:
            case ast.Name(id=name) if isinstance(found := names.get(name), Instance):
                instance = found
            case ast.Call(func=ast.Name(id=name)) if is_class(name, names):
                instance = Instance(self._arguments(root, names))
            case _:
                return None
        steps: list[Step] = []
        for name, call in parts:
            given = self._arguments(call, names) if call else None
            if given and any(isinstance(value, Source) for value in given.args):
                raise UnsupportedError("a function as the argument of a method")
            steps.append(Step(name, given.args if given else None, given.kwargs if given else (), fresh=not steps))
        return instance.take(steps) if steps else None


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
