"""Which columns of a file hold what, in the shapes that people have."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from groupwise.data.rows import Row
from groupwise.errors import DataError


class Shape(NamedTuple):
    """A combination of columns under the name by which it is known."""

    name: str
    problem: str
    answer: str


# In order of precedence: a row that holds a prepared prompt besides the bare question is meant to be asked that way.
SHAPES = (
    Shape("verl", "prompt", "reward_model.ground_truth"),
    Shape("open-instruct", "messages", "ground_truth"),
    Shape("prompt and answer", "prompt", "answer"),
    Shape("messages and answer", "messages", "answer"),
    Shape("question and answer", "question", "answer"),
    Shape("MATH", "problem", "answer"),
    Shape("TRL", "prompt", "ground_truth"),
    Shape("TRL", "prompt", "solution"),
)
DOMAIN_COLUMNS = ("domain", "ability", "dataset")


class Columns(NamedTuple):
    """Where a row holds what; `marked` answers stand behind the last `####`, as in GSM8K."""

    problem: str
    answer: str
    domain: str
    domain_required: bool
    marked: bool


def recognise(path: Path, rows: Sequence[Row], problem: str, answer: str, domain: str) -> tuple[Columns, str]:
    """The columns to read, and in words what was recognised, from the first row that has a known shape.

    A named column replaces that of a shape. Raises DataError where no row has the columns.
    """
    first, shape = next(
        (
            (row, shape)
            for row in rows
            for shape in SHAPES
            if has(row.columns, problem or shape.problem) and has(row.columns, answer or shape.answer)
        ),
        (rows[0], None),
    )
    if shape is None:
        raise DataError(_unknown_shape(path, first, problem, answer))
    name = "named columns" if problem or answer else shape.name
    problem, answer = problem or shape.problem, answer or shape.answer
    marked = any("####" in str(get(row.columns, answer)) for row in rows)
    if marked and (problem, answer) == ("question", "answer"):
        name = "GSM8K"
    note = " after the last ####" if marked else ""
    columns = Columns(problem, answer, domain or domain_column(first.columns), bool(domain), marked)
    return columns, f"{name} ({problem}, {answer}{note})"


def check_named(path: Path, rows: Sequence[Row], problem: str, answer: str, domain: str) -> None:
    """Raises DataError where no row at all has a column that the configuration names."""
    for named, key in ((problem, "problem"), (answer, "answer"), (domain, "domain")):
        if named and not any(has(row.columns, named) for row in rows):
            raise DataError(f"{path}: no column {named!r} as named by problems.columns.{key}; {_found(rows[0])}")


def domain_column(columns: Mapping[str, Any]) -> str:
    """The column that names the domain where none is configured; empty without one."""
    return next((column for column in DOMAIN_COLUMNS if has(columns, column)), "")


def has(columns: Mapping[str, Any], name: str) -> bool:
    """Whether a row has a column, which may be nested as in `reward_model.ground_truth`."""
    return get(columns, name, _ABSENT) is not _ABSENT


def get(columns: Mapping[str, Any], name: str, default: Any = None) -> Any:
    """The value of a column, which may be nested as in `reward_model.ground_truth`."""
    if name in columns:
        return columns[name]
    value: Any = columns
    for part in name.split("."):
        if not isinstance(value, dict) or part not in value:
            return default
        value = value[part]
    return value


_ABSENT = object()


def _unknown_shape(path: Path, first: Row, problem: str, answer: str) -> str:
    missing = [key for key, named in (("problem", problem), ("answer", answer)) if not named]
    settings = " and ".join(f"problems.columns.{key}=NAME" for key in missing)
    expected = ", or ".join(dict.fromkeys(f"{problem or s.problem} with {answer or s.answer}" for s in SHAPES))
    named = f"; name yours with {settings}" if settings else ""
    return f"{path}: the columns are not known; {_found(first)}; expected {expected}{named}"


def _found(row: Row) -> str:
    return f"found {', '.join(row.columns) or 'none'} in row {row.number}"
