"""One row of a file as a problem, or the reason why it cannot be one."""

from pathlib import Path
from typing import Any

from groupwise.data.programs.code_questions import code_question
from groupwise.data.rows import Row, kind_of, shorten
from groupwise.data.shapes import Columns, domain_column, get, has
from groupwise.problem import CodeTests, Message, Problem

DEFAULT_DOMAIN, CODE_DOMAIN = "math", "code"
ID_COLUMNS = ("id", "unique_id", "task_id")


class RowError(Exception):
    """Why a row cannot be used."""


def answer_problem(row: Row, columns: Columns, path: Path) -> Problem:
    """A row with a reference answer. Raises RowError."""
    for name in (columns.problem, columns.answer, *([columns.domain] if columns.domain_required else [])):
        if not has(row.columns, name):
            raise RowError(f"no column {name!r}; found {', '.join(row.columns) or 'none'}")
    return Problem(
        id=_id(row, path),
        messages=_messages(get(row.columns, columns.problem), columns.problem),
        answer=_answer(get(row.columns, columns.answer), columns),
        domain=_domain(row, columns.domain, columns.domain_required, DEFAULT_DOMAIN),
        source=f"{path}:{row.number}",
        row=row.columns,
    )


def code_problem(row: Row, tests: CodeTests, problem_column: str, named_domain: str, path: Path) -> Problem:
    """A row with tests, asked as its own columns say unless one is named. Raises RowError."""
    conversation = problem_column if problem_column and has(row.columns, problem_column) else ""
    conversation = conversation or next((c for c in ("prompt", "messages") if isinstance(row.columns.get(c), list)), "")
    if conversation:
        messages = _messages(get(row.columns, conversation), conversation)
    else:
        try:
            messages = (Message("user", _text(code_question(row.columns, tests), "the question")),)
        except ValueError as error:
            raise RowError(str(error)) from None
    return Problem(
        id=_id(row, path),
        messages=messages,
        answer="",
        domain=_domain(row, named_domain or domain_column(row.columns), bool(named_domain), CODE_DOMAIN),
        source=f"{path}:{row.number}",
        tests=tests,
        row=row.columns,
    )


def _id(row: Row, path: Path) -> str:
    for column in ID_COLUMNS:
        value = row.columns.get(column)
        if isinstance(value, bool | float | list | dict):
            raise RowError(f"{column}: expected text or an integer, found {kind_of(value)}")
        if value is not None:
            return _text(str(value), column)
    return f"{path.name}:{row.number}"


def _messages(value: Any, column: str) -> tuple[Message, ...]:
    if isinstance(value, str):
        return (Message("user", _text(value, column)),)
    if not isinstance(value, list):
        raise RowError(f"{column}: expected text or a list of messages, found {kind_of(value)}")
    messages = [_message(turn, f"{column}[{index}]", index) for index, turn in enumerate(value)]
    # In open-instruct's data the conversation ends with the reference answer, which is not to be shown.
    if column == "messages" and messages and messages[-1].role == "assistant":
        messages.pop()
    if not any(message.role == "user" for message in messages):
        raise RowError(f"{column}: no user message")
    if messages[-1].role != "user":
        raise RowError(
            f"{column}: the last message has the role {messages[-1].role}, expected user; the beginning of an answer "
            "is set with prompt.prefill"
        )
    return tuple(messages)


def _message(turn: Any, place: str, index: int) -> Message:
    if not isinstance(turn, dict) or not {"role", "content"} <= turn.keys():
        raise RowError(f"{place}: expected an object with role and content, found {kind_of(turn)}")
    role, content = turn["role"], turn["content"]
    if role not in ("system", "user", "assistant"):
        raise RowError(f"{place}: the role is {role!r}, expected system, user or assistant")
    if role == "system" and index > 0:
        raise RowError(f"{place}: a system message may only come first")
    if not isinstance(content, str):
        raise RowError(f"{place}: expected text as content, found {kind_of(content)}")
    return Message(role, _text(content, f"{place}.content"))


def _answer(value: Any, columns: Columns) -> str:
    column = columns.answer
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise RowError(f"{column}: expected text or an integer, found {kind_of(value)}")
    if isinstance(value, float):
        # Beyond 2**53 a float no longer holds every integer.
        if not value.is_integer() or abs(value) > 2**53:
            raise RowError(f"{column}: the number {value} is not exact; write it as text, in quotes")
        value = int(value)
    text = _text(str(value), column).strip()
    if not columns.marked:
        return text
    _, mark, answer = text.rpartition("####")
    if not mark:
        raise RowError(f"{column}: no #### before the answer, as other rows have it: {shorten(text)}")
    return _text(answer.replace(",", ""), f"{column} after ####").strip()


def _domain(row: Row, column: str, required: bool, default: str) -> str:
    if required and not has(row.columns, column):
        raise RowError(f"no column {column!r}; found {', '.join(row.columns) or 'none'}")
    value = get(row.columns, column) if column else None
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if value is None and not required:
        return default
    if not isinstance(value, str):
        raise RowError(f"{column}: expected text, found {kind_of(value)}")
    return _text(value, column).strip()


def _text(value: str, place: str) -> str:
    """The text as it is. Refused is what holds nothing but white space, and what no tokenizer could take."""
    if not value.strip():
        raise RowError(f"{place}: empty")
    if "\0" in value:
        raise RowError(f"{place}: contains a NUL character: {shorten(value)}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise RowError(f"{place}: contains half of a surrogate pair: {shorten(value)}") from None
    return value
