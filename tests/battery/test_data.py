"""Data: 12 points."""

import json
from pathlib import Path

from groupwise.data.rows import read_rows
from tests.battery.case import Case
from tests.support.problem_files import read_problems

HERE = "tests/battery/test_data.py::"
FILES, CHECK, CLI = (
    "tests/data/test_problem_files.py::test_",
    "tests/evaluation/test_check.py::test_",
    "tests/cli/test_cli.py::test_",
)

CASES = (
    Case(
        26,
        2,
        "malformed JSON, byte order mark, CRLF, NUL, invalid UTF-8, blank lines, a huge line",
        "read, or file, line and reason",
        (
            FILES + "a_broken_row_is_named",
            FILES + "line_ends_blank_lines_and_byte_order_mark",
            FILES + "no_bytes_raise_anything_else",
            HERE + "test_a_huge_line_among_others",
        ),
    ),
    Case(
        27,
        2,
        "a field that is missing, empty or of another type; an answer that is a number",
        "line, field, value, and the names that are known",
        (
            FILES + "a_broken_row_is_named",
            FILES + "answers_that_are_accepted",
            FILES + "unknown_columns_say_what_was_found_and_how_to_name_them",
        ),
    ),
    Case(
        28,
        2,
        "prompts longer than the context",
        "listed before training; left out up to 1 %, refused above; counted",
        (
            CLI + "a_prompt_longer_than_the_context",
            CLI + "a_question_longer_than_the_context",
            CHECK + "prompts_are_measured_with_the_real_template",
            "tests/data/test_sources.py::test_up_to_one_row_in_a_hundred_is_left_out_and_listed",
        ),
    ),
    Case(
        29,
        2,
        "duplicate ids, questions in both files, few rows, an empty file, gz and parquet by their names",
        "refused or remarked as documented",
        (
            FILES + "duplicate_ids",
            FILES + "empty_files",
            FILES + "shapes_in_every_kind_of_file",
            CHECK + "overlap",
            CHECK + "repeats",
            "tests/data/test_sources.py::test_files_come_round_within_the_stated_epoch",
        ),
    ),
    Case(
        30,
        2,
        "a reference answer that the grader does not accept from itself",
        "listed before training, refused above 1 %",
        (
            CLI + "answers_that_can_never_be_matched",
            CHECK + "up_to_one_in_a_hundred_rows_may_be_unusable",
            "tests/training/test_run_with_rewards.py::test_a_file_with_many_bad_rows_is_refused",
        ),
    ),
    Case(
        31,
        1,
        "messages with wrong roles, or without a turn of the user",
        "line and order of the roles",
        (FILES + "broken_messages",),
    ),
    Case(
        32,
        1,
        "a file changes between start and resume",
        "refused",
        ("tests/training/test_resume.py::test_s7_what_changed_is_refused_unless_it_is_named",),
    ),
)


def test_a_huge_line_among_others(tmp_path: Path) -> None:
    file = tmp_path / "p.jsonl"
    whole = {"question": "1+1=?", "answer": "2"}
    huge = {"question": "x" * 30_000_000, "answer": "2"}
    broken = '{"question": "' + "y" * 30_000_000
    file.write_text("\n".join([json.dumps(whole), json.dumps(huge), broken, json.dumps(whole | {"question": "2+2"})]))
    rows = read_rows(file)
    assert [bool(row.error) for row in rows] == [False, False, True, False]
    assert rows[2].number == 3
    assert "not valid JSON at column" in rows[2].error
    assert len(rows[2].error) < 300
    file.write_text(json.dumps(whole) + "\n" + json.dumps(huge))
    assert len(read_problems(file).problems) == 2
