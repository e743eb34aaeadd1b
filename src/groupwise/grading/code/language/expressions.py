"""Walks through expressions of the test language."""

import ast
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from groupwise.grading.code.language.library import (
    BUILTINS,
    DRAWS,
    MODULES,
    ORDERING,
    call_method,
    call_plain,
    fresh_draws,
)
from groupwise.grading.code.language.names import Function, Method, Module, Names, Unknown
from groupwise.grading.code.language.operations import Budget, UnsupportedError, binary, compare, size_of, unary
from groupwise.grading.sandbox.wire_values import Items

_CALL_DEPTH = 30


class ReturnError(Exception):
    """A function of the tests returns."""

    def __init__(self, value: Any) -> None:
        self.value = value


class Expressions(ABC):
    """Works out values from a syntax tree, up to a budget of work that all its calls share.

    Everything raises one of ERRORS where that is not possible.
    """

    def __init__(self, budget: Budget | None = None) -> None:
        self.budget = budget or Budget()
        self._draws = fresh_draws()
        self._depth = 0

    @abstractmethod
    def execute(self, statements: Sequence[ast.stmt], names: Names) -> None:
        """Carries out statements, which may change `names`."""

    def evaluate(self, node: ast.expr, names: Names) -> Any:
        """The value of an expression."""
        self.budget.charge(1)
        method: Callable[[Any, Names], Any] | None = getattr(self, f"_{type(node).__name__.lower()}", None)
        if method is None or not isinstance(node, ast.expr):
            raise UnsupportedError(f"the expression `{shown(node)}`")
        return method(node, names)

    def member(self, module: str, name: str) -> Any:
        """What a module of the library holds under a name."""
        if module == "random" and name in DRAWS:
            return Method(self._draws, name)
        if name not in MODULES.get(module, {}):
            return Unknown(f"{module}.{name}")
        return MODULES[module][name]

    def items(self, node: ast.expr, names: Names) -> Iterator[Any]:
        """The elements of an iterable expression, each charged."""
        values = self.evaluate(node, names)
        if not isinstance(values, (list, tuple, str, bytes, dict, set, frozenset, range, Items)):
            raise UnsupportedError(f"a loop over `{shown(node)}`")
        for value in values:
            self.budget.charge(1)
            yield value

    def bind(self, target: ast.expr, value: Any, names: Names) -> None:
        """Assignment to a name, to several, or to an element."""
        match target:
            case ast.Name():
                names[target.id] = value
            case ast.Tuple() | ast.List():
                values = list(value)
                if len(values) != len(target.elts) or any(isinstance(part, ast.Starred) for part in target.elts):
                    raise UnsupportedError(f"an assignment of {len(values)} values to `{shown(target)}`")
                for part, item in zip(target.elts, values, strict=True):
                    self.bind(part, item, names)
            case ast.Subscript():
                collection = self.evaluate(target.value, names)
                if type(collection) not in (list, dict):
                    raise UnsupportedError(f"an assignment to `{shown(target)}`")
                self.budget.charge(size_of(value))
                collection[self._index(target.slice, names)] = value
            case _:
                raise UnsupportedError(f"an assignment to `{shown(target)}`")

    def call(self, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """A call of a function of the tests or of the library."""
        if isinstance(function, Function):
            return self._call_function(function, args, kwargs)
        if isinstance(function, Method):
            return call_method(function.value, function.name, args, kwargs, self.budget)
        if function in (min, max, sorted) and "key" in kwargs:
            key = kwargs.pop("key")
            kwargs["key"] = lambda item: self.call(key, [item], {})
            self.budget.charge(sum(size_of(arg) for arg in args))
            return function(*args, **kwargs)
        return call_plain(function, args, kwargs, self.budget)

    def _call_function(self, function: Function, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if self._depth >= _CALL_DEPTH:
            raise UnsupportedError("calls nested too deeply")
        names = {**function.names, **self._parameters(function, args, kwargs)}
        self._depth += 1
        try:
            if isinstance(function.node, ast.Lambda):
                return self.evaluate(function.node.body, names)
            self.execute(function.node.body, names)
        except ReturnError as returned:
            return returned.value
        finally:
            self._depth -= 1
        return None

    def _parameters(self, function: Function, args: list[Any], kwargs: dict[str, Any]) -> Names:
        declared = function.node.args
        if declared.vararg or declared.kwarg or declared.kwonlyargs or declared.posonlyargs:
            raise UnsupportedError("a function with other than plain parameters")
        expected = [parameter.arg for parameter in declared.args]
        defaults = dict(zip(expected[len(expected) - len(declared.defaults) :], declared.defaults, strict=True))
        given = {**dict(zip(expected, args, strict=False)), **kwargs}
        if len(args) > len(expected) or given.keys() - set(expected) or len(given) != len(args) + len(kwargs):
            raise TypeError("wrong arguments")
        for name in expected:
            if name not in given:
                if name not in defaults:
                    raise TypeError(f"no argument {name}")
                given[name] = self.evaluate(defaults[name], function.names)
        return given

    def look_up(self, name: str, names: Names) -> Any:
        """What a name means."""
        if name in names:
            if isinstance(names[name], Unknown):
                raise UnsupportedError(names[name].reason)
            return names[name]
        if name in BUILTINS:
            return BUILTINS[name]
        if name in ORDERING:
            return ORDERING[name]
        raise UnsupportedError(f"the name `{name}`")

    # One method for each kind of expression, found by its name in `evaluate`.

    def _constant(self, node: ast.Constant, _: Names) -> Any:
        if node.value is Ellipsis:
            raise UnsupportedError("`...`")
        return node.value

    def _name(self, node: ast.Name, names: Names) -> Any:
        return self.look_up(node.id, names)

    def _elements(self, nodes: Sequence[ast.expr], names: Names) -> list[Any]:
        values: list[Any] = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                values.extend(self.items(node.value, names))
            else:
                values.append(self.evaluate(node, names))
        return values

    def _list(self, node: ast.List, names: Names) -> Any:
        return self._elements(node.elts, names)

    def _tuple(self, node: ast.Tuple, names: Names) -> Any:
        return tuple(self._elements(node.elts, names))

    def _set(self, node: ast.Set, names: Names) -> Any:
        return set(self._elements(node.elts, names))

    def _dict(self, node: ast.Dict, names: Names) -> Any:
        if None in node.keys:
            raise UnsupportedError("`**` in a dictionary")
        pairs = zip(node.keys, node.values, strict=True)
        return {self.evaluate(key, names): self.evaluate(value, names) for key, value in pairs if key}

    def _binop(self, node: ast.BinOp, names: Names) -> Any:
        return binary(node.op, self.evaluate(node.left, names), self.evaluate(node.right, names), self.budget)

    def _unaryop(self, node: ast.UnaryOp, names: Names) -> Any:
        return unary(node.op, self.evaluate(node.operand, names))

    def _boolop(self, node: ast.BoolOp, names: Names) -> Any:
        value: Any = None
        for part in node.values:
            value = self.evaluate(part, names)
            if bool(value) == isinstance(node.op, ast.Or):
                break
        return value

    def _compare(self, node: ast.Compare, names: Names) -> Any:
        left = self.evaluate(node.left, names)
        for operation, right_node in zip(node.ops, node.comparators, strict=True):
            if isinstance(operation, (ast.Is, ast.IsNot)) and not _is_singleton(right_node):
                raise UnsupportedError("`is` with something else than None, True or False")
            right = self.evaluate(right_node, names)
            if not compare(operation, left, right, self.budget):
                return False
            left = right
        return True

    def _ifexp(self, node: ast.IfExp, names: Names) -> Any:
        return self.evaluate(node.body if self.evaluate(node.test, names) else node.orelse, names)

    def _lambda(self, node: ast.Lambda, names: Names) -> Any:
        return Function(node, names)

    def _joinedstr(self, node: ast.JoinedStr, names: Names) -> Any:
        parts = []
        for part in node.values:
            if isinstance(part, ast.FormattedValue) and (part.format_spec or part.conversion != -1):
                raise UnsupportedError("a format in an f-string")
            parts.append(str(self.evaluate(part.value if isinstance(part, ast.FormattedValue) else part, names)))
            self.budget.charge(len(parts[-1]))
        return "".join(parts)

    def _attribute(self, node: ast.Attribute, names: Names) -> Any:
        value = self.evaluate(node.value, names)
        if isinstance(value, Module):
            member = self.member(value.name, node.attr)
            if isinstance(member, Unknown):
                raise UnsupportedError(member.reason)
            return member
        return Method(value, node.attr)

    def _subscript(self, node: ast.Subscript, names: Names) -> Any:
        collection = self.evaluate(node.value, names)
        if type(collection) not in (str, bytes, list, tuple, dict, range):
            raise UnsupportedError(f"an element of {type(collection).__name__}")
        result = collection[self._index(node.slice, names)]
        self.budget.charge(size_of(result))
        return result

    def _index(self, node: ast.expr, names: Names) -> Any:
        if isinstance(node, ast.Slice):
            parts = (node.lower, node.upper, node.step)
            return slice(*(None if part is None else self.evaluate(part, names) for part in parts))
        return self.evaluate(node, names)

    def _call(self, node: ast.Call, names: Names) -> Any:
        function = self.evaluate(node.func, names)
        if any(keyword.arg is None for keyword in node.keywords):
            raise UnsupportedError("`**` in a call")
        kwargs = {str(keyword.arg): self.evaluate(keyword.value, names) for keyword in node.keywords}
        return self.call(function, self._elements(node.args, names), kwargs)

    def _listcomp(self, node: ast.ListComp, names: Names) -> Any:
        return [self.evaluate(node.elt, inner) for inner in self.turns(node.generators, names)]

    _generatorexp = _listcomp

    def _setcomp(self, node: ast.SetComp, names: Names) -> Any:
        return {self.evaluate(node.elt, inner) for inner in self.turns(node.generators, names)}

    def _dictcomp(self, node: ast.DictComp, names: Names) -> Any:
        return {
            self.evaluate(node.key, inner): self.evaluate(node.value, inner)
            for inner in self.turns(node.generators, names)
        }

    def turns(self, generators: Sequence[ast.comprehension], names: Names) -> Iterator[Names]:
        """The names within a comprehension, turn by turn."""
        if not generators:
            yield names
            return
        first, *rest = generators
        for item in self.items(first.iter, names):
            inner = dict(names)
            self.bind(first.target, item, inner)
            if all(self.evaluate(condition, inner) for condition in first.ifs):
                yield from self.turns(rest, inner)


def _is_singleton(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and (node.value is None or isinstance(node.value, bool))


def shown(node: ast.AST) -> str:
    """The beginning of a piece of code, for an error message."""
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 60 else text[:60] + "…"
