"""Problems from files: which columns hold what in the shapes that people have, and every broken row at once."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from groupwise.errors import DataError
from groupwise.tasks.problem import Message, Problem
from groupwise.tasks.rows import Row, kind_of, read_rows, shorten

DEFAULT_DOMAIN = "math"
_LISTED_ERRORS = 10


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
ID_COLUMNS = ("id", "unique_id")


@dataclass(frozen=True, slots=True)
class ProblemFile:
    """The problems of a file, in its order. `shape` says what was recognised, `fingerprint` stands for the contents."""

    path: str
    problems: list[Problem]
    shape: str
    fingerprint: str


class _Columns(NamedTuple):
    """Where a row holds what; `marked` answers stand behind the last `####`, as in GSM8K."""

    problem: str
    answer: str
    domain: str
    domain_required: bool
    marked: bool


class _RowError(Exception):
    pass


def read_problems(
    path: str | Path, problem_column: str = "", answer_column: str = "", domain_column: str = ""
) -> ProblemFile:
    """Read a problem file; columns that are not named are recognised by the first row (see SHAPES).

    A column may be nested, as in `reward_model.ground_truth`. Integers are taken as answers, and so are floats with
    an integral value (spreadsheets and pandas write 51.0 for 51); other floats are refused, because their digits are
    not those that the author wrote.

    Raises DataError for a file that cannot be read, is empty or has no known shape, and for broken rows, listed
    together.
    """
    path = Path(path)
    rows = read_rows(path)
    first = next((row for row in rows if not row.error), None)
    errors = [f"{path}:{row.number}: {row.error}" for row in rows if row.error]
    if not rows:
        raise DataError(f"{path}: the file is empty; expected one problem in each row")
    if first is None:
        raise DataError(_broken_rows(path, errors))
    columns, shape = _recognise(path, first, rows, problem_column, answer_column, domain_column)
    problems: list[Problem] = []
    rows_by_id: dict[str, int] = {}
    for row in rows:
        if row.error:
            continue
        try:
            problem = _problem(row, columns, path)
            if problem.id in rows_by_id:
                raise _RowError(f"the id {shorten(problem.id)} is also that of row {rows_by_id[problem.id]}")
        except _RowError as error:
            errors.append(f"{path}:{row.number}: {error}")
        else:
            rows_by_id[problem.id] = row.number
            problems.append(problem)
    if errors:
        raise DataError(_broken_rows(path, errors))
    return ProblemFile(str(path), problems, shape, fingerprint(problems))


def fingerprint(problems: Iterable[Problem]) -> str:
    """SHA-256 over everything that training reads of the problems, so that a resumed run knows them again."""
    digest = hashlib.sha256()
    for problem in problems:
        content = [problem.id, problem.messages, problem.answer, problem.domain]
        digest.update(json.dumps(content).encode() + b"\n")
    return digest.hexdigest()


def _broken_rows(path: Path, errors: Sequence[str]) -> str:
    count = "1 row cannot be used" if len(errors) == 1 else f"{len(errors)} rows cannot be used"
    first = f"; the first {_LISTED_ERRORS}" if len(errors) > _LISTED_ERRORS else ""
    return f"{path}: {count}{first}:\n" + "\n".join(f"- {error}" for error in errors[:_LISTED_ERRORS])


# Recognition


def _recognise(
    path: Path, first: Row, rows: Sequence[Row], problem: str, answer: str, domain: str
) -> tuple[_Columns, str]:
    """The columns to read, and in words what was recognised. A named column replaces that of a shape."""
    for named, key in ((problem, "problem"), (answer, "answer"), (domain, "domain")):
        if named and not _has(first.columns, named):
            raise DataError(f"{path}: no column {named!r} as named by problems.columns.{key}; {_found(first)}")
    if problem and answer:
        name = "named columns"
    else:
        fitting = [
            shape
            for shape in SHAPES
            if _has(first.columns, problem or shape.problem) and _has(first.columns, answer or shape.answer)
        ]
        if not fitting:
            raise DataError(_unknown_shape(path, first, problem, answer))
        name = "named columns" if problem or answer else fitting[0].name
        problem, answer = problem or fitting[0].problem, answer or fitting[0].answer
    found_domain = domain or next((column for column in DOMAIN_COLUMNS if _has(first.columns, column)), "")
    marked = any("####" in str(_get(row.columns, answer)) for row in rows)
    if marked and (problem, answer) == ("question", "answer"):
        name = "GSM8K"
    note = " after the last ####" if marked else ""
    return _Columns(problem, answer, found_domain, bool(domain), marked), f"{name} ({problem}, {answer}{note})"


def _unknown_shape(path: Path, first: Row, problem: str, answer: str) -> str:
    missing = [key for key, named in (("problem", problem), ("answer", answer)) if not named]
    settings = " and ".join(f"problems.columns.{key}=NAME" for key in missing)
    expected = ", or ".join(dict.fromkeys(f"{problem or s.problem} with {answer or s.answer}" for s in SHAPES))
    return f"{path}: the columns are not known; {_found(first)}; expected {expected}; name yours with {settings}"


def _found(row: Row) -> str:
    return f"found {', '.join(row.columns) or 'none'} in row {row.number}"


def _has(columns: dict[str, Any], name: str) -> bool:
    return _get(columns, name, _ABSENT) is not _ABSENT


def _get(columns: dict[str, Any], name: str, default: Any = None) -> Any:
    if name in columns:
        return columns[name]
    value: Any = columns
    for part in name.split("."):
        if not isinstance(value, dict) or part not in value:
            return default
        value = value[part]
    return value


_ABSENT = object()


# One row


def _problem(row: Row, columns: _Columns, path: Path) -> Problem:
    for name in (columns.problem, columns.answer, *([columns.domain] if columns.domain_required else [])):
        if not _has(row.columns, name):
            raise _RowError(f"no column {name!r}; found {', '.join(row.columns) or 'none'}")
    return Problem(
        id=_id(row, path),
        messages=_messages(_get(row.columns, columns.problem), columns.problem),
        answer=_answer(_get(row.columns, columns.answer), columns),
        domain=_domain(row, columns),
        source=f"{path}:{row.number}",
    )


def _id(row: Row, path: Path) -> str:
    for column in ID_COLUMNS:
        value = row.columns.get(column)
        if isinstance(value, bool | float | list | dict):
            raise _RowError(f"{column}: expected text or an integer, found {kind_of(value)}")
        if value is not None:
            return _text(str(value), column)
    return f"{path.name}:{row.number}"


def _messages(value: Any, column: str) -> tuple[Message, ...]:
    if isinstance(value, str):
        return (Message("user", _text(value, column)),)
    if not isinstance(value, list):
        raise _RowError(f"{column}: expected text or a list of messages, found {kind_of(value)}")
    messages = [_message(turn, f"{column}[{index}]", index) for index, turn in enumerate(value)]
    # In open-instruct's data the conversation ends with the reference answer, which is not to be shown.
    if column == "messages" and messages and messages[-1].role == "assistant":
        messages.pop()
    if not any(message.role == "user" for message in messages):
        raise _RowError(f"{column}: no user message")
    if messages[-1].role != "user":
        raise _RowError(
            f"{column}: the last message has the role {messages[-1].role}, expected user; the beginning of an answer "
            "is set with prompt.prefill"
        )
    return tuple(messages)


def _message(turn: Any, place: str, index: int) -> Message:
    if not isinstance(turn, dict) or not {"role", "content"} <= turn.keys():
        raise _RowError(f"{place}: expected an object with role and content, found {kind_of(turn)}")
    role, content = turn["role"], turn["content"]
    if role not in ("system", "user", "assistant"):
        raise _RowError(f"{place}: the role is {role!r}, expected system, user or assistant")
    if role == "system" and index > 0:
        raise _RowError(f"{place}: a system message may only come first")
    if not isinstance(content, str):
        raise _RowError(f"{place}: expected text as content, found {kind_of(content)}")
    return Message(role, _text(content, f"{place}.content"))


def _answer(value: Any, columns: _Columns) -> str:
    column = columns.answer
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise _RowError(f"{column}: expected text or an integer, found {kind_of(value)}")
    if isinstance(value, float):
        # Beyond 2**53 a float no longer holds every integer.
        if not value.is_integer() or abs(value) > 2**53:
            raise _RowError(f"{column}: the number {value} is not exact; write it as text, in quotes")
        value = int(value)
    text = _text(str(value), column).strip()
    if not columns.marked:
        return text
    _, mark, answer = text.rpartition("####")
    if not mark:
        raise _RowError(f"{column}: no #### before the answer, as other rows have it: {shorten(text)}")
    return _text(answer.replace(",", ""), f"{column} after ####").strip()


def _domain(row: Row, columns: _Columns) -> str:
    value = _get(row.columns, columns.domain) if columns.domain else None
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if value is None and not columns.domain_required:
        return DEFAULT_DOMAIN
    if not isinstance(value, str):
        raise _RowError(f"{columns.domain}: expected text, found {kind_of(value)}")
    return _text(value, columns.domain).strip()


def _text(value: str, place: str) -> str:
    """The text as it is. Refused is what holds nothing but white space, and what no tokenizer could take."""
    if not value.strip():
        raise _RowError(f"{place}: empty")
    if "\0" in value:
        raise _RowError(f"{place}: contains a NUL character: {shorten(value)}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _RowError(f"{place}: contains half of a surrogate pair: {shorten(value)}") from None
    return value
