"""No text of a model is evaluated: by what runs, by what is imported, and by what the source calls."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import groupwise.grading.math

PACKAGE = Path(groupwise.grading.math.__file__).parent
SOURCES = sorted(PACKAGE.rglob("*.py"))
FORBIDDEN = {"eval", "exec", "compile", "sympify", "parse_expr", "parse_latex", "__import__", "literal_eval"}
EVALUATORS = ("sympy", "latex2sympy2_extended", "math_verify", "antlr4", "torch", "transformers", "pickle")

GRADE_WITHOUT_EVALUATORS = """
import builtins, sys
from groupwise.grading.math.math_grader import gold_error, grade
from groupwise.grading.records import Response
from tests.grading.math.corpus import all_cases

cases = all_cases()
# The import system itself executes code: a library that is imported late is imported here.
grade(r"\\boxed{\\sqrt{2}}", r"\\sqrt{8}")

def refuse(*arguments, **options):
    raise SystemExit("evaluated")

builtins.eval = builtins.exec = builtins.compile = refuse
verdicts = [grade(case.response, case.gold, case.policy) for case in cases]
faults = [gold_error(case.gold, case.policy) for case in cases]
print(len(verdicts), len(set(sys.modules) & set(sys.argv[1:])))
"""


def test_no_evaluator_runs_and_none_is_imported() -> None:
    done = subprocess.run(
        [sys.executable, "-c", GRADE_WITHOUT_EVALUATORS, *EVALUATORS],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[3],
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    graded, imported = map(int, done.stdout.split())
    assert graded > 1000
    assert imported == 0


@pytest.mark.parametrize("path", SOURCES, ids=[str(path.relative_to(PACKAGE)) for path in SOURCES])
def test_no_source_calls_an_evaluator(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            is_pattern = isinstance(node.func, ast.Attribute) and ast.unparse(node.func) == "re.compile"
            assert name not in FORBIDDEN or is_pattern, f"{path.name}:{node.lineno}: {ast.unparse(node)}"
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names] + [getattr(node, "module", "") or ""]
            roots = {name.split(".")[0] for name in names}
            assert not roots & set(EVALUATORS), f"{path.name}:{node.lineno}: {ast.unparse(node)}"
