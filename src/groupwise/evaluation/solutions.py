"""The solutions that rows with tests bring, run against those tests."""

from collections.abc import Mapping
from typing import Any

from groupwise.config import TrainConfig
from groupwise.data.preflight import ProblemCheck
from groupwise.data.programs.code_rows import stub_of
from groupwise.data.programs.packed import read_json
from groupwise.grading.code.code_grader import grade_code
from groupwise.grading.records import Response
from groupwise.grading.sandbox.sandbox import Sandbox
from groupwise.problem import CodeTests, Problem

MOST_TRIED = 3
"""Of the solutions of one row; some of those in APPS and TACO are wrong."""

_COLUMNS = ("canonical_solution", "code", "solutions", "solution", "reference_solution", "gold_standard_solution")
# As CodeContests numbers languages, and in words.
_PYTHON = (3, "PYTHON3", "python3", "python", "py")


def solution_check(sandbox: Sandbox, config: TrainConfig) -> ProblemCheck:
    """Refuses problems of whose own solutions none passes their tests. A row without a solution is not asked."""

    def check(problem: Problem) -> str:
        if problem.tests is None:
            return ""
        options, last = config.rewards_of(problem.domain).correctness.code, ""
        tried = solutions_of(problem.row, problem.tests)[:MOST_TRIED]
        for solution in tried:
            text = solution if "```" in solution else f"```python\n{solution}\n```"
            verdict = grade_code(Response((), text), problem.tests, sandbox, options)
            if verdict.status == "correct":
                return ""
            last = f"({verdict.status}: {verdict.detail})"
        which = "its own solution does" if len(tried) == 1 else f"none of its first {len(tried)} solutions does"
        return f"{which} not pass its tests {last}" if tried else ""

    return check


def solutions_of(row: Mapping[str, Any], tests: CodeTests) -> list[str]:
    """The solutions in Python that a row brings, in the first of its columns that holds any.

    A column holds one or a list, which may be written as JSON; an indented one continues the row's prompt.
    """
    for name in _COLUMNS:
        found = [_whole(text, row, tests) for text in _texts(row.get(name)) if text.strip()]
        if found:
            return found
    return []


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        if value.lstrip()[:1] in "[{" and value.strip():
            try:
                return _texts(read_json(value))
            except (ValueError, RecursionError):
                pass
        return [value]
    if isinstance(value, list):
        return [text for one in value for text in _texts(one)]
    if not isinstance(value, Mapping):
        return []
    languages, texts = value.get("language", "python"), value.get("code") or value.get("solution")
    if isinstance(languages, list) and isinstance(texts, list):
        pairs = zip(languages, texts, strict=False)
        return [text for language, text in pairs if language in _PYTHON and isinstance(text, str)]
    return _texts(texts) if languages in _PYTHON else []


def _whole(solution: str, row: Mapping[str, Any], tests: CodeTests) -> str:
    if solution.strip("\n")[0] not in " \t":
        return solution
    prompt = row.get("prompt")
    stub = stub_of(prompt, tests.entry_point) if isinstance(prompt, str) else None
    return f"{stub.head}\n{solution}" if stub else solution
