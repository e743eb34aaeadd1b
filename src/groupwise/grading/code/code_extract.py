"""The program in a response: a fenced block behind the reasoning, or a text that is nothing but Python."""

import ast
import re
from dataclasses import dataclass
from textwrap import indent

from groupwise.grading.math.extract import after_reasoning
from groupwise.grading.records import SPECIAL_TOKEN, Response
from groupwise.problem import CodeTests

LARGEST_PROGRAM = 64 * 1024
_PYTHON = frozenset(("", "python", "py", "python3"))
# Possessive, so that a long line is read once.
_FENCE = re.compile(r"^ {0,3}(`{3,}+|~{3,}+)[ \t]*+([^\s`]*+)[^`\n]*+$", re.MULTILINE)
_FUTURE = re.compile(r"^from __future__ import [^\n]*\n?", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Extraction:
    """`block`: the program as it was written; `program`: the whole text to run. Where there is none, both are empty
    and `reason` says why. continued: the block is only the body of the function that the problem's text begins."""

    block: str = ""
    program: str = ""
    reason: str = ""
    continued: bool = False


def extract_program(response: Response, tests: CodeTests) -> Extraction:
    """The last complete block of Python; of several, the last that defines the function under test.

    Takes time linear in the length of the response. Nothing of it is run.
    """
    part = after_reasoning(response)
    if part is None:
        return Extraction(reason="the reasoning is not closed")
    blocks = fenced_blocks(part)
    if blocks:
        defining = [block for block in blocks if defines(block, tests.entry_point)]
        block = (defining or blocks)[-1]
    else:
        block = SPECIAL_TOKEN.sub("", part)
    if not block.strip():
        return Extraction(reason="an empty block of code" if blocks else "no code")
    if len(block) > LARGEST_PROGRAM:
        return Extraction(reason=f"a program of more than {LARGEST_PROGRAM} characters")
    continues = bool(blocks) or block.lstrip("\n")[:1] in (" ", "\t")
    continued = continues and bool(tests.beginning) and not defines(block, tests.entry_point)
    found = Extraction(block, _program(block, tests, continued), continued=continued)
    if blocks or _is_program(found, tests):
        return found
    return Extraction(reason="no complete block of Python" if _FENCE.search(part) else "no block of code")


def fenced_blocks(text: str) -> list[str]:
    """The complete fenced blocks that are tagged as Python or not tagged, in their order."""
    blocks: list[str] = []
    opened: tuple[str, str, int] | None = None
    for match in _FENCE.finditer(text):
        fence, tag = match[1], match[2]
        if opened is None:
            opened = (fence, tag, min(match.end() + 1, len(text)))
        elif not tag and fence[0] == opened[0][0] and len(fence) >= len(opened[0]):
            if opened[1].lower() in _PYTHON:
                blocks.append(text[opened[2] : max(opened[2], match.start() - 1)])
            opened = None
    return blocks


def defines(block: str, name: str) -> bool:
    """Whether the text defines the name at its top level, or as a method of `class Solution`."""
    return bool(name) and len(block) <= LARGEST_PROGRAM and (_at_top(block, name) or _in_solution(block, name))


def _at_top(block: str, name: str) -> bool:
    word = re.escape(name)
    top = rf"^(?:(?:async +)?def +{word} *\(|class +{word}\b|{word} *(?::[^=\n]+)?=(?!=))"
    return re.search(top, block, re.MULTILINE) is not None


def _in_solution(block: str, name: str) -> bool:
    solution = re.search(r"^class +Solution\b", block, re.MULTILINE)
    method = re.compile(rf"^[ \t]+def +{re.escape(name)} *\(", re.MULTILINE)
    return solution is not None and method.search(block, solution.end()) is not None


def _program(block: str, tests: CodeTests, continued: bool) -> str:
    """The whole text to run: preamble, block, and a name for a method under test."""
    name = tests.entry_point
    if continued:
        # A body is often written at the left margin.
        first = block.lstrip("\n")[:1]
        block = f"{tests.beginning}\n{block if first in (' ', chr(9)) else indent(block, '    ')}"
    elif name and not _at_top(block, name) and _in_solution(block, name):
        block = f"{block}\n\n{name} = Solution().{name}\n"
    if not tests.preamble.strip():
        return block
    # Imports from __future__ have to come first.
    future = "".join(line if line.endswith("\n") else line + "\n" for line in _FUTURE.findall(block))
    return f"{future}{tests.preamble}\n\n{_FUTURE.sub('', block) if future else block}"


def _is_program(found: Extraction, tests: CodeTests) -> bool:
    """Whether a text without a fence is Python, and more than words that happen to be names."""
    try:
        tree = ast.parse(found.program)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    if tests.entry_point:
        return found.continued or defines(found.block, tests.entry_point)
    return any(isinstance(node, (ast.Call, ast.Assign, ast.FunctionDef)) for node in ast.walk(tree))
