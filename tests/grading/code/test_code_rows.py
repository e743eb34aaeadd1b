"""Rows of the shapes that data sets have."""

import base64
import json
import pickle
import zlib
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from groupwise.data.fields import code_problem
from groupwise.data.programs.code_questions import code_question
from groupwise.data.programs.code_rows import code_tests_of
from groupwise.data.rows import Row
from groupwise.problem import CallTest, CodeTests, StdinTest

Asserted = partial(CallTest, as_python=True)

PROMPT = '''import math


def half(n):
    return n / 2


def area(r: float):
    """The area of a circle.
    >>> area(1)
    """
'''
CHECK = """
METADATA = {'author': 'x'}


def check(candidate):
    assert abs(candidate(1) - 3.14159) < 1e-3
    assert candidate(half(0)) == 0
    assert True
"""
HUMANEVAL = {"task_id": "Own/0", "prompt": PROMPT, "entry_point": "area", "canonical_solution": "", "test": CHECK}
MBPP = {
    "task_id": 1,
    "text": "Write a function to double a number.",
    "code": "def dbl(n):\n    return 2 * n",
    "test_setup_code": "",
    "test_list": ["assert dbl(2) == 4", "assert dbl(n = 3) == 6"],
    "challenge_test_list": [],
}


def read(row: dict[str, Any]) -> CodeTests:
    tests = code_tests_of(row)
    assert tests is not None
    return tests


def question_of(columns: dict[str, Any]) -> str:
    return code_question(columns, read(columns))


def test_humaneval() -> None:
    tests = read(HUMANEVAL)
    assert tests.calls == (Asserted((1,), 3.14159, tolerance=1e-3), Asserted((0.0,), 0))
    assert tests.entry_point == "area"
    assert tests.preamble == "import math\n\n\ndef half(n):\n    return n / 2"
    assert tests.beginning == "def area(r: float):"
    assert (tests.weak_oracle, tests.helpers, tests.stdin) == ("", "", ())


def test_humaneval_with_code_before_the_docstring() -> None:
    prompt = 'def f(x):\n    import math\n    """Text.\n    """\n'
    tests = read({"prompt": prompt, "entry_point": "f", "test": "def check(candidate):\n    assert candidate(1) == 1"})
    assert (tests.preamble, tests.beginning) == ("", "def f(x):\n    import math")


def test_humaneval_that_names_the_function_instead_of_the_candidate() -> None:
    row = {**HUMANEVAL, "test": "def check(candidate):\n    assert area(0) == 0\n    assert set(area(1)) == {1}"}
    assert read(row).calls == (Asserted((0,), 0), Asserted((1,), {1}, view="set(result)"))


def test_another_function_than_the_one_that_is_named() -> None:
    prompt = 'def helper(x):\n    """Text of the problem.\n    """\n'
    row = {"prompt": prompt, "entry_point": "helper ", "test": "def check(candidate):\n    assert solve(2, [1]) == 1\n"}
    tests = read(row)
    assert (tests.entry_point, tests.beginning) == ("solve", "")
    assert question_of(row) == (
        "Text of the problem.\n\nCall the function `solve`. It has to pass, for example:\n\nassert solve(2, [1]) == 1"
        "\n\nAnswer with the whole function in one ```python block."
    )


def test_a_view_with_a_helper_of_the_prompt() -> None:
    row = {**HUMANEVAL, "test": "def check(candidate):\n    assert half(candidate(1)) == 3"}
    tests = read(row)
    assert tests.calls == (Asserted((1,), 3, view="half(result)"),)
    assert "def half(n):" in tests.helpers


def test_mbpp() -> None:
    assert read(MBPP) == CodeTests(calls=(Asserted((2,), 4), Asserted((), 6, (("n", 3),))), entry_point="dbl")


def test_mbpp_with_imports_of_the_tests() -> None:
    row = {
        "prompt": "Text.",
        "test_imports": ["import math"],
        "test_list": ["assert math.isclose(f(1), 2.0, abs_tol=1)"],
    }
    assert read(row).calls == (Asserted((1,), 2.0, tolerance=1.0, relative_tolerance=1e-9),)


def test_asserts_as_the_reference() -> None:
    asserts = ["assert f(1) == 2", "assert f(2) == 3"]
    for reference in (asserts, json.dumps(asserts)):
        tests = read({"messages": [], "ground_truth": reference, "dataset": "code"})
        assert tests == CodeTests(calls=(Asserted((1,), 2), Asserted((2,), 3)), entry_point="f")


def test_dropped_asserts_make_a_weak_oracle() -> None:
    row = {**MBPP, "test_list": ["assert dbl(1) == 2", "assert dbl(Node(1)) == 2", "assert dbl(x) == 2"]}
    assert read(row).weak_oracle == "left out `assert dbl(Node(1)) == 2`: the name `Node` and 1 more"


STDIN_CASES = (StdinTest("1\n", "2\n"), StdinTest("2 3\n4", "6"))


@pytest.mark.parametrize(
    "columns",
    [
        {"input_output": json.dumps({"inputs": ["1\n", "2 3\n4"], "outputs": ["2\n", "6"]})},
        {"input_output": {"inputs": ["1\n", ["2 3", "4"]], "outputs": ["2\n", ["6"]]}},
        {
            "tests": json.dumps(
                [{"input": "1\n", "output": "2\n", "type": "stdin_stdout"}, {"input": "2 3\n4", "output": 6}]
            )
        },
        {"test_cases": [{"input": "1\n", "output": "2\n"}, {"input": "2 3\n4", "output": "6"}]},
        {"tests": [{"inputs": ["1\n", "2 3\n4"], "outputs": ["2\n", "6"]}]},
        {"reward_model": {"ground_truth": json.dumps({"inputs": ["1\n", "2 3\n4"], "outputs": ["2\n", "6"]})}},
        {
            "public_test_cases": json.dumps([{"input": "1\n", "output": "2\n", "testtype": "stdin"}]),
            "private_test_cases": json.dumps([{"input": "2 3\n4", "output": "6", "testtype": "stdin"}]),
        },
    ],
)
def test_whole_programs(columns: dict[str, Any]) -> None:
    if "stdin_stdout" in str(columns):
        with pytest.raises(ValueError, match="mixes kinds of tests"):
            code_tests_of(columns)
        return
    usual = "public_test_cases" in columns
    assert read(columns) == CodeTests(stdin=STDIN_CASES, usual_imports=usual)


def test_pickled_private_tests_are_left_out_and_said_so() -> None:
    row = {
        "public_test_cases": json.dumps([{"input": "1\n", "output": "2\n", "testtype": "stdin"}]),
        "private_test_cases": "eJxrYJmaAgAD",
    }
    tests = read(row)
    assert tests.stdin == (StdinTest("1\n", "2\n"),)
    assert tests.weak_oracle == "left out `private_test_cases`, which is neither JSON nor a packed text"
    with pytest.raises(ValueError, match="no test can be read"):
        code_tests_of({"private_test_cases": "eJxrYJmaAgAD"})


def packed(value: object) -> str:
    return base64.b64encode(zlib.compress(pickle.dumps(value))).decode()


def test_private_tests_of_livecodebench_are_read_without_loading_them() -> None:
    cases = json.dumps([{"input": "2\n", "output": "4\n", "testtype": "stdin"}])
    public = json.dumps([{"input": "1\n", "output": "2\n", "testtype": "stdin"}])
    row = {"public_test_cases": public, "private_test_cases": packed(cases)}
    assert read(row).stdin == (StdinTest("1\n", "2\n"), StdinTest("2\n", "4\n"))
    assert read(row).weak_oracle == ""
    for hostile in (Exploit(), [cases], {"a": cases}, cases.encode()):
        assert read({**row, "private_test_cases": packed(hostile)}).stdin == (StdinTest("1\n", "2\n"),)
    assert not LOADED


LOADED: list[int] = []


class Exploit:
    """Would be noticed if it were loaded."""

    def __reduce__(self) -> Any:
        return LOADED.append, (1,)


LIST_VIEW = "list(result) if isinstance(result, tuple) else result"


@pytest.mark.parametrize(
    "columns",
    [
        {"input_output": json.dumps({"fn_name": "f", "inputs": [[1, "a"], [2, "b"]], "outputs": [[1, 2], 3]})},
        {
            "public_test_cases": json.dumps(
                [
                    {"input": '1\n"a"', "output": "[1, 2]", "testtype": "functional"},
                    {"input": '2\n"b"', "output": "3", "testtype": "functional"},
                ]
            ),
            "metadata": json.dumps({"func_name": "f"}),
        },
        {
            "tests": [
                {"input": [1, "a"], "output": [1, 2], "type": "function_call", "fn_name": "f"},
                {"input": [2, "b"], "output": 3, "type": "function_call", "fn_name": "f"},
            ]
        },
    ],
)
def test_functions(columns: dict[str, Any]) -> None:
    calls = (CallTest((1, "a"), [1, 2], view=LIST_VIEW), CallTest((2, "b"), 3))
    assert read(columns) == CodeTests(calls=calls, entry_point="f", usual_imports=True)


def test_wrapped_results_of_apps() -> None:
    row = {"input_output": {"fn_name": "f", "inputs": [[1], [2]], "outputs": [["a"], ["b"]]}}
    assert [call.expected for call in read(row).calls] == ["a", "b"]


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"test_list": []}, "the list of tests is empty"),
        ({"test_list": ["assert True"]}, "the tests call no function"),
        ({"test_list": ["assert f("]}, "not Python in line 1"),
        ({"test_list": ["assert f(g) == 1"]}, "no assert can be read as a call of `f` with a known result"),
        ({"prompt": "", "entry_point": "f", "test": "def check(candidate):\n    pass"}, "there are none"),
        ({"prompt": "", "entry_point": "f", "test": "def check("}, "not Python"),
        ({"input_output": "{"}, "is not JSON"),
        ({"input_output": {"inputs": ["1"], "outputs": []}}, "has 1 inputs and 0 outputs"),
        ({"input_output": {"inputs": [], "outputs": []}}, "has 0 inputs and 0 outputs"),
        ({"input_output": {"inputs": "1", "outputs": "2"}}, "no lists `inputs` and `outputs`"),
        ({"tests": [{"input": "1"}]}, "a case without input or output"),
        ({"tests": ["1"]}, "no list of objects"),
        ({"tests": 3}, "no list of objects"),
        ({"tests": [{"input": {}, "output": "1"}]}, "an input or output is dict, expected text"),
        ({"tests": [{"input": "1", "output": "1", "testtype": "functional"}]}, "no fn_name, func_name or entry_point"),
    ],
)
def test_unusable_rows_say_why(columns: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        code_tests_of(columns)


@pytest.mark.parametrize(
    "columns",
    [
        {},
        {"question": "1+1?", "answer": "2"},
        {"prompt": "1+1?", "ground_truth": "2"},
        {"prompt": "x", "ground_truth": ["1", "2"]},
        {"prompt": "x", "ground_truth": "[1, 2]"},
        {"prompt": "x", "reward_model": {"ground_truth": "{1, 2}"}},
        {"question": "x", "answer": "y", "tests": None, "test_list": None},
    ],
)
def test_rows_about_other_things(columns: dict[str, Any]) -> None:
    assert code_tests_of(columns) is None


def test_questions() -> None:
    assert question_of(HUMANEVAL) == (
        "Complete this function. Answer with the whole function in one ```python block.\n\n"
        f"```python\n{PROMPT.strip()}\n```"
    )
    assert question_of(MBPP) == (
        "Write a function to double a number.\n\n"
        "Call the function `dbl`. It has to pass, for example:\n\nassert dbl(2) == 4\n\n"
        "Answer with the whole function in one ```python block."
    )
    row = {"question": "Double it.", "tests": [{"input": "1", "output": "2"}], "starter_code": "n = int(input())\n"}
    assert question_of(row) == (
        "Double it.\n\nBegin with:\n\n```python\nn = int(input())\n```\n\n"
        "Read the input from standard input and print the output to standard output."
        " Answer with the whole program in one ```python block."
    )
    conversation = [{"role": "system", "content": "x"}, {"role": "user", "content": "Ask me."}]
    asked = {**row, "prompt": conversation}
    assert code_problem(Row(1, asked), read(asked), "", "", Path("p.jsonl")).question == "Ask me."
    with pytest.raises(ValueError, match="no text of a problem"):
        question_of({"tests": [{"input": "1", "output": "2"}]})
