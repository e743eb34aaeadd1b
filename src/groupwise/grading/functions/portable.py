"""A function that a program holds, as something a worker process can load: a path, or a file of its source.

Nothing is pickled. What a notebook or a script defines has no file that a worker could import without running all of
it again, so that its source is written out with what it uses: modules, what can be imported, plain constants, compiled
regular expressions, and other functions like it.
"""

import ast
import builtins
import linecache
import re
import sys
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

from groupwise.own_code import attribute_of, is_importable

_MOST_CHARACTERS = 1 << 20


class NotPortableError(Exception):
    """Why a worker cannot have a function."""


def source_of(function: Callable[..., Any], name: str) -> str:
    """A module that defines the function under `name`, with everything that it uses. Raises NotPortableError."""
    if not isinstance(function, FunctionType):
        raise NotPortableError(f"it is an object of {type(function).__name__}")
    module = _Module()
    module.add(name, function)
    text = "\n\n".join(["\n".join(sorted(module.imports)), *module.parts])
    if len(text) > _MOST_CHARACTERS:
        raise NotPortableError(f"with the constants that it uses it has {len(text)} characters")
    return text.strip() + "\n"


class _Module:
    """The parts of a module, each after those that it needs."""

    def __init__(self) -> None:
        self.imports: set[str] = set()
        self.parts: list[str] = []
        self._values: dict[str, Any] = {}

    def add(self, name: str, value: Any) -> None:
        """Define a name, once."""
        if name in self._values:
            if self._values[name] is not value and repr(self._values[name]) != repr(value):
                raise NotPortableError(f"{name} means two things in the functions that it calls")
            return
        self._values[name] = value
        if isinstance(value, ModuleType):
            if not is_importable(value):
                raise NotPortableError(f"it uses the module {name}, which cannot be imported")
            self.imports.add(f"import {value.__name__} as {name}")
        elif _imported_from(value):
            self.imports.add(f"from {_imported_from(value)} import {value.__qualname__} as {name}")
        elif isinstance(value, FunctionType):
            self._add_function(name, value)
        elif isinstance(value, re.Pattern):
            self.imports.add("import re as _re")
            self.parts.append(f"{name} = _re.compile({value.pattern!r}, {value.flags})")
        else:
            self.parts.append(f"{name} = {_literal(name, value)}")

    def _add_function(self, name: str, function: FunctionType) -> None:
        node = _definition(function)
        arguments = _without_annotations(node.args)
        positional = [_literal("a default", value) for value in function.__defaults__ or ()]
        arguments.defaults = [ast.parse(text, mode="eval").body for text in positional]
        by_name = function.__kwdefaults__ or {}
        arguments.kw_defaults = [
            ast.parse(_literal("a default", by_name[one.arg]), mode="eval").body if one.arg in by_name else None
            for one in arguments.kwonlyargs
        ]
        for used, value in _uses(function):
            self.add(used, value)
        if isinstance(node, ast.Lambda):
            self.parts.append(f"{name} = {ast.unparse(node)}")
            return
        node.returns = None
        own, node.name = node.name, name
        self.parts.append(ast.unparse(node))
        if any(item.id == own for item in ast.walk(node) if isinstance(item, ast.Name)) and own != name:
            self.parts.append(f"{own} = {name}")


def _uses(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """The global names and those of enclosing functions that a function reads, with their values; not itself."""
    enclosed = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    for name, cell in enclosed.items():
        try:
            value = cell.cell_contents
        except ValueError:
            raise NotPortableError(f"it uses {name}, which has no value yet") from None
        if value is not function:
            yield name, value
    for name in sorted(_globals_in(function.__code__)):
        value = function.__globals__.get(name, _ABSENT)
        if value is function:
            continue
        if value is not _ABSENT:
            yield name, value
        elif not hasattr(builtins, name):
            raise NotPortableError(f"it uses {name}, which is not defined")


_ABSENT = object()


def _globals_in(code: CodeType) -> set[str]:
    """The names that code reads as global ones, in functions inside of it too."""
    import dis

    names = set()
    for step in dis.get_instructions(code):
        if step.opname in ("STORE_GLOBAL", "DELETE_GLOBAL"):
            raise NotPortableError(f"it changes the global {step.argval}")
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            names.add(str(step.argval))
    return names.union(*(_globals_in(inner) for inner in code.co_consts if isinstance(inner, CodeType)))


def _definition(function: FunctionType) -> ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda:
    """The statement or expression that made a function. Raises NotPortableError where its source is not there."""
    code = function.__code__
    linecache.checkcache(code.co_filename)
    try:
        tree = ast.parse("".join(linecache.getlines(code.co_filename, function.__globals__)))
    except (SyntaxError, ValueError):
        raise NotPortableError("its source cannot be read") from None
    made = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)]
    for node in made:
        is_lambda = isinstance(node, ast.Lambda)
        decorators = [] if isinstance(node, ast.Lambda) else node.decorator_list
        first = min(node.lineno, *(item.lineno for item in decorators)) if decorators else node.lineno
        named = code.co_name == ("<lambda>" if isinstance(node, ast.Lambda) else node.name)
        if first == code.co_firstlineno and named and (not is_lambda or _compiles_to(node, code)):
            if decorators:
                raise NotPortableError("it is decorated")
            if not _compiles_to(node, code):
                raise NotPortableError("its source has changed since it was defined")
            return node
    raise NotPortableError("its source cannot be read" if not made else "its source has changed since it was defined")


def _compiles_to(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, code: CodeType) -> bool:
    """Whether a definition gives this code, apart from where names that it does not define itself come from."""
    body = ast.copy_location(ast.Expr(node), node) if isinstance(node, ast.Lambda) else node
    outer = compile(ast.Module([body], []), "", "exec")
    inner = next((item for item in outer.co_consts if isinstance(item, CodeType)), None)

    def shape(of: CodeType) -> Any:
        names = sorted((*of.co_names, *of.co_freevars))
        return of.co_varnames, names, [shape(c) if isinstance(c, CodeType) else c for c in of.co_consts]

    return inner is not None and shape(inner) == shape(code)


def _without_annotations(arguments: ast.arguments) -> ast.arguments:
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    for argument in every:
        if argument is not None:
            argument.annotation = None
    return arguments


def _literal(name: str, value: Any) -> str:
    text = repr(value)
    try:
        is_same = ast.literal_eval(text) == value
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        is_same = False
    if is_same is not True:
        raise NotPortableError(f"it uses {name}, an object of {type(value).__name__}")
    return text


def _imported_from(value: Any) -> str:
    """The module that a class or function can be imported from by its own name; empty for none."""
    module = sys.modules.get(getattr(value, "__module__", None) or "")
    name = getattr(value, "__qualname__", "")
    found = name.isidentifier() and is_importable(module) and attribute_of(module, name) is value
    return module.__name__ if found and module is not None else ""
