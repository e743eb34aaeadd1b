"""Walks through statements of the test language."""

import ast
from collections.abc import Iterator, Sequence

from groupwise.grading.code.language.expressions import Expressions, ReturnError, shown
from groupwise.grading.code.language.library import MODULES
from groupwise.grading.code.language.names import Function, Module, Names, Unknown
from groupwise.grading.code.language.operations import UnsupportedError, binary


class _BreakError(Exception):
    pass


class _ContinueError(Exception):
    pass


class Interpreter(Expressions):
    """Expressions and statements. `evaluate` and `execute` raise one of ERRORS where that is not possible."""

    def execute(self, statements: Sequence[ast.stmt], names: Names) -> None:
        """Carries out statements, which may change `names`."""
        for statement in statements:
            self.budget.charge(1)
            self.statement(statement, names)

    def statement(self, node: ast.stmt, names: Names) -> None:
        """Carries out one statement."""
        match node:
            case ast.Pass():
                pass
            case ast.Expr():
                self.evaluate(node.value, names)
            case ast.Assign():
                value = self.evaluate(node.value, names)
                for target in node.targets:
                    self.bind(target, value, names)
            case ast.AnnAssign(value=ast.expr()):
                assert node.value is not None
                self.bind(node.target, self.evaluate(node.value, names), names)
            case ast.AugAssign(target=ast.Name(id=name)):
                names[name] = binary(node.op, self.look_up(name, names), self.evaluate(node.value, names), self.budget)
            case ast.FunctionDef():
                names[node.name] = Function(node, names)
            case ast.Return():
                raise ReturnError(None if node.value is None else self.evaluate(node.value, names))
            case ast.If():
                self.execute(node.body if self.evaluate(node.test, names) else node.orelse, names)
            case ast.For():
                self._loop(self._bound_turns(node, names), node, names)
            case ast.While():
                self._loop(iter(lambda: bool(self.evaluate(node.test, names)), False), node, names)
            case ast.Break():
                raise _BreakError
            case ast.Continue():
                raise _ContinueError
            case ast.Import() | ast.ImportFrom():
                self.import_names(node, names)
            case _:
                raise UnsupportedError(f"the statement `{shown(node)}`")

    def _bound_turns(self, node: ast.For, names: Names) -> Iterator[bool]:
        for item in self.items(node.iter, names):
            self.bind(node.target, item, names)
            yield True

    def _loop(self, turns: Iterator[bool], node: ast.For | ast.While, names: Names) -> None:
        try:
            for _ in turns:
                try:
                    self.execute(node.body, names)
                except _ContinueError:
                    continue
        except _BreakError:
            return
        self.execute(node.orelse, names)

    def import_names(self, node: ast.Import | ast.ImportFrom, names: Names) -> None:
        """Binds what is imported; a module that the library does not have becomes Unknown, and only its use fails."""
        for alias in node.names:
            if isinstance(node, ast.Import):
                bound = alias.asname or alias.name.split(".")[0]
                names[bound] = Module(alias.name) if alias.name in MODULES else Unknown(f"the module {alias.name}")
            elif alias.name != "*":
                names[alias.asname or alias.name] = self.member(str(node.module), alias.name)


def parse_tests(source: str, most_characters: int = 1_000_000) -> ast.Module:
    """The syntax tree of test code. Raises UnsupportedError."""
    if len(source) > most_characters:
        raise UnsupportedError(f"more than {most_characters} characters")
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = f" in line {error.lineno}" if isinstance(error, SyntaxError) else ""
        raise UnsupportedError(f"not Python{line}: {error.msg if isinstance(error, SyntaxError) else error}") from None
