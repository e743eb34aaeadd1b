"""Which program a response holds."""

import time

import pytest

from groupwise.grading.code.code_extract import LARGEST_PROGRAM, Extraction, extract_program
from groupwise.grading.code.fences import Block, fenced_blocks
from groupwise.grading.records import Response
from groupwise.problem import CallTest, CodeTests, StdinTest

CALLS = CodeTests(calls=(CallTest((1,), 2),), entry_point="double")
BEGUN = CodeTests(calls=CALLS.calls, entry_point="double", preamble="import math", beginning="def double(n):")
STDIN = CodeTests(stdin=(StdinTest("1", "2"),))
GOOD = "def double(n):\n    return 2 * n"


def extract(text: str, tests: CodeTests = CALLS, opened: bool = False) -> Extraction:
    return extract_program(Response((), text, opened=opened), tests)


@pytest.mark.parametrize("tag", ["python", "py", "Python", "python3", "", "python title=x"])
def test_a_fenced_block(tag: str) -> None:
    assert extract(f"So:\n```{tag}\n{GOOD}\n```\nDone.").program == GOOD


def test_other_fences() -> None:
    assert extract(f"~~~~py\n{GOOD}\n~~~~").program == GOOD
    assert extract(f"````\n```\n{GOOD}\n```\n````").block == f"```\n{GOOD}\n```"
    assert extract(f"  ```python\r\n{GOOD}\r\n  ```").block == GOOD + "\r"


def test_only_behind_the_reasoning() -> None:
    assert extract(f"<think>```python\n{GOOD}\n```</think>").reason == "no code"
    assert extract(f"<think>x</think>```python\n{GOOD}\n```").program == GOOD
    assert extract(f"<think>```python\n{GOOD}\n```").reason == "the reasoning is not closed"
    assert extract(f"```python\n{GOOD}\n```", opened=True).reason == "the reasoning is not closed"


def test_the_last_block_that_defines_the_function() -> None:
    other = "def double(n):\n    return n + n"
    usage = "print(double(3))"
    text = "\n".join(f"```python\n{block}\n```" for block in (GOOD, other, usage))
    assert extract(text).program == other
    assert extract(text, STDIN).program == other, "the last of the longest"
    assert extract("```text\n1 2\n```\n```python\nx = 1\n```\n```json\n{}\n```").program == "x = 1"


@pytest.mark.parametrize(
    "block",
    [
        "async def double(n): return 2",
        "double = lambda n: 2 * n",
        "double: object = abs",
        "class double:\n    pass",
        "class Solution:\n    def double(self, n):\n        return 2 * n",
    ],
)
def test_ways_to_define_a_function(block: str) -> None:
    assert extract(f"```\n{block}\n```\n```\nprint(1)\n```").block == block


def test_a_method_of_solution_gets_a_name() -> None:
    block = "class Solution:\n    def double(self, n):\n        return 2 * n"
    assert extract(f"```python\n{block}\n```").program == f"{block}\n\ndouble = Solution().double\n"


def test_what_is_no_answer() -> None:
    assert extract("The answer is 42.").reason == "no block of code"
    assert extract("double").reason == "no block of code"
    assert extract("42", STDIN).reason == "no block of code"
    assert extract("").reason == "no code"
    assert extract("```python\n\n```").reason == "an empty block of code"
    assert extract_program(Response((), f"```python\n{GOOD}", truncated=True), CALLS).reason == (
        "no complete block of Python"
    )
    assert extract("```python\ndef double(n:").reason == "no complete block of Python"
    assert extract("```python\n" + "x = 1\n" * LARGEST_PROGRAM + "```").reason.startswith("a program of more than")
    assert extract("```cpp\nint main() {}\n```").reason == "no complete block of Python"


def test_a_text_that_is_nothing_but_python() -> None:
    assert extract(GOOD).program == GOOD
    assert extract(GOOD + "<|im_end|>").program == GOOD
    assert extract("print(2 * int(input()))", STDIN).program == "print(2 * int(input()))"
    assert extract("print(2", STDIN).reason == "no block of code"


def test_a_continued_function() -> None:
    whole = "import math\n\ndef double(n):\n    return 2 * n"
    for text in ("```python\n    return 2 * n\n```", "```python\nreturn 2 * n\n```", "    return 2 * n"):
        found = extract(text, BEGUN)
        assert (found.program.rstrip(), found.continued) == (whole, True)
    assert extract("```python\n  return 2 * n\n```", BEGUN).program == "import math\n\ndef double(n):\n  return 2 * n"
    assert extract("I return 2 * n", BEGUN).reason == "no block of code"
    found = extract(f"```python\n{GOOD}\n```", BEGUN)
    assert (found.program, found.continued) == (f"import math\n\n{GOOD}", False)


def test_imports_from_the_future_stay_first() -> None:
    found = extract(f"```python\nfrom __future__ import annotations\n{GOOD}\n```", BEGUN)
    assert found.program == f"from __future__ import annotations\nimport math\n\n{GOOD}"
    compile(found.program, "<test>", "exec")


@pytest.mark.parametrize(
    "text",
    [
        "(" * 60_000 + ")" * 60_000,
        "-" * 60_000 + "1",
        "x = " + "1+" * 30_000 + "1",
        "a" + ".b" * 30_000,
        "a" + "[0]" * 20_000,
        "def double(n):\n" + "\n".join(" " * i + "if n:" for i in range(1, 300)),
        "def double(n): return 1\n" + "\0",
        "```" * 100_000,
        "```\n" * 100_000,
        "``` " + "a" * 500_000 + "`",
        "class Solution\n" * 30_000,
        "```\n" + "class Solution\n" * 4000 + "```",
        "```\ndef" + " " * 60_000 + "\n```",
        "```\n" + "double" * 10_000 + "\n```",
    ],
)
@pytest.mark.parametrize("tests", [CALLS, BEGUN, STDIN])
def test_hostile_text_takes_little_time(text: str, tests: CodeTests) -> None:
    started = time.process_time()
    extract(text, tests)
    assert time.process_time() - started < 1


def test_blocks_in_their_order() -> None:
    assert fenced_blocks("```\na\n```\nx\n```python\nb\nc\n```\n```js\nd\n```\n```\n```") == [
        Block("a", tagged=False),
        Block("b\nc", tagged=True),
        Block("", tagged=False),
    ]
