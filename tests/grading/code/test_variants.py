"""Programs as models write them against tests as data sets have them: right ones, and wrong ones that look alike."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from groupwise.data.programs.code_rows import code_tests_of
from groupwise.grading.code.code_grader import grade_code
from groupwise.grading.components.correctness import CodeOptions
from groupwise.grading.records import Response
from groupwise.grading.sandbox.sandbox import Sandbox

CASES = Path(__file__).parents[4] / "shared" / "code_cases.jsonl"

SQUARE = "n=int(input())\nprint(n*n)"


class Case(NamedTuple):
    """A row of tests, what a model answers, and whether that is right."""

    row: dict[str, Any]
    response: str
    right: bool = True


def fenced(program: str, tag: str = "python") -> str:
    return f"```{tag}\n{program}\n```"


def stdin(*pairs: tuple[str, str]) -> dict[str, Any]:
    inputs, outputs = zip(*pairs, strict=True)
    return {"question": "q", "input_output": json.dumps({"inputs": inputs, "outputs": outputs})}


def function(name: str, *pairs: tuple[list[Any], Any]) -> dict[str, Any]:
    inputs, outputs = [list(args) for args, _ in pairs], [[value] for _, value in pairs]
    return {"question": "q", "input_output": json.dumps({"inputs": inputs, "outputs": outputs, "fn_name": name})}


def asserts(*lines: str) -> dict[str, Any]:
    return {"text": "q", "test_list": list(lines)}


STACK = """
class Stack:
    def __init__(self): self.a = []
    def push(self, x): self.a.append(x)
    def pop(self): return self.a.pop()
"""
BOX = """
class Box:
    def __init__(self, v): self.value = v
    def grow(self):
        self.value += 1
        return self.value
"""
SQUARES = stdin(("3\n", "9\n"), ("5\n", "25\n"))
TOTAL = function("total", ([[1, 2, 3]], 6))
FENCES = [
    Case(SQUARES, fenced(SQUARE) + "\nIt prints\n```\n9\n```"),
    Case(SQUARES, "```\n3\n```\nis the input.\n" + fenced(SQUARE)),
    Case(SQUARES, "```\n3 5\n```\n```\n" + SQUARE + "\n```\n```\n9 25\n```"),
    Case(SQUARES, fenced(SQUARE) + "\nFor example\n" + fenced("print(3*3)")),
    Case(SQUARES, fenced("n=int(input())\nprint(n+n)") + "\nWait, better:\n" + fenced(SQUARE)),
    Case(SQUARES, fenced(SQUARE) + "\nWait, better:\n" + fenced("n=int(input())\nprint(n+n)"), False),
    Case(SQUARES, fenced(SQUARE) + "\nUsage:\n" + fenced("$ python program.py < input.txt")),
    Case(SQUARES, fenced("n = int(input())") + "\nreads, and the whole is\n" + fenced(SQUARE) + "\nDone."),
    Case(SQUARES, "- Code:\n    ```python\n    n=int(input())\n    print(n*n)\n    ```\n- Done."),
    Case(SQUARES, "1. ```python\n   n=int(input())\n   print(n*n)\n   ```"),
    Case(SQUARES, "> ```python\n> n=int(input())\n> print(n*n)\n> ```"),
    Case(SQUARES, "\t```python\n\tn=int(input())\n\tprint(n*n)\n\t```"),
    Case(SQUARES, "```python\n" + SQUARE + "```"),
    Case(SQUARES, "```python\n" + SQUARE),
    Case(SQUARES, "```python\n" + SQUARE + "<|im_end|>"),
    Case(SQUARES, "```{.python}\n" + SQUARE + "\n```"),
    Case(SQUARES, "~~~python3.11\n" + SQUARE + "\n~~~"),
    Case(SQUARES, "```python\nn=int(input())\nprint(n*", False),
    Case(SQUARES, fenced("int main() {}", "cpp"), False),
    Case(SQUARES, fenced('s = """\n    ```\n"""\n' + SQUARE)),
    Case(TOTAL, fenced("def total(a): return sum(a)") + "\nand how to call it:\n" + fenced("print(total([1,2,3]))")),
    Case(TOTAL, fenced("def total(a):\n    ...") + "\nbecomes\n" + fenced("def total(a): return sum(a)")),
    Case(TOTAL, fenced("def total(a): return sum(a)") + "\nin short\n" + fenced("def total(a):\n    pass")),
    Case(TOTAL, fenced("import math") + "\n" + fenced("def total(a): return sum(a)", "")),
    Case(TOTAL, fenced("def total(a): return sum(a)") + "\n```\ndef total(a): return 0\n```"),
    Case(TOTAL, fenced("def total(a): return sum(a)") + "\n" + fenced("def total(a: return sum(a)")),
]
IMPORTS = [
    Case(TOTAL, fenced("class Solution:\n    def total(self, a: List[int]) -> int:\n        return sum(a)")),
    Case(TOTAL, fenced("def total(a: Optional[Dict[int, Tuple[int]]]): return sum(a)")),
    Case(TOTAL, fenced("def total(a): return reduce(lambda x, y: x + y, a)")),
    Case(TOTAL, fenced("def total(a): return sum(Counter(a).elements())")),
    Case(TOTAL, fenced("def total(a): return sum(collections.deque(a))")),
    Case(TOTAL, fenced("def total(a):\n    heapify(a)\n    return sum(heappop(a) for _ in range(3))")),
    Case(TOTAL, fenced("def total(a): return list(accumulate(a))[-1]")),
    Case(TOTAL, fenced("def total(a): return int(math.fsum(a))")),
    Case(TOTAL, fenced("@lru_cache(None)\ndef go(n): return n and n + go(n - 1)\ndef total(a): return go(3)")),
    Case(TOTAL, fenced("from __future__ import annotations\ndef total(a: List[int]): return sum(a)")),
    Case(TOTAL, fenced("def accumulate(a): return [6]\ndef total(a): return accumulate(a)[-1]")),
    Case(TOTAL, fenced("def total(a): return pow(len(a) + 1, 2, 10)")),
    Case(TOTAL, fenced("def total(a): return total_of(a)"), False),
    Case(stdin(("4\n", "2\n")), fenced("print(math.isqrt(int(input())))"), False),
    Case(
        {"question": "q", "public_test_cases": json.dumps([{"input": "4", "output": "2", "testtype": "stdin"}])},
        fenced("print(math.isqrt(int(sys.stdin.readline())))"),
    ),
    Case(asserts("assert f([1]) == 1"), fenced("def f(a: List[int]): return a[0]"), False),
]
ITERATORS = [
    Case(asserts("assert list(f(3)) == [0, 1, 2]"), "def f(n):\n    yield from range(n)"),
    Case(asserts("assert list(f(3)) == [0, 1, 2]"), "def f(n): return (i for i in range(n))"),
    Case(asserts("assert tuple(f(3)) == (0, 1, 2)"), "def f(n): return filter(lambda i: True, range(n))"),
    Case(asserts("assert sorted(f(3)) == [0, 1, 2]"), "def f(n): return reversed(range(n))"),
    Case(asserts("assert sum(f(3)) == 3"), "def f(n): return iter([0, 1, 2])"),
    Case(asserts("assert set(f(3)) == {0, 1, 2}"), "def f(n): return {i: i for i in range(n)}.values()"),
    Case(asserts("assert dict(f(2)) == {0: 0, 1: 1}"), "def f(n): return zip(range(n), range(n))"),
    Case(asserts("assert [x for x in f(3)] == [0, 1, 2]"), "def f(n): return map(int, range(n))"),
    Case(asserts("assert len(f(3)) == 3"), "from collections import deque\ndef f(n): return deque(range(n))"),
    Case(asserts("assert next(f(3)) == 0"), "def f(n):\n    i = 0\n    while True:\n        yield i\n        i += 1"),
    Case(asserts("assert list(f(3))[:2] == [0, 1]"), "def f(n):\n    while True:\n        yield 0", False),
    Case(asserts("assert f(3) == [0, 1, 2]"), "def f(n): return range(n)", False),
    Case(asserts("assert f(3) == [0, 1, 2]"), "def f(n):\n    yield from range(n)", False),
    Case(asserts("assert list(f(3)) == [0, 1, 2]"), "def f(n): return range(n + 1)", False),
    Case(asserts("assert list(f(3)) == [0, 1, 2]"), "def f(n):\n    yield 0\n    raise ValueError", False),
    Case(asserts("assert len(f(3)) == 3"), "def f(n):\n    yield from range(n)", False),
    Case(asserts("assert f(3)"), "def f(n):\n    yield 1", False),
]
PYTHON_EQUALITY = [
    Case(
        asserts("assert f() == (1, 2)"),
        "from typing import NamedTuple\nclass P(NamedTuple):\n    x: int\n    y: int\ndef f(): return P(1, 2)",
    ),
    Case(asserts("assert f() == 0.25"), "from decimal import Decimal\ndef f(): return Decimal('0.25')"),
    Case(asserts("assert f() == 3"), "from fractions import Fraction\ndef f(): return Fraction(6, 2)"),
    Case(asserts("assert f() == 0.1"), "from fractions import Fraction\ndef f(): return Fraction(1, 10)", False),
    Case(asserts("assert f() == 1"), "def f(): return True", False),
    Case(asserts("assert f() == [True, False]"), "def f(): return [1, 0]"),
    # An int is asked for: what is derived from it could be anything, and the sandbox does not hand it over.
    Case(
        asserts("assert f() == 1"), "from enum import IntEnum\nclass E(IntEnum):\n    A = 1\ndef f(): return E.A", False
    ),
    Case(asserts("assert f() == {1, 2}"), "def f(): return frozenset((1, 2))"),
    Case(asserts("assert f() == {'a': 1}"), "from collections import Counter\ndef f(): return Counter('a')"),
    Case(asserts("assert f() is True"), "def f(): return 1", False),
    Case(asserts("assert f() == 1"), "def f(): return '1'", False),
    Case(asserts("assert f() == [1]"), "def f(): return (1,)", False),
    Case(
        asserts("assert f() == 2"), "class I(int):\n    def __eq__(self, o): return True\ndef f(): return I(1)", False
    ),
    Case(
        asserts("assert f() == 2"), "class I(int):\n    def __eq__(self, o): return True\ndef f(): return I(2)", False
    ),
    Case(
        asserts("assert f() == (1, 2)"),
        "class T(tuple):\n    def __iter__(self): return iter((1, 2))\ndef f(): return T((3, 4))",
        False,
    ),
    Case(function("f", ([1], 1)), fenced("def f(n): return True"), False),
    Case(function("f", ([1], True)), fenced("def f(n): return 1"), False),
    Case(
        function("f", ([1], [1, 2])),
        fenced("from collections import namedtuple\nP = namedtuple('P', 'x y')\ndef f(n): return P(1, 2)"),
    ),
]
TOLERANCE = [
    Case(stdin(("1 3", "0.333333333")), fenced("a, b = map(int, input().split())\nprint(round(a / b, 7))")),
    Case(stdin(("1 3", "0.333333333")), fenced("a, b = map(int, input().split())\nprint(round(a / b, 3))"), False),
    Case(stdin(("1", "1000000.5")), fenced("print(1000000.9)"), True),
    Case(stdin(("1", "1000000.5")), fenced("print(1000003.5)"), False),
    Case(stdin(("1", "1000000007")), fenced("print(1000000008)"), False),
    Case(stdin(("1", "100000000000000000001")), fenced("print(100000000000000000000)"), False),
    Case(stdin(("1", "3")), fenced("print(3.0)")),
    Case(stdin(("1", "3.0")), fenced("print(3)")),
    Case(stdin(("1", "1e-3")), fenced("print(0.001)")),
    Case(stdin(("1", "0.5 yes")), fenced("print('0.5000 yes')")),
    Case(stdin(("1", "0.5 yes")), fenced("print('0.5 no')"), False),
    Case(stdin(("1", "0.5")), fenced("print('inf')"), False),
    Case(stdin(("1", "nan")), fenced("print(0.5)"), False),
    Case(function("f", ([1], 0.3)), fenced("def f(n): return 0.1 * 3")),
    Case(function("f", ([1], {"a": [0.3]})), fenced("def f(n): return {'a': [0.1 * 3]}")),
    Case(function("f", ([1], 0.3)), fenced("def f(n): return 0.31"), False),
    Case(function("f", ([1], 1000000007)), fenced("def f(n): return 1000000007.4"), False),
    Case(function("f", ([1], 0.5)), fenced("def f(n): return float('nan')"), False),
    Case(asserts("assert f() == 0.3"), "def f(): return 0.1 * 3", False),
    Case(asserts("assert f() == pytest.approx(0.3)"), "def f(): return 0.1 * 3"),
    Case(asserts("assert round(f(), 2) == 0.33"), "def f(): return 1 / 3"),
]
LONG = [
    Case(stdin(("20000", "1" + "0" * 6000)), fenced("print(10**6000)")),
    Case(stdin(("20000", "1" + "0" * 4400)), fenced("print(10**4400 + 1)"), False),
    Case(stdin(("9" * 4000 + "9" * 1000, "1")), fenced("print(int(input()) % 2)")),
    Case(stdin(("9" * 4000 + "9" * 1000, "1")), fenced("print(int(input()) % 3)"), False),
    Case(
        {"question": "q", "input_output": '{"inputs": [[6000]], "outputs": [[1' + "0" * 6000 + ']], "fn_name": "f"}'},
        fenced("def f(n): return 10**n"),
    ),
    Case(
        {"question": "q", "input_output": '{"inputs": [[6000]], "outputs": [[-1' + "0" * 6000 + ']], "fn_name": "f"}'},
        fenced("def f(n): return 10**n"),
        False,
    ),
    Case(
        {"question": "q", "input_output": '{"inputs": [[1' + "0" * 6000 + ']], "outputs": [[6001]], "fn_name": "f"}'},
        fenced("def f(n): return len(str(n))"),
    ),
    Case(asserts("assert f(3) == 10**6000"), "def f(n): return 10**6000"),
    Case(asserts("assert len(str(f(6000))) == 6001"), "def f(n): return str(10**n)"),
    Case(
        asserts("assert f(5000) % 7 == 3"), "def f(n): return 10**n + 1 - 10**n % 7 - 1 + 3 - (10**n - 10**n % 7) % 7"
    ),
]
OBJECTS = [
    Case(
        asserts("s = Stack()", "s.push(1)", "s.push(2)", "assert s.pop() == 2", "assert s.pop() == 1"),
        STACK,
    ),
    Case(
        asserts("s = Stack()", "s.push(1)", "s.push(2)", "assert s.pop() == 2"),
        "class Stack:\n    def push(self, x): self.x = x\n    def pop(self): return 1",
        False,
    ),
    Case(asserts("assert Stack([1, 2]).items == [1, 2]"), "class Stack:\n    def __init__(self, a): self.items = a"),
    Case(asserts("assert len(Stack([1, 2]).items) == 2"), "class Stack:\n    def __init__(self, a): self.items = a"),
    Case(
        asserts("assert Point(1, y=2).norm() == 5"),
        "class Point:\n    def __init__(self, x, y): self.x = x\n    def norm(self): return self.x + 4",
    ),
    Case(
        asserts("assert Box(1).copy().value == 1"),
        "class Box:\n    def __init__(self, v): self.value = v\n    def copy(self): return Box(self.value)",
    ),
    Case(
        asserts("b = Box(1)", "x = b.grow()", "assert x == 2", "assert b.value == 2"),
        BOX,
    ),
    Case(asserts("assert Stack().size() == 0"), "class Stack:\n    def size(self): return 1", False),
    Case(asserts("assert Stack().size() == 0"), "class Stack:\n    pass", False),
    Case(
        asserts("assert Stack().size() == 0"),
        "class Z:\n    def __eq__(self, o): return True\nclass Stack:\n    def size(self): return Z()",
        False,
    ),
]
RAISES = [
    Case(asserts("with pytest.raises(ValueError):\n    f(-1)"), "def f(n): raise ValueError('x')"),
    Case(asserts("with pytest.raises(ArithmeticError):\n    f(0)"), "def f(n): return 1 / n"),
    Case(asserts("with pytest.raises(Exception):\n    f(0)"), "class E(Exception): pass\ndef f(n): raise E"),
    Case(asserts("import pytest\nwith pytest.raises(ValueError):\n    f(-1)"), "def f(n): return None", False),
    Case(asserts("with pytest.raises(ValueError):\n    f(-1)"), "def f(n): raise TypeError('ValueError')", False),
    Case(
        asserts("with pytest.raises(ValueError):\n    f(-1)", "assert f(1) == 1"), "def f(n): raise ValueError", False
    ),
    Case(
        asserts("with pytest.raises(IndexError):\n    Stack().pop()"),
        "class Stack:\n    def pop(self): return [].pop()",
    ),
    Case(
        asserts("with pytest.raises(IndexError):\n    Stack().pop()"),
        "class Stack:\n    def pop(self): return None",
        False,
    ),
    Case(asserts("with pytest.raises(ValueError):\n    f(-1)"), "import os\ndef f(n): os._exit(0)", False),
    Case(asserts("with pytest.raises(KeyError):\n    f({}, 'a')"), "def f(d, k): return d[k]"),
]
FUNCTIONS = [
    Case(asserts("assert f(lambda x: x + 1, 2) == 3"), "def f(g, x): return g(x)"),
    Case(asserts("assert f(lambda x, y: x * y, 2, 3) == 6"), "def f(g, x, y): return g(x, y)"),
    Case(asserts("assert f([3, 1], lambda x: -x) == [3, 1]"), "def f(a, k): return sorted(a, key=k)"),
    Case(asserts("assert f(len, 'abc') == 3"), "def f(g, x): return g(x)"),
    Case(asserts("assert f(sorted, [2, 1]) == [1, 2]"), "def f(g, x): return g(x)"),
    Case(asserts("assert f(max, [2, 1]) == 2"), "def f(g, x): return g(x)"),
    Case(asserts("assert f(int, '2') == 2"), "def f(g, x): return g(x)"),
    Case(asserts("assert f(lambda x: [x] * 2, 1) == [1, 1]"), "def f(g, x): return g(x)"),
    Case(asserts("assert f(lambda x: x + 1, 2) == 3"), "def f(g, x): return x", False),
    Case(asserts("assert f(lambda x: x > 1, [1, 2]) == [2]"), "def f(g, a): return filter(g, a)", False),
]
KINDS = {
    "fences": FENCES,
    "imports": IMPORTS,
    "iterators": ITERATORS,
    "python_equality": PYTHON_EQUALITY,
    "tolerance": TOLERANCE,
    "long_integers": LONG,
    "objects": OBJECTS,
    "raises": RAISES,
    "functions": FUNCTIONS,
}


def judged(sandbox: Sandbox, row: dict[str, Any], response: str) -> str:
    tests = code_tests_of(row)
    assert tests is not None
    verdict = grade_code(Response((), response), tests, sandbox, CodeOptions())
    return f"{verdict.status}: {verdict.detail}"


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_each_kind(sandbox: Sandbox, kind: str) -> None:
    cases = KINDS[kind]
    assert len(cases) >= 10
    found = [(case, judged(sandbox, case.row, case.response)) for case in cases]
    assert [pair for pair in found if pair[1].startswith("correct") != pair[0].right] == []


@pytest.mark.slow
@pytest.mark.skipif(not CASES.exists(), reason="needs code_cases.jsonl")
def test_verdicts_on_the_given_cases(sandbox: Sandbox) -> None:
    cases = [json.loads(line) for line in CASES.read_text(encoding="utf-8").splitlines()]
    for case in cases:
        if isinstance(case["problem"], str):
            # Cut off within its last assert.
            case["problem"] = json.loads(case["problem"] + "'xa', 'x']\\n\"}")
    found = {case["id"]: judged(sandbox, case["problem"], case["response"]) for case in cases}
    assert {c["id"]: found[c["id"]] for c in cases if found[c["id"]].startswith("correct") != c["expected"]} == {}
