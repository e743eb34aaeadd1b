"""The program in a response: a fenced block behind the reasoning, or a text that is nothing but Python."""

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import indent

from groupwise.grading.code.common_imports import forgotten_imports
from groupwise.grading.code.fences import Block, fenced_blocks
from groupwise.grading.components.correctness import ForgottenImports
from groupwise.grading.math.extract import after_reasoning
from groupwise.grading.records import SPECIAL_TOKEN, Response
from groupwise.problem import CodeTests

LARGEST_PROGRAM = 64 * 1024
_FUTURE = re.compile(r"^from __future__ import [^\n]*\n?", re.MULTILINE)
READS_INPUT = re.compile(r"\binput\b|\bstdin\b|\bopen\s*\(|\bfileinput\b|\bos\s*\.\s*read\b")
_WRITES = re.compile(r"\bprint\b|\bwrite\b|\bwritelines\b|\bstdout\b")
# Blocks that are compared with each other, the last ones.
_MOST_BLOCKS = 100


@dataclass(frozen=True, slots=True)
class Extraction:
    """`block`: the program as it was written; `program`: the whole text to run. Where there is none, both are empty
    and `reason` says why. continued: the block is only the body of the function that the problem's text begins."""

    block: str = ""
    program: str = ""
    reason: str = ""
    continued: bool = False


def extract_program(response: Response, tests: CodeTests, imports: ForgottenImports = "usual") -> Extraction:
    """The program among the blocks of a response, see `_chosen`; a text without any block where it is all Python.

    A block that the response ends in counts where it can be read as Python and the response was not cut off. Takes time
    linear in the length of the response. Nothing of it is run.
    """
    part = after_reasoning(response)
    if part is None:
        return Extraction(reason="the reasoning is not closed")
    found = fenced_blocks(part)
    blocks = [block for block in found if block.closed or (not response.truncated and _is_finished(block.text, tests))]
    text = _chosen(blocks[-_MOST_BLOCKS:], tests) if blocks else SPECIAL_TOKEN.sub("", part)
    if not text.strip():
        return Extraction(reason="an empty block of code" if blocks else "no code")
    if len(text) > LARGEST_PROGRAM:
        return Extraction(reason=f"a program of more than {LARGEST_PROGRAM} characters")
    continues = bool(blocks) or text.lstrip("\n")[:1] in (" ", "\t")
    continued = continues and bool(tests.beginning) and not defines(text, tests.entry_point)
    program = _program(text, tests, continued)
    if imports == "all" or (imports == "usual" and tests.usual_imports):
        program = _behind_future(forgotten_imports(program), program)
    extraction = Extraction(text, program, continued=continued)
    if blocks or _is_program(extraction, tests):
        return extraction
    return Extraction(reason="no complete block of Python" if "```" in part or "~~~" in part else "no block of code")


def _chosen(blocks: Sequence[Block], tests: CodeTests) -> str:
    """Of several blocks the one to run.

    What defines the function under test goes before what does not, and a whole program, which reads and prints, before
    a part; then what can be read as Python, what is tagged as it, and what more than promises a body. Of blocks that
    are alike in all this the last one, or where a program has no mark of being whole, the longest.
    """
    if len(blocks) == 1:
        return blocks[0].text

    def rank(place: int) -> tuple[int, ...]:
        block = blocks[place]
        if tests.entry_point:
            fits = defines(block.text, tests.entry_point)
        else:
            fits = READS_INPUT.search(block.text) is not None and _WRITES.search(block.text) is not None
        continued = bool(tests.beginning) and not fits
        tree = _parsed(_program(block.text, tests, continued))
        longest = 0 if fits or tests.entry_point else len(block.text)
        finished = tree is not None and not _is_stub(tree, tests.entry_point)
        return finished and fits, tree is not None and block.tagged, fits, finished, block.tagged, longest, place

    return blocks[max(range(len(blocks)), key=rank)].text


def _is_finished(text: str, tests: CodeTests) -> bool:
    continued = bool(tests.beginning) and not defines(text, tests.entry_point)
    return bool(text.strip()) and _parsed(_program(text, tests, continued)) is not None


def _parsed(program: str) -> ast.Module | None:
    if len(program) > 2 * LARGEST_PROGRAM:
        return None
    try:
        return ast.parse(program)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _is_stub(tree: ast.Module, name: str) -> bool:
    """Whether every function of this name only promises a body: `...`, `pass` or a text."""
    bodies = [node.body for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == name]
    return bool(bodies) and all(
        isinstance(part, ast.Pass) or (isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant))
        for body in bodies
        for part in body
    )


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
    return _behind_future(tests.preamble, block)


def _behind_future(preamble: str, block: str) -> str:
    if not preamble.strip():
        return block
    # Imports from __future__ have to come first.
    future = "".join(line if line.endswith("\n") else line + "\n" for line in _FUTURE.findall(block))
    return f"{future}{preamble}\n\n{_FUTURE.sub('', block) if future else block}"


def _is_program(found: Extraction, tests: CodeTests) -> bool:
    """Whether a text without a fence is Python, and more than words that happen to be names."""
    tree = _parsed(found.program)
    if tree is None:
        return False
    if tests.entry_point:
        return found.continued or defines(found.block, tests.entry_point)
    return any(isinstance(node, (ast.Call, ast.Assign, ast.FunctionDef)) for node in ast.walk(tree))
