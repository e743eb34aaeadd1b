"""How a row about programs is put to the model: the problem's own words, and where the answer goes."""

import ast
from collections.abc import Mapping
from typing import Any

from groupwise.data.programs.code_rows import assert_lines, stub_of
from groupwise.problem import CodeTests

TEXT_COLUMNS = ("question", "problem", "prompt", "text", "question_content", "description")
_ANSWER = "Answer with the whole {} in one ```python block."


def code_question(columns: Mapping[str, Any], tests: CodeTests) -> str:
    """The text to ask for a row whose tests are these, see `code_tests_of`.

    An unfinished function is shown to be completed; a description comes with the name of the function and one of its
    tests; a program is asked to read standard input.

    Raises ValueError where the row has no text.
    """
    text = next((columns[name] for name in TEXT_COLUMNS if isinstance(columns.get(name), str) and columns[name]), "")
    if not text.strip():
        raise ValueError(f"the row has no text of a problem; expected it in one of {', '.join(TEXT_COLUMNS)}")
    if tests.stdin:
        ask = "Read the input from standard input and print the output to standard output."
        return "\n\n".join([text.strip(), *_starter(columns), ask + " " + _ANSWER.format("program")])
    stub = stub_of(text, tests.entry_point) if "def " in text else None
    if stub is not None and tests.beginning:
        return f"Complete this function. {_ANSWER.format('function')}\n\n```python\n{text.strip(chr(10))}\n```"
    description = stub.docstring.strip() if stub else text.strip()
    example = _example(columns, tests)
    named = f"Call the function `{tests.entry_point}`." + (
        f" It has to pass, for example:\n\n{example}" if example else ""
    )
    return "\n\n".join([description, *_starter(columns), named, _ANSWER.format("function")])


def _example(columns: Mapping[str, Any], tests: CodeTests) -> str:
    """The first of the asserts as it was written, or made of the first plain call."""
    lines = assert_lines(columns)
    if lines:
        return lines[0].strip()
    if isinstance(columns.get("test"), str):
        found = (node for node in ast.walk(ast.parse(columns["test"])) if isinstance(node, ast.Assert))
        shown = (ast.unparse(node) for node in found)
        return next((line for line in shown if f"{tests.entry_point}(" in line), "")
    return ""


def _starter(columns: Mapping[str, Any]) -> list[str]:
    code = columns.get("starter_code")
    return [f"Begin with:\n\n```python\n{code.strip(chr(10))}\n```"] if isinstance(code, str) and code.strip() else []
