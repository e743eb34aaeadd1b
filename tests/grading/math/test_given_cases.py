"""Answers of other graders' issue threads with the right verdicts, and reference answers of known data sets.

These files are not part of the project; the tests are skipped where they are absent.
"""

import json
from functools import partial
from pathlib import Path

import pytest

from groupwise.grading.math.math_grader import gold_error, grade
from groupwise.grading.math.math_options import MathOptions
from tests.grading.math.timing import cpu_milliseconds

FILES = Path(__file__).parents[4] / "shared"
CASES = FILES / "grader_cases.jsonl"
MOST_MILLISECONDS = 50.0


@pytest.mark.skipif(not CASES.exists(), reason="needs grader_cases.jsonl")
def test_verdicts_on_the_given_cases() -> None:
    cases = [json.loads(line) for line in CASES.read_text(encoding="utf-8").splitlines()]
    verdicts = [grade(case["response"], case["gold"]) for case in cases]
    apart = {True: 0, False: 0}
    for case, verdict in zip(cases, verdicts, strict=True):
        if (verdict.status == "correct") != case["expected"]:
            apart[case["expected"]] += 1
            print(f"{case['id']} expected {case['expected']}, {verdict}; gold {case['gold']!r}; {case['note']}")
    right = sum(case["expected"] for case in cases)
    assert apart[False] <= 0.01 * (len(cases) - right)
    assert apart[True] <= 0.04 * right
    for case in cases:
        took = cpu_milliseconds(partial(grade, case["response"], case["gold"]), MOST_MILLISECONDS)
        assert took < MOST_MILLISECONDS, case["id"]


def reference_answers(file: Path) -> list[str]:
    text = file.read_text(encoding="utf-8")
    rows = json.loads(text) if text.lstrip().startswith("[") else [json.loads(line) for line in text.splitlines()]
    return [str(row["answer"]).rsplit("####", 1)[-1].strip() for row in rows]


@pytest.mark.parametrize("name", ["math/math500_test.json", "math/math_new50_exercise.json", "gsm8k/test.jsonl"])
def test_every_reference_answer_accepts_itself_and_no_other(name: str) -> None:
    file = FILES / "data" / name
    if not file.exists():
        pytest.skip(f"needs {name}")
    golds = reference_answers(file)
    for gold in golds:
        assert gold_error(gold, MathOptions()) == "", gold
        verdict = grade(rf"So it is $\boxed{{{gold}}}$.", gold)
        assert verdict.status == "correct", (gold, verdict)
    accepted = [
        (answer, gold)
        for answer, gold in zip(golds, golds[1:] + golds[:1], strict=True)
        if answer.removeprefix("x=") != gold.removeprefix("x=")
        and grade(rf"\boxed{{{answer}}}", gold).status == "correct"
    ]
    assert accepted == []
