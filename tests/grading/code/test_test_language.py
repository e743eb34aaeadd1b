"""Values of the test language are those of Python, and what could cost or reach too much is refused."""

import ast
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupwise.grading.code.language.interpreter import Interpreter, parse_tests
from groupwise.grading.code.language.literals import literal_error, literal_source
from groupwise.grading.code.language.names import ERRORS
from groupwise.grading.code.language.operations import UnsupportedError


def value_of(source: str, **names: Any) -> Any:
    return Interpreter().evaluate(ast.parse(source, mode="eval").body, names)


@pytest.mark.parametrize(
    "source",
    [
        "1 + 2 * 3 - 4 / 5 // 1 % 2",
        "2 ** 10 + (1 << 5) - (7 >> 1) + (6 & 3) + (6 | 3) + (6 ^ 3)",
        "not 1 < 2 <= 2 != 3",
        "0 or '' or 'x' and 'y'",
        "[1, *range(3), *(4, 5)]",
        "{1: 'a', 2: 'b'}[2]",
        "'hello'[1:4:2] + 'x' * 3",
        "f'{1 + 1} and {\"b\"}'",
        "[x * y for x in range(3) for y in range(x) if y]",
        "{x: x ** 2 for x in (1, 2)}",
        "{len(w) for w in 'a bb cc'.split()}",
        "sorted([3, 1, 2], key=lambda x: -x)",
        "max([1, 5, 2]), min(3, 2), sum((1, 2.5))",
        "list(zip('ab', [1, 2])), list(enumerate('ab', 1))",
        "(lambda x, y=2: x + y)(1)",
        "'a,b'.split(','), '-'.join(['a', 'b']), 'abc'.replace('b', 'xx')",
        "round(2.567, 2), abs(-3), divmod(7, 2), ord('a'), chr(98), bin(5)",
        "isinstance(True, int), isinstance('a', (int, str))",
        "list(reversed([1, 2])), any([0, 1]), all([])",
        "int('12') + float('1.5'), str(3), bool([]), frozenset([1]) == {1}",
        "1 if 2 > 3 else 4",
        "3 in [1, 2], 'a' not in 'bcd', None is None",
    ],
)
def test_expressions_mean_what_they_mean_in_python(source: str) -> None:
    mine, theirs = value_of(source), eval(source)
    assert (type(mine), mine) == (type(theirs), theirs)


def test_statements() -> None:
    source = """
import math
from string import ascii_lowercase as letters
total, words = 0, []
for i in range(10):
    if i == 7:
        break
    if i % 2:
        continue
    total += i
else:
    total = -1
while len(words) < 3:
    words.append(letters[len(words)])
    pair = a, b = len(words), 2
def fact(n):
    if n < 2:
        return 1
    return n * fact(n - 1)
table = {}
table['x'] = fact(5)
root = math.sqrt(16)
"""
    names: dict[str, Any] = {}
    Interpreter().execute(parse_tests(source).body, names)
    expected: dict[str, Any] = {}
    exec(source, expected)
    for name in ("total", "words", "pair", "a", "b", "table", "root", "i"):
        assert names[name] == expected[name], name


@pytest.mark.parametrize(
    "source",
    [
        "().__class__",
        "().__class__.__bases__[0].__subclasses__()",
        "'{0.__class__}'.format(1)",
        "'%s' % 1",
        "'%1000000000d' % 1",
        "f'{1:1000000000}'",
        "__import__('os')",
        "open('/etc/passwd')",
        "getattr(1, 'real')",
        "eval('1')",
        "exec('1')",
        "globals()",
        "print.__self__",
        "9 ** 9 ** 9",
        "1 << 10 ** 9",
        "'a' * 10 ** 9",
        "[0] * 10 ** 9",
        "list(range(10 ** 9))",
        "sum(range(10 ** 9))",
        "bytes(10 ** 9)",
        "[x for x in range(10 ** 9)]",
        "('a' * 100000).replace('a', 'b' * 100000)",
        "('a' * 1000).join(['b'] * 100000)",
        "'x'.zfill(10 ** 9)",
        "sum([[1], [2]], [])",
        "lambda: 0 in 3",
        "[f := 1]",
        "(x for x in 3)",
        "{**{}}",
        "(lambda *a: a)(1)",
        "set([k * (2 ** 61 - 1) for k in range(5000)])",
        "int('9' * 100000)",
        "5 is 5",
        "await_",
    ],
)
def test_refused(source: str) -> None:
    started = time.process_time()
    try:
        value = value_of(source)
        assert type(value).__name__ in ("Function", "Method"), value
    except ERRORS:
        pass
    assert time.process_time() - started < 3


def test_endless_work_stops() -> None:
    for source in (
        "while True:\n    pass",
        "def g(n):\n    return g(n + 1)\ng(0)",
        "x = [1]\nfor _ in range(99):\n    x = x + x",
    ):
        with pytest.raises(ERRORS):
            Interpreter().execute(parse_tests(source).body, {})


@pytest.mark.parametrize("source", ["x = (", "\0", "(" * 5000 + ")" * 5000, "-" * 100_000 + "1", "x" * 2_000_000])
def test_what_is_not_python(source: str) -> None:
    with pytest.raises((UnsupportedError, *ERRORS)):
        Interpreter().execute(parse_tests(source).body, {})


LITERALS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.complex_numbers(allow_nan=False, allow_infinity=False),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
        | st.sets(st.integers(), max_size=3)
        | st.frozensets(st.text(), max_size=3)
    ),
    max_leaves=8,
)


@given(LITERALS)
def test_the_source_of_a_literal_gives_it_back(value: Any) -> None:
    assert not literal_error(value)
    back = value_of(literal_source(value))
    assert (type(back), back) == (type(value), value)


def test_other_values_are_no_literals() -> None:
    assert literal_error([object()]) == "a value of the type object"
    nested: list[Any] = []
    for _ in range(200):
        nested = [nested]
    assert literal_error(nested) == "nested too deeply"
