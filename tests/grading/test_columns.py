"""Columns that a reward function reads and no problem has."""

from pathlib import Path

import pytest

from groupwise.grading.functions.columns import columns_read, unknown_columns
from groupwise.problem import Message, Problem

PROBLEMS = [
    Problem(f"p{n}", (Message("user", "1+1"),), answer="2", row={"ground_truth": "2", **extra})
    for n, extra in enumerate([{}, {"level": 3}])
]


@pytest.mark.parametrize(
    ("body", "read"),
    [
        ("row.get('ground_truths')", {"ground_truths"}),
        ("row['ground_truths'] == row['answer']", {"ground_truths", "answer"}),
        ("[r for r in row] and row[0]['level'] + row[i].get('size', 0)", {"level", "size"}),
        ("row[text] + other['x'] + other.get('y') + row.pop('z')", set()),
    ],
)
def test_what_the_source_names(body: str, read: set[str], tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(f"def other(row):\n    return row['no']\n\n\nasync def mine(row, text):\n    return {body}\n")
    assert columns_read(f"{path}:mine") == read


def test_a_column_that_no_problem_has_is_named_with_those_that_there_are(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text("def mine(row):\n    return row.get('ground_truths') == row.get('level')\n")
    remark = unknown_columns(f"{path}:mine", PROBLEMS)
    assert remark == (
        "reads row['ground_truths'] (did you mean 'ground_truth'?), which no problem has; they have answer, domain, "
        "ground_truth, id, level, question"
    )
    path.write_text("def mine(row):\n    return row['ground_truth'] == row.get('level')\n")
    assert unknown_columns(f"{path}:mine", PROBLEMS) == ""


def test_a_function_that_is_here_already() -> None:
    def mine(row: dict[str, str]) -> float:
        return float(row.get("solution") == row["id"])

    assert columns_read("object:mine", mine) == {"solution", "id"}
    assert columns_read("object:len", len) == set()


def test_nothing_is_said_of_code_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def mine(row:\n")
    assert unknown_columns(f"{tmp_path}/mine.py:mine", PROBLEMS) == ""
    assert unknown_columns("json:loads", PROBLEMS) == ""
    assert unknown_columns("an_entry_point", PROBLEMS) == ""
