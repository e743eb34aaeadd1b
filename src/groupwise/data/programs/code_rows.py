"""Tests of programs in the shapes that data sets have: rows of HumanEval, MBPP, APPS, LiveCodeBench and their like.

Tests written as Python are read, never run. A row whose tests cannot be read is refused with the reason.
"""

import ast
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from groupwise.data.programs.asserts import AssertTests, read_asserts
from groupwise.data.programs.case_columns import cases_of
from groupwise.grading.code.language.interpreter import parse_tests
from groupwise.grading.code.language.library import BUILTINS, ORDERING
from groupwise.problem import CallTest, CodeTests

_BUILTIN = {*BUILTINS, *ORDERING, "isclose", "approx", "set", "type", "raises"}


class Stub(NamedTuple):
    """A prompt that is an unfinished function: what stands before it, its docstring, and its head without that.

    Without the docstring, a body continues the head in whatever indentation it is written.
    """

    preamble: str
    docstring: str
    head: str


def code_tests_of(columns: Mapping[str, Any]) -> CodeTests | None:
    """The tests of a row; None where it is no row about programs.

    Raises ValueError for tests that cannot be used, with the reason of each.
    """
    if isinstance(columns.get("test"), str) and isinstance(columns.get("entry_point"), str):
        return _of_check(columns)
    asserts = assert_lines(columns)
    if asserts is not None:
        return _of_assert_list(columns, asserts)
    return cases_of(columns)


def assert_lines(columns: Mapping[str, Any]) -> list[str] | None:
    """The asserts of a row in the form of MBPP, or of a list of them as reference; None without."""
    for name in ("test_list", "ground_truth"):
        lines = columns.get(name)
        if isinstance(lines, str) and lines.lstrip().startswith("["):
            try:
                lines = json.loads(lines)
            except ValueError:
                continue
        if not isinstance(lines, Sequence) or isinstance(lines, str):
            continue
        if all(isinstance(line, str) for line in lines) and (
            name == "test_list" or (lines and all(line.lstrip().startswith("assert") for line in lines))
        ):
            return list(lines)
    return None


def stub_of(prompt: str, entry_point: str) -> Stub | None:
    """A prompt read as Python that ends in the unfinished function; None where it is running text."""
    try:
        tree = ast.parse(prompt.rstrip() + "\n    pass\n")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if not tree.body or not isinstance(tree.body[-1], ast.FunctionDef):
        return None
    function = next((n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == entry_point), tree.body[-1])
    first = min((decorator.lineno for decorator in function.decorator_list), default=function.lineno)
    lines = prompt.split("\n")
    docstring = ast.get_docstring(function) or ""
    texts = (node.lineno - 1 for node in function.body if _is_text(node))
    end = next(texts, len(lines)) or function.lineno
    return Stub("\n".join(lines[: first - 1]).strip("\n"), docstring, "\n".join(lines[first - 1 : end]))


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def tested_name(test: ast.Module, entry_point: str) -> str:
    """The function that the asserts call: `entry_point`, or another one where they never call that."""
    check = check_function(test)
    own = {parameter.arg for parameter in check.args.args} if check else set()
    defined = {node.name for node in test.body if isinstance(node, ast.FunctionDef) and node is not check}
    if {entry_point, *own} & set(_called(test)):
        return entry_point
    asserted = [name for node in ast.walk(test) if isinstance(node, ast.Assert) for name in _called(node.test)]
    for called in (asserted, _called(test)):
        others = Counter(name for name in called if name not in _BUILTIN | defined)
        if others:
            return others.most_common(1)[0][0]
    return entry_point


def _called(code: ast.AST) -> list[str]:
    nodes = (node.func for node in ast.walk(code) if isinstance(node, ast.Call))
    return [function.id for function in nodes if isinstance(function, ast.Name)]


def check_function(test: ast.Module) -> ast.FunctionDef | None:
    """`def check(candidate)` of HumanEval."""
    functions = [node for node in test.body if isinstance(node, ast.FunctionDef)]
    return next((node for node in functions if node.name == "check" and len(node.args.args) == 1), None)


def _of_check(columns: Mapping[str, Any]) -> CodeTests:
    named = columns["entry_point"].strip()
    test = parse_tests(columns["test"])
    check = check_function(test)
    entry_point = tested_name(test, named)
    prompt = columns.get("prompt")
    stub = stub_of(prompt, named) if isinstance(prompt, str) else None
    preamble = stub.preamble if stub else ""
    around = [node for node in test.body if node is not check] if check else []
    setup = [*parse_tests(preamble).body, *around]
    candidates = [entry_point, *([check.args.args[0].arg] if check else [])]
    found = read_asserts(check.body if check else test.body, candidates, setup)
    return _made(
        found,
        entry_point,
        helpers=setup,
        preamble=preamble,
        beginning=stub.head if stub and entry_point == named else "",
    )


def _of_assert_list(columns: Mapping[str, Any], lines: Sequence[str]) -> CodeTests:
    if not lines:
        raise ValueError("the list of tests is empty")
    imports = columns.get("test_imports") or ()
    setup_code = columns.get("test_setup_code") or columns.get("test_setup") or ""
    setup = parse_tests("\n".join([*([imports] if isinstance(imports, str) else imports), setup_code])).body
    body: list[ast.stmt] = []
    refused: list[str] = []
    for line in lines:
        try:
            body.extend(parse_tests(line.strip()).body)
        except ValueError as error:
            refused.append(f"`{line.strip()[:60]}`: {error}")
    entry_point = tested_name(ast.Module(body, []), str(columns.get("entry_point") or ""))
    if not entry_point:
        raise ValueError("the tests call no function: " + ("; ".join(refused) or f"`{lines[0].strip()[:60]}`"))
    found = read_asserts(body, [entry_point], setup)
    return _made(AssertTests(found.calls, (*refused, *found.refused)), entry_point, helpers=setup)


def _made(
    found: AssertTests, entry_point: str, helpers: Sequence[ast.stmt], preamble: str = "", beginning: str = ""
) -> CodeTests:
    if not found.calls:
        reasons = "; ".join(found.refused[:3]) or "there are none"
        raise ValueError(f"no assert can be read as a call of `{entry_point}` with a known result: {reasons}")
    weak = ""
    if found.refused:
        more = f" and {len(found.refused) - 1} more" if len(found.refused) > 1 else ""
        weak = f"left out {found.refused[0]}{more}"
    return CodeTests(
        calls=found.calls,
        entry_point=entry_point,
        preamble=preamble,
        beginning=beginning,
        helpers=_used_helpers(found.calls, helpers),
        weak_oracle=weak,
    )


def _used_helpers(calls: Sequence[CallTest], statements: Sequence[ast.stmt]) -> str:
    """The source of the helpers, where a view names one."""
    defined = {node.name for node in statements if isinstance(node, ast.FunctionDef)}
    used = {
        node.id
        for view in {call.view for call in calls if call.view}
        for node in ast.walk(ast.parse(view, mode="eval"))
        if isinstance(node, ast.Name)
    }
    return ast.unparse(ast.Module(list(statements), [])) if used & defined else ""
