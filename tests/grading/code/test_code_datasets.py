"""Every solution of two data sets passes, and every empty stub fails, where their files are at hand."""

import gzip
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from groupwise.data.programs.code_questions import code_question
from groupwise.data.programs.code_rows import code_tests_of, stub_of
from groupwise.grading.code.code_grader import grade_code
from groupwise.grading.components.correctness import CodeOptions
from groupwise.grading.records import Response, Verdict
from groupwise.grading.sandbox.runs import Limits
from groupwise.grading.sandbox.sandbox import Sandbox
from groupwise.problem import CodeTests

DATA = Path(__file__).parents[4] / "shared" / "data" / "code"
HUMANEVAL, MBPP = DATA / "HumanEval.jsonl.gz", DATA / "mbpp_sanitized.jsonl"
LIMITS = Limits(wall_seconds=60.0, cpu_seconds=30.0)

# Its tests compare with the size of objects in the interpreter that runs them.
REFUSED = {"MbppEval/596"}
# It compares the solution with itself in three of its seven asserts.
WEAK = {"HumanEval/33"}


def rows(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        pytest.skip(f"no {path.name}")
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return [json.loads(line) for line in text.splitlines() if line.strip()]


@pytest.mark.parametrize(("path", "count", "calls"), [(HUMANEVAL, 164, 1531), (MBPP, 427, 1321)])
def test_which_rows_can_be_read(path: Path, count: int, calls: int) -> None:
    refused: dict[str, str] = {}
    weak, total = set(), 0
    for row in rows(path):
        try:
            tests = code_tests_of(row)
        except ValueError as error:
            refused[row["task_id"]] = str(error)
            continue
        assert tests is not None
        assert code_question(row, tests)
        total += len(tests.calls)
        if tests.weak_oracle:
            weak.add(row["task_id"])
    assert len(rows(path)) == count
    assert set(refused) == {name for name in REFUSED if path == MBPP}
    assert all("the module sys" in reason for reason in refused.values())
    assert weak == {name for name in WEAK if path == HUMANEVAL}
    assert total == calls


@pytest.mark.slow
@pytest.mark.parametrize("path", [HUMANEVAL, pytest.param(MBPP, marks=pytest.mark.exhaustive)])
def test_solutions_pass_and_stubs_fail(path: Path, sandbox: Sandbox) -> None:
    def judged(row: dict[str, Any]) -> list[str]:
        tests = code_tests_of(row)
        assert tests is not None
        stub = stub_of(row["prompt"], row["entry_point"].strip())
        assert stub is not None
        body = row["canonical_solution"]
        whole = f"{stub.preamble}\n\n{stub.head}\n{body}"
        verdicts = [_grade(whole, tests, sandbox), _grade(f"{row['prompt']}\n    pass", tests, sandbox)]
        expected = [("correct", 1.0), ("wrong", 0.0)]
        if tests.beginning:
            verdicts.append(_grade(body, tests, sandbox))
            expected.append(("correct", 1.0))
        return [
            f"{row['task_id']}: {verdict.status}: {verdict.detail}"
            for verdict, wanted in zip(verdicts, expected, strict=True)
            if (verdict.status, verdict.score) != wanted
        ]

    usable = [row for row in rows(path) if row["task_id"] not in REFUSED]
    with ThreadPoolExecutor(2) as pool:
        assert [fault for faults in pool.map(judged, usable) for fault in faults] == []


def _grade(program: str, tests: CodeTests, sandbox: Sandbox) -> Verdict:
    return grade_code(Response((), f"```python\n{program}\n```"), tests, sandbox, CodeOptions(), LIMITS)
