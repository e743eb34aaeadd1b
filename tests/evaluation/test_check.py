"""What is found in problem files before training: unusable rows, repeated and shared questions, lengths, and who is
refused."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupwise.config.compose import compose_to_explain
from groupwise.data.files import UnusableRow, fingerprint, read_file
from groupwise.data.preflight import lengths_of, preflight, refuse, remarks_of
from groupwise.data.splits import find_overlap, find_repeats, normalised
from groupwise.errors import DataError, listed
from groupwise.evaluation.check_files import PromptCheck, answer_check, run_check, written_answer
from groupwise.evaluation.check_report import print_check, to_json
from groupwise.evaluation.solutions import solutions_of
from groupwise.model.load import load_tokenizer
from groupwise.model.prompt import PromptRenderer
from groupwise.problem import CodeTests, Message, Problem
from tests.support.commands import bundled_copy, groupwise
from tests.support.problem_files import read_problems

SHARED = Path(__file__).parents[3] / "shared"
needs_shared = pytest.mark.skipif(not SHARED.exists(), reason="the data folder is not there")

Write = Callable[..., Path]
HUMAN_EVAL = {
    "task_id": "HumanEval/0",
    "prompt": 'def double(n):\n    """Twice n."""\n',
    "entry_point": "double",
    "canonical_solution": "    return 2 * n\n",
    "test": "def check(candidate):\n    assert candidate(2) == 4\n    assert candidate(-1) == -2\n",
}


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_file(rows: list[Any], name: str = "p.jsonl") -> Path:
        path = tmp_path / name
        text = "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows).encode()
        path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
        return path

    return write_file


def problem(question: str, answer: str = "1", source: str = "", **more: Any) -> Problem:
    return Problem(question, (Message("user", question),), answer, source=source or question, **more)


def text_same(one: Problem, other: Problem) -> bool:
    return one.answer == other.answer


# Reading on past broken rows


def test_broken_rows_are_faults_in_the_order_of_the_file(write: Write) -> None:
    path = write([{"question": "Q", "answer": "1"}, {"question": ""}, "{", {"question": "R", "answer": 2}, "[]"])
    file = read_file(path)
    assert [p.question for p in file.problems] == ["Q", "R"]
    assert (file.rows, len(file.unusable)) == (5, 3)
    assert [f.source for f in file.unusable] == [f"{path}:{n}" for n in (2, 3, 5)]
    assert "no column 'answer'" in file.unusable[0].reason
    with pytest.raises(DataError, match="3 rows cannot be used"):
        read_problems(path)


def test_the_shape_is_that_of_the_first_row_that_has_one(write: Write) -> None:
    file = read_file(write([{"text": "?"}, {"problem": "Q", "answer": "1"}]))
    assert (file.shape, len(file.problems), len(file.unusable)) == ("MATH (problem, answer)", 1, 1)


def test_every_row_is_kept_with_all_of_its_columns(write: Write) -> None:
    row = {"question": "Q", "answer": "1", "level": 3, "meta": {"a": [1, None]}}
    assert read_file(write([row])).problems[0].row == row


def test_a_row_nested_too_deeply_is_a_fault_of_its_own(write: Write) -> None:
    deep = '{"question": "Q", "answer": "1", "more": ' + "[" * 900 + "]" * 900 + "}"
    file = read_file(write([deep, {"question": "R", "answer": "1"}]))
    assert [p.question for p in file.problems][-1] == "R"
    assert len(file.problems) + len(file.unusable) == 2


# Programs


def test_rows_with_tests_are_programs(write: Write) -> None:
    file = read_file(write([HUMAN_EVAL], "HumanEval.jsonl.gz"))
    (found,) = file.problems
    assert (file.shape, found.id, found.domain, found.answer) == ("programs with tests", "HumanEval/0", "code", "")
    assert found.tests is not None
    assert [(call.args, call.expected) for call in found.tests.calls] == [((2,), 4), ((-1,), -2)]
    assert "def double(n):" in found.question
    assert found.row == HUMAN_EVAL


def test_answers_and_programs_in_one_file(write: Write) -> None:
    path = write([{"question": "Q", "answer": "so\n#### 3"}, {**HUMAN_EVAL, "domain": "python"}, {"other": 1}])
    file = read_file(path)
    assert file.shape == "GSM8K (question, answer after the last ####), programs with tests"
    assert [(p.answer, p.domain, p.tests is None) for p in file.problems] == [
        ("3", "math", True),
        ("", "python", False),
    ]
    assert [f.source for f in file.unusable] == [f"{path}:3"]


def test_without_answers_every_other_row_is_a_fault(write: Write) -> None:
    file = read_file(write([{"other": 1}, HUMAN_EVAL]))
    assert len(file.problems) == 1
    assert "neither an answer nor tests; found other" in file.unusable[0].reason


def test_tests_that_cannot_be_read_are_a_fault(write: Write) -> None:
    file = read_file(write([{**HUMAN_EVAL, "test": "def check(candidate):\n    assert candidate("}, HUMAN_EVAL]))
    assert len(file.unusable) == len(file.problems) == 1


def test_a_named_answer_column_is_preferred_to_tests(write: Write) -> None:
    path = write([{**HUMAN_EVAL, "gold": "7"}, {**HUMAN_EVAL, "task_id": "b", "gold": None}])
    file = read_file(path, problem_column="prompt", answer_column="gold")
    assert [(p.answer, p.tests is None) for p in file.problems] == [("7", True), ("", False)]
    with pytest.raises(DataError, match="no column 'absent' as named"):
        read_file(path, answer_column="absent")


def test_a_conversation_about_a_program_is_asked_as_it_stands(write: Write) -> None:
    turns = [{"role": "system", "content": "S"}, {"role": "user", "content": "Q"}]
    row = {"prompt": turns, "test_list": ["assert double(2) == 4"]}
    (found,) = read_file(write([row])).problems
    assert found.messages == (Message("system", "S"), Message("user", "Q"))


def test_the_fingerprint_covers_tests_and_all_columns(write: Write) -> None:
    first = read_file(write([HUMAN_EVAL])).problems[0]
    known = fingerprint([first])
    assert read_file(write([dict(reversed(HUMAN_EVAL.items()))])).fingerprint == known, (
        "the order of columns says nothing"
    )
    for changed in ({"canonical_solution": "x"}, {"test": HUMAN_EVAL["test"].replace("4", "5")}, {"more": None}):
        assert read_file(write([HUMAN_EVAL | changed])).fingerprint != known
    assert first.tests is not None
    other = Problem(first.id, first.messages, "", first.domain, first.source, None, first.row)
    assert fingerprint([other]) != known


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["assert f(1) == 2", "def"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
COLUMNS = [
    "question",
    "answer",
    "prompt",
    "test",
    "entry_point",
    "test_list",
    "tests",
    "input_output",
    "domain",
    "task_id",
]


@given(rows=st.lists(st.dictionaries(st.sampled_from(COLUMNS), VALUES, max_size=5), max_size=4))
def test_every_row_is_a_problem_or_a_fault(rows: list[Any], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "any.json"
    path.write_text(json.dumps(rows))
    file, refusal = None, ""
    try:
        file = read_file(path)
    except DataError as error:
        refusal = str(error)
    if file is None:
        assert str(path) in refusal
    else:
        assert len(file.problems) + len(file.unusable) == file.rows == len(rows)
        assert fingerprint(file.problems) == file.fingerprint


# Who is refused


def test_up_to_one_in_a_hundred_rows_may_be_unusable() -> None:
    good = [problem(f"q{i}") for i in range(99)]
    report = preflight(good, [UnusableRow("f:1", "broken")], {}, "f")
    assert (report.rows, report.unusable_share, report.refused) == (100, 0.01, "")
    refuse(report)
    worse = preflight(good[1:], [UnusableRow("f:1", "broken")], {}, "f")
    assert worse.unusable_share > 0.01
    with pytest.raises(DataError) as caught:
        refuse(worse)
    assert str(caught.value) == (
        "f: 1 of 99 rows (1.0 %) cannot be used, and more than 1 % are refused; fix or remove them:\n- f:1: broken"
    )


def test_nothing_left_is_refused() -> None:
    assert "none of 1 rows" in preflight([problem("q")], [], {"answer": lambda _: "no"}, "f").refused
    with pytest.raises(DataError, match="none of 0 rows"):
        refuse(preflight([], [], {}))


def test_checks_are_made_in_their_order_and_each_row_counts_once() -> None:
    checks = {"prompt": lambda p: "long" * (p.answer == "2"), "answer": lambda p: "bad" * (p.answer != "1")}
    report = preflight([problem("a"), problem("b", "2"), problem("c", "3")], [UnusableRow("r", "broken")], checks)
    assert [(f.kind, f.source, f.reason) for f in report.unusable] == [
        ("row", "r", "broken"),
        ("prompt", "b", "long"),
        ("answer", "c", "bad"),
    ]
    assert ([p.id for p in report.problems], report.rows) == (["a"], 4)


def test_ten_faults_are_listed() -> None:
    rows = preflight([], [UnusableRow(f"f:{i}", "x") for i in range(12)], {}).unusable
    assert listed(rows)[0] == "- f:0: x"
    assert listed(rows)[-1] == "- and 2 more"
    assert len(listed(rows)) == 11


# Repeated questions


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("What is  3 + 4?", "what is 3 + 4", True),
        ("Find x.\n", "find “x”!"[:-1], True),
        ("What is 3+4?", "What is 3-4?", False),
        ("What is 3.4?", "What is 34?", False),
        ("1,000 apples", "1000 apples", False),
        ("What is 5!?", "What is 5?", False),
        ("Is x<y?", "Is x>y?", False),
        ("ｆｕｌｌ", "full", True),
    ],
)
def test_what_counts_as_the_same_question(one: str, other: str, same: bool) -> None:
    assert (normalised(one) == normalised(other)) == same


def test_repeats() -> None:
    problems = [
        problem("Same?", "1", "f:1"),
        problem("Same?", "1", "f:2"),
        problem("same", "1", "f:3"),
        problem("Other?", "1", "f:4"),
        problem("other", "2", "f:5"),
        problem("Alone", "1", "f:6"),
    ]
    repeats = find_repeats(problems, text_same)
    assert repeats.exact == (("f:1", "f:2"),)
    assert repeats.normalised == (("f:1", "f:2", "f:3"), ("f:4", "f:5"))
    assert repeats.contradictory == (("f:4", "f:5"),)


def test_a_question_is_the_whole_conversation() -> None:
    first = Problem("a", (Message("user", "A"), Message("assistant", "x"), Message("user", "And?")), "1")
    second = Problem("b", (Message("user", "B"), Message("assistant", "x"), Message("user", "And?")), "2")
    assert find_repeats([first, second], text_same).exact == ()


# Training and measurement

WORDS = [f"w{i}" for i in range(60)]


def test_overlap() -> None:
    train = [problem("Exact?", source="t:1"), problem("Nearly!", source="t:2"), problem(" ".join(WORDS), source="t:3")]
    # 30 of the first 42 words are the same, in one run: 18 of 30 runs of 13.
    near = " ".join(WORDS[:30] + [f"x{i}" for i in range(12)])
    # 24 same ones of 42: 12 of 30 runs.
    far = " ".join(WORDS[:24] + [f"y{i}" for i in range(18)])
    held_out = [problem(q, source=s) for q, s in (("Exact?", "e:1"), ("nearly!", "e:2"), (near, "e:3"), (far, "e:4"))]
    overlap = find_overlap(train, [*held_out, problem("short", source="e:5")])
    assert overlap.exact == (("e:1", "t:1", 1.0),)
    assert overlap.normalised == (("e:2", "t:2", 1.0),)
    assert overlap.near == (("e:3", "t:3", 18 / 30),)
    assert find_overlap([], held_out) == find_overlap(train, []) == ((), (), ())


@given(words=st.lists(st.sampled_from(["a", "b", "c"]), min_size=13, max_size=60))
def test_a_text_overlaps_itself_exactly(words: list[str]) -> None:
    one = problem(" ".join(words))
    assert len(find_overlap([one], [one]).exact) == 1


# What is remarkable


def test_remarks() -> None:
    problems = [
        problem("a", "1", row={"domain": "x"}),
        problem("b", "1", row={"domain": None}),
        problem("c", "y" * 201, row={"domain": "x"}),
        problem("d", "y" * 201 + "\\boxed{1}", row={"domain": "x"}),
        problem("What is 2 + 2? Answer: 4.", "4", row={"domain": "x"}),
        problem("What is 2 + 2? Write \\boxed{4}.", "4", row={"domain": "x"}),
        problem("The numbers are 3 and 4.", "4", row={"domain": "x"}),
        problem("Give the answer to 4", "4", row={"domain": "x"}),
    ]
    remarks = remarks_of(problems)
    assert remarks.missing_domain == ("b",)
    assert remarks.long_answers == ("c",)
    assert remarks.given_away == (problems[4].question, problems[5].question)
    assert remarks_of([problem("a")]).missing_domain == (), "where no row has a domain none is missing"


def test_lengths() -> None:
    found = lengths_of(list(range(1, 101)))
    assert found is not None
    assert (found.shortest, found.median, found.p95, found.longest) == (1, 50, 95, 100)
    assert lengths_of([]) is None


# With the graders and the tokenizer of a run


@pytest.mark.parametrize(
    ("gold", "mode", "text"),
    [
        ("4", "boxed", "\\boxed{4}"),
        ("4", "marked", "\\boxed{4}"),
        ("4", "gsm8k", "#### 4"),
        ("4", "answer_tag", "<answer>4</answer>"),
        ("4", "last_number", "It is 4."),
        ("So \\boxed{4}.", "boxed", "So \\boxed{4}."),
    ],
)
def test_how_a_model_would_write_the_answer(gold: str, mode: Any, text: str) -> None:
    assert written_answer(gold, mode) == text


def test_answers_are_judged_by_their_own_grader() -> None:
    judge = answer_check(compose_to_explain(["demo"]))
    assert judge(problem("q", "4")) == ""
    assert judge(problem("q", r"\frac{1}{2}")) == ""
    assert judge(problem("q", " "))
    for mode in ("boxed", "gsm8k", "answer_tag", "last_number", "lenient"):
        assert answer_check(compose_to_explain(["demo", f"rewards.correctness.math.answer={mode}"]))(problem("q")) == ""
    only_code = answer_check(compose_to_explain(["demo", "rewards.correctness.grader=code"]))
    assert "has no tests" in only_code(problem("q"))


def test_prompts_are_measured_with_the_real_template() -> None:
    config = compose_to_explain(["demo"])
    tokenizer, context_tokens = load_tokenizer("bundled")
    renderer = PromptRenderer(tokenizer, config.prompt)
    expected = len(renderer.render((Message("user", "What is 2 + 3?"),)).ids)
    exact = PromptCheck(renderer, expected + 20, 20)
    assert exact(problem("What is 2 + 3?")) == ""
    assert exact.tokens == [expected]
    fault = PromptCheck(renderer, expected + 19, 20)(problem("What is 2 + 3?"))
    assert fault == (
        f"the prompt has {expected} tokens, and with sampling.max_new_tokens=20 it does not fit into the model's "
        f"context of {expected + 19}"
    )
    assert context_tokens >= 256


def test_a_tokenizer_needs_no_weights(tmp_path: Path) -> None:
    folder = bundled_copy(tmp_path / "model")
    (folder / "model.safetensors").unlink()
    assert load_tokenizer(str(folder))[1] == load_tokenizer("bundled")[1]
    for path, words in (
        ("nothing-here", "there is no model"),
        (str(tmp_path), "cannot be loaded"),
        ("a.gguf", "no file"),
    ):
        with pytest.raises(DataError, match=words):
            load_tokenizer(path)


def test_solutions_of_rows() -> None:
    tests = CodeTests(entry_point="double")
    assert solutions_of(HUMAN_EVAL, tests) == ["def double(n):\n    return 2 * n\n"]
    prompt = 'def two():\n    "two"\n'
    helper = {"prompt": prompt, "canonical_solution": "  return 2\ndef double(n): return two() * n"}
    assert solutions_of(helper, tests) == ["def two():\n  return 2\ndef double(n): return two() * n"]
    assert solutions_of({"canonical_solution": "def double(n): ..."}, tests) == ["def double(n): ..."]
    assert solutions_of({"code": "x = 1"}, tests) == ["x = 1"]
    assert solutions_of({"code": 3}, tests) == solutions_of({}, tests) == []
    assert solutions_of({"solutions": '["a = 1", "b = 2"]'}, tests) == ["a = 1", "b = 2"]
    assert solutions_of(
        {"solutions": [{"code": "a = 1", "language": "python"}, {"code": "x", "language": "cpp"}]}, tests
    ) == ["a = 1"]
    assert solutions_of({"solutions": {"language": [2, 3], "solution": ["x", "a = 1"]}}, tests) == ["a = 1"]


@pytest.mark.slow
def test_solutions_are_run_in_the_sandbox(write: Write) -> None:
    wrong = {**HUMAN_EVAL, "task_id": "b", "canonical_solution": "  return n\n"}
    wrong["prompt"] = wrong["prompt"].replace("Twice n", "Two times n")
    path = write([HUMAN_EVAL, wrong, {"question": "Q", "answer": "1"}])
    try:
        check = run_check(str(path), ["demo"], run_solutions=True)
    except DataError as error:
        pytest.skip(str(error))
    (row,) = check.train.report.unusable
    assert (row.kind, row.source) == ("solution", f"{path}:2")
    assert row.reason.startswith("its own solution does not pass its tests (wrong: ")


def test_a_whole_check(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    rows: list[Any] = [{"question": f"What is {i} + 1?", "answer": str(i + 1)} for i in range(200)]
    rows[7] = {"question": "what is 6 + 1", "answer": "8"}
    rows[9] = {"question": "word " * 2000, "answer": "1"}
    train = write(rows)
    held_out = write([{"question": "What is 3 + 1?", "answer": "4"}, {"question": "New?", "answer": "5"}], "e.jsonl")
    check = run_check(str(train), ["demo"], str(held_out))
    assert check.refused == ""
    assert [(f.kind, f.source) for f in check.train.report.unusable] == [("prompt", f"{train}:10")]
    assert check.train.repeats.contradictory == ((f"{train}:7", f"{train}:8"),)
    assert check.overlap.exact == ((f"{held_out}:1", f"{train}:4", 1.0),)
    found = json.loads(json.dumps(to_json(check)))
    assert (found["train"]["rows"], found["train"]["usable"], found["eval"][0]["rows"]) == (200, 199, 2)
    assert found["train"]["domains"] == {"math": 199}
    assert found["overlap"]["exact"][0]["share"] == 1.0
    print_check(check)
    shown = capsys.readouterr().out
    assert "1 (0.50 %)" in shown
    assert f"{train}:10: the prompt has" in shown
    assert "these problems can be trained on" in shown


def test_contradictions_are_told_by_the_grader(write: Write) -> None:
    same = [{"question": "Half?", "answer": "0.5"}, {"question": "half", "answer": "1/2"}]
    check = run_check(str(write(same)), ["demo"])
    assert check.train.repeats.normalised != ()
    assert check.train.repeats.contradictory == ()


def test_a_file_with_too_many_unusable_rows_is_refused(write: Write) -> None:
    path = write([{"question": f"Q{i}", "answer": "1"} for i in range(50)] + ["{"])
    check = run_check(str(path), ["demo"])
    assert check.refused.startswith(f"{path}: 1 of 51 rows (2.0 %) cannot be used")
    assert run_check(str(path), ["demo", "problems.eval=arithmetic"]).held_out == (), "a generator has no rows"
    named = run_check(str(path), ["demo", f"problems.eval={path}"])
    assert [file.report.rows for file in named.held_out] == [51]
    bad_eval = run_check(str(write([{"question": "Q", "answer": "1"}], "t.jsonl")), ["demo"], str(path))
    assert bad_eval.refused.startswith(str(path))


def test_the_command(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    good = write([{"question": f"Q{i}", "answer": "1"} for i in range(5)])
    held_out = write([{"question": "Q1", "answer": "1"}], "e.jsonl")
    outcome = groupwise(capsys, "check", str(good), "sampling.max_new_tokens=20", "--eval", str(held_out), "--json")
    found = json.loads(outcome.out)
    assert (outcome.code, found["refused"], found["max_new_tokens"]) == (0, "", 20)
    assert len(found["overlap"]["exact"]) == 1
    bad = write([{"question": "Q", "answer": "1"}, "{"], "b.jsonl")
    outcome = groupwise(capsys, "check", str(bad))
    assert outcome.code == 3
    assert f"refused: {bad}: 1 of 2 rows" in outcome.out
    assert f"{bad}:2: not valid JSON" in outcome.out
    outcome = groupwise(capsys, "check", str(good) + "x")
    assert (outcome.code, outcome.out) == (3, "")
    assert "there is no such file" in outcome.err or "unknown kind of file" in outcome.err
    assert groupwise(capsys, "check", str(good), "sampling.max_tokens=3").code == 2


@needs_shared
@pytest.mark.parametrize(
    ("name", "usable", "unusable", "domain"),
    [
        ("gsm8k/test.jsonl", 1319, 0, "math"),
        ("math/math500_test.json", 500, 0, "math"),
        ("code/HumanEval.jsonl.gz", 164, 0, "code"),
        ("code/mbpp_sanitized.jsonl", 426, 1, "code"),
    ],
)
def test_real_files(name: str, usable: int, unusable: int, domain: str) -> None:
    file = read_file(SHARED / "data" / name)
    report = preflight(file.problems, file.unusable, {"answer": answer_check(compose_to_explain(["demo"]))})
    assert (len(report.problems), len(report.unusable)) == (usable, unusable), [f.reason for f in report.unusable[:3]]
    assert report.refused == ""
    assert {p.domain for p in report.problems} == {domain}
