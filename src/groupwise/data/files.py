"""Problems from files: the rows that are problems, and every row that is none with its reason."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

from groupwise.data.fields import RowError, answer_problem, code_problem
from groupwise.data.programs.code_rows import code_tests_of
from groupwise.data.rows import Row, read_rows, shorten
from groupwise.data.shapes import Columns, check_named, get, recognise
from groupwise.errors import DataError
from groupwise.problem import CodeTests, Problem

LISTED_ROWS = 10
PROGRAMS = "programs with tests"


@dataclass(frozen=True, slots=True)
class UnusableRow:
    """A row that cannot be used: where it is, as `file:line`, why, and what of it: `row`, `answer`, `prompt`."""

    source: str
    reason: str
    kind: str = "row"

    def __str__(self) -> str:
        return f"{self.source}: {self.reason}"


@dataclass(frozen=True, slots=True)
class ProblemFile:
    """The problems of a file, in its order, and the rows that are none.

    shape says what was recognised, fingerprint identifies the contents of the problems. rows: how many the file has.
    """

    path: str
    problems: list[Problem]
    shape: str
    fingerprint: str
    rows: int = 0
    unusable: tuple[UnusableRow, ...] = ()


def read_file(
    path: str | Path, problem_column: str = "", answer_column: str = "", domain_column: str = ""
) -> ProblemFile:
    """Read a problem file; columns that are not named are recognised by the rows (see `shapes.SHAPES`).

    A column may be nested, as in `reward_model.ground_truth`. Integers are taken as answers, and so are floats with
    an integral value (spreadsheets and pandas write 51.0 for 51); other floats are refused, because their digits are
    not those that the author wrote. Rows with tests of a program need no answer; a file may mix both.

    Raises DataError for a file that cannot be read, is empty, has no known shape, or has no row that can be read.
    """
    path = Path(path)
    rows = read_rows(path)
    if not rows:
        raise DataError(f"{path}: the file is empty; expected one problem in each row")
    reasons = {row.number: row.error for row in rows if row.error}
    if len(reasons) == len(rows):
        raise DataError(unusable_rows(str(path), [UnusableRow(f"{path}:{n}", reason) for n, reason in reasons.items()]))
    readable = [row for row in rows if not row.error]
    check_named(path, readable, problem_column, answer_column, domain_column)
    tests: dict[int, CodeTests] = {}
    answers: list[Row] = []
    for row in readable:
        try:
            found = None if _is_answered(row, answer_column) else code_tests_of(row.columns)
        except (ValueError, RecursionError) as error:
            reasons[row.number] = str(error)
            continue
        if found is None:
            answers.append(row)
        else:
            tests[row.number] = found
    columns: Columns | None = None
    shapes = [PROGRAMS] if tests else []
    if answers:
        try:
            columns, shape = recognise(path, answers, problem_column, answer_column, domain_column)
            shapes = [shape, *shapes]
        except DataError:
            if not tests:
                raise
    problems: list[Problem] = []
    rows_by_id: dict[str, int] = {}
    for row in (row for row in rows if row.number not in reasons):
        try:
            if row.number in tests:
                problem = code_problem(row, tests[row.number], problem_column, domain_column, path)
            elif columns is not None:
                problem = answer_problem(row, columns, path)
            else:
                raise RowError(f"neither an answer nor tests; found {', '.join(row.columns) or 'none'}")
            _check_depth(problem)
            if problem.id in rows_by_id:
                raise RowError(f"the id {shorten(problem.id)} is also that of row {rows_by_id[problem.id]}")
        except RowError as error:
            reasons[row.number] = str(error)
        else:
            rows_by_id[problem.id] = row.number
            problems.append(problem)
    return ProblemFile(
        path=str(path),
        problems=problems,
        shape=", ".join(shapes),
        fingerprint=fingerprint(problems),
        rows=len(rows),
        unusable=tuple(UnusableRow(f"{path}:{number}", reasons[number]) for number in sorted(reasons)),
    )


def fingerprint(problems: Iterable[Problem]) -> str:
    """SHA-256 over all that a run reads of the problems, so that a resumed run knows them again."""
    digest = hashlib.sha256()
    for problem in problems:
        content = [problem.id, problem.messages, problem.answer, problem.domain, _canonical(problem.tests), problem.row]
        digest.update(json.dumps(content, sort_keys=True, default=repr).encode() + b"\n")
    return digest.hexdigest()


def unusable_rows(path: str, rows: Sequence[UnusableRow]) -> str:
    """The rows that cannot be used, counted, the first ones listed."""
    count = "1 row cannot be used" if len(rows) == 1 else f"{len(rows)} rows cannot be used"
    first = f"; the first {LISTED_ROWS}" if len(rows) > LISTED_ROWS else ""
    return f"{path}: {count}{first}:\n" + "\n".join(f"- {row}" for row in rows[:LISTED_ROWS])


def _is_answered(row: Row, answer_column: str) -> bool:
    """Whether a row has a value in a column that was named for the answer, so that tests next to it are not asked."""
    return bool(answer_column) and get(row.columns, answer_column) is not None


def _check_depth(problem: Problem) -> None:
    try:
        fingerprint([problem])
    except RecursionError:
        raise RowError("nested too deeply") from None


def _canonical(value: Any) -> Any:
    """Python data as JSON that is the same for the same data in every process, sets and keys of any kind included."""
    if value is None or isinstance(value, bool | str):
        return value
    name = type(value).__name__
    if is_dataclass(value):
        return [name, *(_canonical(getattr(value, field.name)) for field in fields(value))]
    if isinstance(value, list | tuple):
        return [name, *map(_canonical, value)]
    if isinstance(value, set | frozenset):
        return [name, *sorted((_canonical(item) for item in value), key=json.dumps)]
    if isinstance(value, dict):
        pairs = ([_canonical(key), _canonical(item)] for key, item in value.items())
        return [name, *sorted(pairs, key=json.dumps)]
    return [name, hex(value) if isinstance(value, int) else repr(value)]
