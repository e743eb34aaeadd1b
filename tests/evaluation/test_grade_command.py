"""`groupwise grade`: verdicts in order, bad rows listed beside them, and a quick start."""

import io
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from groupwise.data.rows import Row
from groupwise.errors import UsageError
from groupwise.evaluation.grade_file import grade_rows, read_policy
from groupwise.grading.math.math_options import MathOptions
from tests.support.commands import Outcome, environment, groupwise

Run = Callable[..., Outcome]
GOOD = [
    {"id": "a", "response": r"It is \boxed{1/2}.", "gold": "0.5", "expected": True},
    {"id": "b", "response": r"It is \boxed{3}.", "gold": "4", "expected": False},
    {"id": "c", "response": "no idea", "gold": "4", "expected": False},
    {"id": 7, "response": r"\boxed{4}", "gold": "", "expected": True},
]
KEYS = ["id", "status", "score", "extracted", "method", "ms", "flags", "detail"]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: groupwise(capsys, *arguments)


def write(*lines: object) -> str:
    """A file of these rows; a text is a line as it stands."""
    text = "".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines)
    Path("rows.jsonl").write_text(text, encoding="utf-8")
    return "rows.jsonl"


def verdicts(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


def test_one_verdict_a_line_in_order(run: Run) -> None:
    outcome = run("grade", write(*GOOD), "--json")
    assert (outcome.code, outcome.err) == (0, "")
    found = verdicts(outcome.out)
    assert [list(verdict) for verdict in found] == [KEYS] * 4
    assert [(verdict["id"], verdict["status"], verdict["score"]) for verdict in found] == [
        ("a", "correct", 1.0),
        ("b", "wrong", 0.0),
        ("c", "no_answer", 0.0),
        (7, "gold_bad", None),
    ]
    assert [verdict["extracted"] for verdict in found] == ["1/2", "3", "", ""]
    assert all(verdict["ms"] >= 0 and isinstance(verdict["flags"], list) for verdict in found)


def test_the_table_counts_and_shows_what_is_not_expected(run: Run) -> None:
    rows = [{**row, "expected": True} for row in GOOD]
    outcome = run("grade", write(*rows))
    assert outcome.code == 0
    for line in ("correct            1", "wrong              1", "no_answer          1", "all                4"):
        assert line in outcome.out
    assert "3 of 4 verdicts are not the expected ones" in outcome.out
    assert "- b: wrong, expected correct: answer '3', reference '4'" in outcome.out


def test_without_expectations_none_are_missed(run: Run) -> None:
    rows = [{"id": "a", "response": r"\boxed{1}", "gold": "1", "expected": "text of another kind"}]
    assert "expected" not in run("grade", write(*rows)).out


BAD_LINES = [
    ('{"id": 1, "response": ', "not valid JSON"),
    ('["a"]', "expected a JSON object, found a list"),
    ('{"id": "x", "response": "1"}', "no column gold; expected id, response and gold, found id, response"),
    ('{"id": "x"}', "no column response and no column gold"),
    ('{"id": "x", "response": 5, "gold": "5"}', "response: expected text, found an integer"),
    ('{"id": "x", "response": "5", "gold": null}', "gold: expected text, found null"),
    ('{"id": [], "response": "5", "gold": "5"}', "id: expected text or an integer, found a list"),
    ('{"id": "x", "response": ["5"], "gold": 5.0}', "response: expected text, found a list; gold: expected text"),
]


@pytest.mark.parametrize(("line", "message"), BAD_LINES)
@pytest.mark.parametrize("as_json", [True, False])
def test_a_bad_line_is_named_and_the_others_are_graded(run: Run, line: str, message: str, as_json: bool) -> None:
    outcome = run("grade", write(GOOD[0], line, GOOD[1]), *(["--json"] if as_json else []))
    assert outcome.code == 3
    assert "rows.jsonl: 1 row could not be graded:\n- rows.jsonl:2: " in outcome.err
    assert message in outcome.err
    if as_json:
        assert [verdict["status"] for verdict in verdicts(outcome.out)] == ["correct", "wrong"]
    else:
        assert "all                2" in outcome.out


def test_all_bad_lines_are_listed(run: Run) -> None:
    outcome = run("grade", write(*(line for line, _ in BAD_LINES)))
    assert outcome.code == 3
    assert f"{len(BAD_LINES)} rows could not be graded" in outcome.err
    for number in range(1, len(BAD_LINES) + 1):
        assert f"- rows.jsonl:{number}: " in outcome.err


def test_text_that_is_no_unicode_and_no_utf8(run: Run) -> None:
    lone_surrogate = '{"id": "s", "response": "\\\\boxed{\\ud800 7}", "gold": "7"}'
    Path("rows.jsonl").write_bytes(lone_surrogate.encode() + b'\n{"id": "\xff"}\n')
    outcome = run("grade", "rows.jsonl", "--json")
    assert outcome.code == 3
    assert "rows.jsonl:2: not valid UTF-8" in outcome.err
    assert verdicts(outcome.out)[0]["id"] == "s"


def test_options_of_the_policy(run: Run) -> None:
    file = write(
        {"id": "a", "response": r"\boxed{50}", "gold": r"50\%"}, {"id": "b", "response": "#### 3", "gold": "3"}
    )
    found = verdicts(run("grade", file, "percent=strict", "answer=boxed", "--json").out)
    assert [verdict["status"] for verdict in found] == ["wrong", "no_answer"]
    assert [verdict["status"] for verdict in verdicts(run("grade", file, "--json").out)] == ["correct", "correct"]


def test_wrong_options_are_all_named(run: Run) -> None:
    outcome = run("grade", write(*GOOD), "answer=box", "percnt=equal", "boxed", "relative_tolerance=x")
    assert outcome.code == 2
    for message in (
        "did you mean boxed?",
        "did you mean percent?",
        "'boxed': expected KEY=VALUE",
        "relative_tolerance",
    ):
        assert message in outcome.err, message


def test_values_of_options_are_read_as_numbers_and_text() -> None:
    assert read_policy(["relative_tolerance=1e-3", "answer=last_number"]) == MathOptions(
        answer="last_number", relative_tolerance=1e-3
    )
    assert read_policy([]) == MathOptions()
    with pytest.raises(UsageError, match="relative_tolerance"):
        read_policy(["relative_tolerance=-1"])


@pytest.mark.parametrize("name", ["missing.jsonl", "rows.txt", "."])
def test_a_file_that_cannot_be_read(run: Run, name: str) -> None:
    write(*GOOD)
    outcome = run("grade", name)
    assert (outcome.code, outcome.out) == (3, "")
    assert outcome.err.startswith(f"error: {name}: ")


def test_an_empty_file(run: Run) -> None:
    assert run("grade", write(), "--json") == Outcome(0, "", "")
    assert "all                0" in run("grade", "rows.jsonl").out


def test_standard_input(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    text = json.dumps(GOOD[0]) + "\nnonsense\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    outcome = run("grade", "-", "--json")
    assert outcome.code == 3
    assert verdicts(outcome.out)[0]["status"] == "correct"
    assert "- standard input:2: not valid JSON" in outcome.err


def test_a_row_may_say_that_it_was_cut_off_or_began_in_the_reasoning() -> None:
    columns = {"response": r"It is \boxed{7}.", "gold": "7"}
    rows = [Row(1, columns), Row(2, {**columns, "opened": True})]
    results = list(grade_rows(rows, MathOptions()))
    assert [result.verdict and result.verdict.status for result in results] == ["correct", "no_answer"]
    assert [result.id for result in results] == [1, 2]


def test_it_starts_in_less_than_a_second_and_imports_no_framework(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text(json.dumps(GOOD[0]) + "\n")
    program = (
        "import sys; from groupwise.cli import main; sys.argv = ['groupwise', 'grade', 'rows.jsonl', '--json']\n"
        "import atexit; atexit.register(lambda: print(sorted({'torch', 'transformers', 'numpy'} & set(sys.modules))))\n"
        "main()"
    )
    start = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=60
    )
    wall_seconds = time.monotonic() - start
    assert done.returncode == 0, done.stderr
    first, imported = done.stdout.splitlines()
    assert json.loads(first)["status"] == "correct"
    assert imported == "[]"
    assert wall_seconds < 5.0
