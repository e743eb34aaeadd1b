"""Problem files: the shapes that are recognised, and how everything that is wrong is named."""

import builtins
import contextlib
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupwise.data.files import ProblemFile, fingerprint
from groupwise.data.rows import read_rows
from groupwise.errors import DataError
from groupwise.problem import Message
from tests.support.problem_files import read_problems

SHARED = Path(__file__).parents[3] / "shared"
needs_shared = pytest.mark.skipif(not SHARED.exists(), reason="the data folder is not there")

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_file(content: str | bytes | list[Any], name: str = "p.jsonl") -> Path:
        if isinstance(content, list):
            content = "".join(json.dumps(row) + "\n" for row in content)
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write_file


def error_of(path: Path, **columns: str) -> str:
    with pytest.raises(DataError) as caught:
        read_problems(path, **columns)
    assert caught.value.exit_code == 3
    return str(caught.value)


# Shapes


SHAPES: list[tuple[dict[str, Any], str, tuple[Message, ...], str, str]] = [
    (
        {"question": "How many?", "answer": "20 + 3\n#### 1,023"},
        "GSM8K (question, answer after the last ####)",
        (Message("user", "How many?"),),
        "1023",
        "math",
    ),
    (
        {"problem": "Solve.", "solution": "So \\boxed{4}", "answer": "4", "subject": "Algebra"},
        "MATH (problem, answer)",
        (Message("user", "Solve."),),
        "4",
        "math",
    ),
    (
        {
            "data_source": "openai/gsm8k",
            "prompt": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Q"}],
            "ability": "arithmetic",
            "reward_model": {"style": "rule", "ground_truth": "72"},
            "extra_info": {"index": 0},
        },
        "verl (prompt, reward_model.ground_truth)",
        (Message("system", "Be brief."), Message("user", "Q")),
        "72",
        "arithmetic",
    ),
    (
        {"prompt": "Q", "solution": "$\\boxed{3}$"},
        "TRL (prompt, solution)",
        (Message("user", "Q"),),
        "$\\boxed{3}$",
        "math",
    ),
    (
        {"prompt": [{"role": "user", "content": "Q"}], "ground_truth": 3},
        "TRL (prompt, ground_truth)",
        (Message("user", "Q"),),
        "3",
        "math",
    ),
    (
        {
            "messages": [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "It is 3."}],
            "ground_truth": ["3"],
            "dataset": ["gsm8k"],
        },
        "open-instruct (messages, ground_truth)",
        (Message("user", "Q"),),
        "3",
        "gsm8k",
    ),
    ({"question": "Q", "answer": "3"}, "question and answer (question, answer)", (Message("user", "Q"),), "3", "math"),
    (
        {"id": "a", "prompt": "Q", "question": "raw", "answer": "3", "domain": "logic"},
        "prompt and answer (prompt, answer)",
        (Message("user", "Q"),),
        "3",
        "logic",
    ),
    (
        {"messages": [{"role": "user", "content": " Q\n"}], "answer": -3},
        "messages and answer (messages, answer)",
        (Message("user", " Q\n"),),
        "-3",
        "math",
    ),
]


@pytest.mark.parametrize(("row", "shape", "messages", "answer", "domain"), SHAPES, ids=[s[1] for s in SHAPES])
@pytest.mark.parametrize("kind", ["jsonl", "jsonl.gz", "json", "parquet"])
def test_shapes_in_every_kind_of_file(
    row: dict[str, Any],
    shape: str,
    messages: tuple[Message, ...],
    answer: str,
    domain: str,
    kind: str,
    tmp_path: Path,
) -> None:
    path = tmp_path / f"p.{kind}"
    if kind == "parquet":
        pyarrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        parquet.write_table(pyarrow.Table.from_pylist([row]), path)
    elif kind == "json":
        path.write_text(json.dumps([row], indent=2))
    else:
        line = json.dumps(row).encode() + b"\n"
        path.write_bytes(gzip.compress(line, mtime=0) if kind == "jsonl.gz" else line)
    file = read_problems(path)
    (problem,) = file.problems
    assert (file.shape, problem.messages, problem.answer, problem.domain) == (shape, messages, answer, domain)
    assert problem.id == row.get("id", f"p.{kind}:1")
    assert problem.source == f"{path}:1"


def test_named_columns_override(write: Write) -> None:
    path = write([{"question": "raw", "Body": "Q", "Answer": 51.0, "answer": "1", "meta": {"kind": "sub"}}])
    file = read_problems(path, "Body", "Answer", "meta.kind")
    assert (file.shape, file.problems[0].question) == ("named columns (Body, Answer)", "Q")
    assert (file.problems[0].answer, file.problems[0].domain) == ("51", "sub")
    only_problem = read_problems(path, problem_column="Body")
    assert (only_problem.problems[0].question, only_problem.problems[0].answer) == ("Q", "1")
    only_answer = read_problems(path, answer_column="Answer")
    assert (only_answer.problems[0].question, only_answer.problems[0].answer) == ("raw", "51")


def test_ids_and_sources(write: Write) -> None:
    path = write([{"id": 7, "question": "Q", "answer": "1"}, {"unique_id": "u/1", "question": "Q", "answer": "1"}])
    assert [p.id for p in read_problems(path).problems] == ["7", "u/1"]
    path = write('\n{"id": null, "question": "Q", "answer": "1"}\n')
    assert [(p.id, p.source) for p in read_problems(path).problems] == [("p.jsonl:2", f"{path}:2")]


def test_line_ends_blank_lines_and_byte_order_mark(write: Write) -> None:
    row = '{"question": "ä\u2028b", "answer": "1"}'
    path = write(f"\ufeff{row}\r\n\r\n   \n{row}")
    assert [(p.id, p.question) for p in read_problems(path).problems] == [
        ("p.jsonl:1", "ä\u2028b"),
        ("p.jsonl:4", "ä\u2028b"),
    ]
    assert len(read_problems(write(f"\ufeff[{row}]", "p.json")).problems) == 1


@pytest.mark.parametrize(
    ("value", "answer"), [(5, "5"), (-5, "-5"), (5.0, "5"), (10**30, "1" + "0" * 30), (" 5 ", "5")]
)
def test_answers_that_are_accepted(value: object, answer: str, write: Write) -> None:
    assert read_problems(write([{"question": "Q", "answer": value}])).problems[0].answer == answer


def test_the_answer_behind_the_last_mark(write: Write) -> None:
    path = write([{"question": "Q", "answer": "#### 1\n#### -1,234 "}])
    assert read_problems(path).problems[0].answer == "-1234"


def test_fingerprint_follows_the_contents_alone(write: Write) -> None:
    row = {"id": "a", "question": "Q", "answer": "1"}
    first = read_problems(write([row]))
    assert len(first.fingerprint) == 64
    assert read_problems(write(json.dumps([row]), "q.json")).fingerprint == first.fingerprint
    for changed in ({"id": "b"}, {"question": "R"}, {"answer": "2"}, {"domain": "x"}):
        assert read_problems(write([row | changed])).fingerprint != first.fingerprint
    assert fingerprint([]) != first.fingerprint
    assert isinstance(first, ProblemFile)


# Rows that cannot be used


GOOD = '{"question": "Q", "answer": "1"}\n'


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b'{"question": "Q", "answer": }', ["not valid JSON at column 29", '{"question": "Q", "ans']),
        (b'{"question": "Q"', ["not valid JSON at column"]),
        (b"[1, 2]", ["expected a JSON object, found a list", "[1, 2]"]),
        (b'"text"', ["expected a JSON object, found text"]),
        (b'{"question": "\xff", "answer": "1"}', ["not valid UTF-8 at byte 15 (0xff)", '{"question": "']),
        (b'{"question": "a\x00b", "answer": "1"}', ["NUL byte at byte 16"]),
        (b'{"question": "a\\u0000b", "answer": "1"}', ["question: contains a NUL character"]),
        (b'{"question": "\\ud800", "answer": "1"}', ["question: contains half of a surrogate pair"]),
        (b'{"question": "Q", "answer": ' + b"9" * 5000 + b"}", ["too many digits"]),
        (b"[" * 100_000, ["nested too deeply"]),
        (b'{"question": "Q"}', ["no column 'answer'", "found question"]),
        (b'{"answer": "1"}', ["no column 'question'", "found answer"]),
        (b"{}", ["no column 'question'", "found none"]),
        (b'{"question": "", "answer": "1"}', ["question: empty"]),
        (b'{"question": "Q", "answer": " \\n"}', ["answer: empty"]),
        (b'{"question": 3, "answer": "1"}', ["question: expected text or a list of messages, found an integer"]),
        (b'{"question": "Q", "answer": null}', ["answer: expected text or an integer, found null"]),
        (b'{"question": "Q", "answer": true}', ["answer: expected text or an integer, found true or false"]),
        (b'{"question": "Q", "answer": {"a": 1}}', ["found an object"]),
        (b'{"question": "Q", "answer": ["1", "2"]}', ["found a list"]),
        (b'{"question": "Q", "answer": 0.5}', ["the number 0.5 is not exact", "in quotes"]),
        (b'{"question": "Q", "answer": NaN}', ["the number nan is not exact"]),
        (b'{"question": "Q", "answer": 1e400}', ["the number inf is not exact"]),
        (b'{"question": "Q", "answer": 1e17}', ["is not exact"]),
        (b'{"question": "Q", "answer": "1", "id": 1.5}', ["id: expected text or an integer, found a number"]),
        (b'{"question": "Q", "answer": "1", "id": ""}', ["id: empty"]),
        (b'{"question": "Q", "answer": "1", "id": "p.jsonl:1"}', ["the id 'p.jsonl:1' is also that of row 1"]),
    ],
)
def test_a_broken_row_is_named(line: bytes, words: list[str], write: Write) -> None:
    path = write(GOOD.encode() + b"\n" + line + b"\n")
    first, message = error_of(path).splitlines()
    assert first == f"{path}: 1 row cannot be used:"
    assert message.startswith(f"- {path}:3: ")
    for word in words:
        assert word in message
    assert len(message) < len(str(path)) + 250


@pytest.mark.parametrize(
    ("turns", "words"),
    [
        ([], ["prompt: no user message"]),
        (["hi"], ["prompt[0]: expected an object with role and content, found text"]),
        ([{"role": "user"}], ["prompt[0]: expected an object with role and content"]),
        ([{"role": "human", "content": "Q"}], ["prompt[0]: the role is 'human', expected system, user or assistant"]),
        ([{"role": ["user"], "content": "Q"}], ["prompt[0]: the role is ['user']"]),
        ([{"role": "user", "content": ["Q"]}], ["prompt[0]: expected text as content, found a list"]),
        ([{"role": "user", "content": ""}], ["prompt[0].content: empty"]),
        ([{"role": "system", "content": "S"}], ["prompt: no user message"]),
        (
            [{"role": "user", "content": "Q"}, {"role": "system", "content": "S"}],
            ["prompt[1]: a system message may only come first"],
        ),
        (
            [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "A"}],
            ["the last message has the role assistant", "prompt.prefill"],
        ),
    ],
)
def test_broken_messages(turns: list[Any], words: list[str], write: Write) -> None:
    message = error_of(write([{"prompt": "Q", "answer": "1"}, {"prompt": turns, "answer": "1"}]))
    for word in [":2: ", *words]:
        assert word in message


def test_only_the_reference_answer_of_messages_is_left_out(write: Write) -> None:
    turns = [("user", "Q"), ("assistant", "A"), ("user", "R"), ("assistant", "B")]
    row = {"messages": [{"role": role, "content": text} for role, text in turns], "answer": "1"}
    assert read_problems(write([row])).problems[0].messages == tuple(Message(*turn) for turn in turns[:3])
    row["messages"] = [{"role": "assistant", "content": "A"}]
    assert "no user message" in error_of(write([row]))


def test_a_file_marks_all_answers_or_none(write: Write) -> None:
    message = error_of(write([{"question": "Q", "answer": "1"}, {"question": "Q", "answer": "so\n#### 1"}]))
    assert ":1: answer: no #### before the answer, as other rows have it: '1'" in message
    assert "answer after ####: empty" in error_of(write([{"question": "Q", "answer": "so #### "}]))


def test_ten_of_many_broken_rows_are_listed(write: Write) -> None:
    path = write(GOOD + "{\n" * 5 + '{"question": "Q"}\n' * 32)
    first, *lines = error_of(path).splitlines()
    assert first == f"{path}: 37 rows cannot be used; the first 10:"
    assert [line.split(":")[1] for line in lines] == [str(number) for number in range(2, 12)]


def test_duplicate_ids(write: Write) -> None:
    path = write([{"id": i, "question": "Q", "answer": "1"} for i in ("a", "b", "a")])
    assert ":3: the id 'a' is also that of row 1" in error_of(path)


def test_a_required_domain(write: Write) -> None:
    path = write([{"question": "Q", "answer": "1", "kind": k} for k in ("x", "", None, 3)] + [json.loads(GOOD)])
    message = error_of(path, domain_column="kind")
    for words in (
        ":2: kind: empty",
        ":3: kind: expected text, found null",
        ":4: kind: expected",
        ":5: no column 'kind'",
    ):
        assert words in message


# Files that cannot be used


def test_unknown_columns_say_what_was_found_and_how_to_name_them(write: Write) -> None:
    message = error_of(write([{"text": "Q", "label": "1"}]))
    for words in (
        "found text, label in row 1",
        "question with answer",
        "prompt with reward_model.ground_truth",
        "problems.columns.problem=NAME and problems.columns.answer=NAME",
    ):
        assert words in message
    message = error_of(write([{"question": "Q", "label": "1"}]), problem_column="question")
    assert "name yours with problems.columns.answer=NAME" in message
    message = error_of(write([{"question": "Q", "answer": "1"}]), answer_column="gold")
    assert "no column 'gold' as named by problems.columns.answer; found question, answer in row 1" in message


@pytest.mark.parametrize("content", ["", "\n \n", "\ufeff"])
def test_empty_files(content: str, write: Write) -> None:
    assert "the file is empty" in error_of(write(content))
    assert "the file is empty" in error_of(write("[]", "p.json"))


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("p.csv", b"a,b\n", ["unknown kind of file", ".jsonl, .jsonl.gz, .json, .parquet"]),
        ("p.json", b'{"question": "Q"}', ["expected a list of rows, found an object"]),
        ("p.json", GOOD.encode() * 2, ["not valid JSON at line 2, column 1", "is to be called .jsonl"]),
        ("p.json", b"[{]", ["not valid JSON at column 3"]),
        ("p.json", b"[3]", [":1: expected a JSON object, found an integer"]),
        ("p.json", b"[\xff]", ["not valid UTF-8 at byte 2"]),
        ("p.json", b"[" * 100_000, ["nested too deeply"]),
        ("p.jsonl.gz", b"not gzip", ["not a complete gzip file"]),
        ("p.jsonl.gz", gzip.compress(GOOD.encode() * 100, mtime=0)[:-9], ["not a complete gzip file"]),
        ("p.parquet", b"not parquet", ["not a parquet file"]),
        ("p.jsonl", b"{\n{", ["2 rows cannot be used"]),
    ],
)
def test_unusable_files(name: str, content: bytes, words: list[str], write: Write) -> None:
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    path = write(content, name)
    message = error_of(path)
    assert message.startswith(f"{path}: ")
    for word in words:
        assert word in message


def test_missing_files_and_folders(tmp_path: Path) -> None:
    for name in ("p.jsonl", "p.jsonl.gz", "p.json", "p.parquet"):
        path = tmp_path / "absent" / name
        assert error_of(path) == f"{path}: there is no such file"
        folder = tmp_path / name
        folder.mkdir()
        assert "this is a folder" in error_of(folder)


def test_parquet_without_pyarrow_says_what_to_install(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without_pyarrow(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_pyarrow)
    assert "pip install 'groupwise[parquet]'" in error_of(write(b"x", "p.parquet"))


@given(content=st.binary(max_size=200) | st.text(max_size=100).map(str.encode))
def test_no_bytes_raise_anything_else(content: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    for name in ("p.jsonl", "p.json", "p.jsonl.gz"):
        path = tmp_path_factory.getbasetemp() / name
        path.write_bytes(content)
        with contextlib.suppress(DataError):
            read_problems(path)


# Real files


@needs_shared
@pytest.mark.parametrize(
    ("name", "count", "shape"),
    [
        ("gsm8k/train.jsonl", 7473, "GSM8K (question, answer after the last ####)"),
        ("gsm8k/test.jsonl", 1319, "GSM8K (question, answer after the last ####)"),
        ("math/math500_test.json", 500, "MATH (problem, answer)"),
        ("math/math_new50_exercise.json", 50, "MATH (problem, answer)"),
    ],
)
def test_real_files(name: str, count: int, shape: str) -> None:
    file = read_problems(SHARED / "data" / name)
    assert (len(file.problems), file.shape) == (count, shape)
    assert len(read_rows(SHARED / "data" / name)) == count
    if name.startswith("gsm8k"):
        assert all(problem.answer.lstrip("-").isdecimal() for problem in file.problems)
