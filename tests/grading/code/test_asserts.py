"""Asserts become calls with expected values that accept what Python's own assert accepts."""

import ast
import math
from functools import partial
from typing import Any

import pytest

from groupwise.data.programs.asserts import AssertTests, read_asserts
from groupwise.grading.code.code_compare import same_result
from groupwise.grading.code.code_view import Views
from groupwise.problem import CallTest

Asserted = partial(CallTest, as_python=True)


def read(source: str, setup: str = "", name: str = "f") -> AssertTests:
    return read_asserts(ast.parse(source).body, [name], ast.parse(setup).body)


def one(source: str, setup: str = "") -> CallTest:
    found = read(source, setup)
    assert not found.refused
    assert len(found.calls) == 1
    return found.calls[0]


def accepts(test: CallTest, value: Any, helpers: str = "") -> bool:
    if test.view:
        value, fault = Views(helpers).value(test.view, value)
        if fault:
            return False
    return same_result(value, test)


def python_accepts(source: str, value: Any, setup: str = "") -> bool:
    """What the assert itself says of a function that returns `value`."""
    names: dict[str, Any] = {"f": lambda *_, **__: value, "math": math}
    try:
        exec(setup + "\n" + source, names)
    except Exception:
        return False
    return True


@pytest.mark.parametrize(
    ("source", "args", "expected"),
    [
        ("assert f(2) == 4", (2,), 4),
        ("assert 4 == f(2)", (2,), 4),
        ("assert f(2) == 4, 'the square'", (2,), 4),
        ("assert (f('a', [1, 2]) == {'a': (1, 2)})", ("a", [1, 2]), {"a": (1, 2)}),
        ("assert f(-1, +2, ~3) == -(5)", (-1, 2, -4), -5),
        ("assert f(2**10, 'ab' * 2, [0] * 3, 7 // 2) == 1 + 2j", (1024, "abab", [0, 0, 0], 3), 1 + 2j),
        ("assert f(set([1, 2]), tuple([3]), list('ab')) == set()", ({1, 2}, (3,), ["a", "b"]), set()),
        ("assert f() is None", (), None),
        ("assert f(1) is True", (1,), True),
        ("assert f(1) is False", (1,), False),
        ("assert f(None, True) == [None, False]", (None, True), [None, False]),
        ("assert f([i * i for i in range(4) if i != 2]) == sum([1, 2, 3])", ([0, 1, 9],), 6),
        ("x = [3, 1]\ny = sorted(x)\nassert f(x) == y", ([3, 1],), [1, 3]),
        ("assert f(float('inf')) == b'ab'", (math.inf,), b"ab"),
        ("r = f(5)\nassert r == 25", (5,), 25),
    ],
)
def test_equalities(source: str, args: tuple[Any, ...], expected: Any) -> None:
    test = one(source)
    assert (test.args, test.kwargs, test.view, test.tolerance, test.relative_tolerance) == (args, (), "", 0.0, 0.0)
    assert type(test.expected) is type(expected)
    assert test.expected == expected


def test_keyword_arguments() -> None:
    assert one("assert f(1, base=2 * 4) == 3") == Asserted((1,), 3, (("base", 8),))


def test_mutable_arguments_are_taken_at_the_call() -> None:
    found = read("x = [1]\nassert f(x) == 1\nx.append(2)\nassert f(x) == 3")
    assert [call.args for call in found.calls] == [([1],), ([1, 2],)]


VALUES: list[Any] = [
    None,
    True,
    False,
    0,
    1,
    3,
    -3,
    3.0,
    3.0004,
    3.14159,
    2.9,
    math.nan,
    math.inf,
    "",
    "abc",
    "ABC",
    b"abc",
    [],
    [1, 2, 3],
    [3, 1, 2],
    [1, 2, 2, 3],
    (1, 2, 3),
    (),
    {1, 2, 3},
    {"a": 1},
    {"a": 1.0},
    [[1], (2,)],
    [1.0, 2.0, 3.0],
    1j,
]


@pytest.mark.parametrize(
    "source",
    [
        "assert f(0)",
        "assert not f(0)",
        "assert f(0) == 3",
        "assert f(0) != 3",
        "assert f(0) > 2",
        "assert 2 <= f(0)",
        "assert 2 < f(0) < 3.5",
        "assert abs(f(0) - 3) < 1e-3",
        "assert abs(3 - f(0)) <= 0.001",
        "assert 1e-3 > abs(f(0) - 3)",
        "assert abs(f(0)) < 3.5",
        "assert math.fabs(f(0) - 3) < 1e-3",
        "assert math.isclose(f(0), 3, rel_tol=1e-3)",
        "assert math.isclose(3.0, f(0), abs_tol=0.01)",
        "assert math.isclose(f(0), 3)",
        "assert round(f(0), 2) == 3.14",
        "assert set(f(0)) == set([3, 2, 1])",
        "assert set(f(0)) == {1, 2, 3}",
        "assert sorted(f(0)) == [1, 2, 3]",
        "assert tuple(f(0)) == (1, 2, 3)",
        "assert list(f(0)) == [1, 2, 3]",
        "assert len(f(0)) == 3",
        "assert f(0)[0] == 1",
        "assert f(0)[1:] == [2, 3]",
        "assert f(0) in (1, 3, 'abc')",
        "assert f(0) not in (1, 3)",
        "assert 2 in f(0)",
        "assert isinstance(f(0), list)",
        "assert isinstance(f(0), (int, float))",
        "assert f(0).lower() == 'abc'",
        "assert f(0) == [1, 2, 3] or f(0) == [3, 1, 2]",
        "assert f(0) is not None",
        "assert f(0) is None",
        "assert sum(f(0)) == 6",
        "assert max(f(0)) == 3",
        "assert f(0) + 1 == 4",
        "assert -f(0) == 3",
        "assert f(0) == {'a': 1}",
        "assert all(f(i) == 3 for i in range(2))",
        "assert f(0) == 3 and f(1) == 3",
        "r = f(0)\nassert len(r) == 3\nassert r[0] == 1",
    ],
)
def test_every_form_accepts_what_python_accepts(source: str) -> None:
    found = read(source, "import math")
    assert not found.refused
    for value in VALUES:
        mine = all(accepts(test, value) for test in found.calls)
        theirs = python_accepts(source, value, "import math")
        if isinstance(value, bool) and mine != theirs:
            # True passes for 1 in Python and for nothing but True here.
            assert theirs, (source, value)
            continue
        assert mine == theirs, (source, value)


def test_a_bool_is_no_number() -> None:
    assert python_accepts("assert f(0) == 1", True)
    assert not accepts(one("assert f(0) == 1"), True)
    assert accepts(one("assert f(0) == True"), 1)
    assert not accepts(one("assert f(0) is True"), 1)


def test_approx_of_pytest() -> None:
    test = one("assert f(0) == pytest.approx(2.5, abs=0.1)", "import pytest")
    assert (test.expected, test.tolerance, test.relative_tolerance) == (2.5, 0.1, 0.0)
    assert one("assert f(0) == approx(2.5)").relative_tolerance == 1e-6


def test_loops_over_cases() -> None:
    found = read("cases = [(1, 'one'), (2, 'two')]\nfor number, word in cases:\n    assert f(number) == word")
    assert found == AssertTests((Asserted((1,), "one"), Asserted((2,), "two")), ())
    found = read("for i in range(3):\n    if i == 1:\n        continue\n    assert f(i) == str(i)")
    assert [(call.args, call.expected) for call in found.calls] == [((0,), "0"), ((2,), "2")]
    found = read("assert all(f(x) == y for x, y in zip([1, 2], [3, 4]))")
    assert [(call.args, call.expected) for call in found.calls] == [((1,), 3), ((2,), 4)]


def test_helper_functions_and_seeded_draws() -> None:
    setup = "def shout(text, mark='!'):\n    return ''.join([c.upper() for c in text]) + mark\n"
    source = """
import random
r = random.Random(7)
for _ in range(5):
    t = r.choice(['ab', 'cd'])
    assert f(shout(t)) == t
"""
    found = read(source, setup)
    assert not found.refused
    import random

    draws = random.Random(7)
    texts = [draws.choice(["ab", "cd"]) for _ in range(5)]
    assert [(call.args[0], call.expected) for call in found.calls] == [(text.upper() + "!", text) for text in texts]


def test_draws_without_a_seed_repeat() -> None:
    source = "from random import randint\nfor _ in range(20):\n    x = randint(0, 10**6)\n    assert f(x) == x + 1"
    first, second = read(source), read(source)
    assert first == second
    assert len({call.args for call in first.calls}) > 10
    assert all(call.expected == call.args[0] + 1 for call in first.calls)


def test_a_helper_on_the_result_becomes_a_view() -> None:
    setup = "import math\ndef value(xs, x):\n    return sum([c * math.pow(x, i) for i, c in enumerate(xs)])\n"
    test = one("root = f([-4, 0, 1])\nassert abs(value([-4, 0, 1], root)) < 1e-4", setup)
    assert test.view == "value([-4, 0, 1], result)"
    assert [accepts(test, x, setup) for x in (2.0, -2, 2.00001, 1.0, None, "2", math.nan)] == [True] * 3 + [False] * 4


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("assert f(f(1)) == 1", "a call within the arguments of another"),
        ("assert f(1) == f(2)", "two calls"),
        ("assert f(1) == f(1)", "a call with itself"),
        ("assert f(open('x')) == 1", "the name `open`"),
        ("import sys\nassert f(1) == sys.getsizeof(1)", "the module sys"),
        ("k = 2\nassert f(lambda x: x + k) == 1", "a value of the type Function"),
        ("assert [x + k for x in f(0) for k in x] == [1]", "within a comprehension"),
        ("assert f(Node(1)) == 1", "the name `Node`"),
        ("assert f(1) == 9**9**9", "an integer of more than"),
        ("assert f([0] * 10**9) == 1", "a value of more than"),
        ("assert f(list(range(10**9))) == 1", "more work than is allowed"),
        ("assert f(1).__class__ == int", "a value of the type type"),
        ("assert f(().__class__.__bases__[0]) == 1", "Method"),
        ("try:\n    f(0)\n    assert False\nexcept ValueError:\n    pass", "a `try` statement"),
        ("with pytest.raises(ValueError):\n    assert f(0)", "a `with` statement"),
        ("if f(0):\n    assert f(1) == 2", "it uses what the function returned"),
        ("assert [f(x) for x in (1, 2)] == [1, 2]", "within a comprehension"),
        ("assert map(f, [1]) == [1]", "it uses the function as a value"),
        ("assert f(*[1], **{}) == 1", "`**` in a call"),
        ("assert 1 == 2", "it fails whatever the function does"),
        ("assert all(x == 1 for x in [2, f(1)])", "it uses"),
        ("x = [2, 1]\nf(x)\nassert x == [1, 2]", "`f(x)`: it uses what the function returned"),
        ("def same(a, b):\n    assert a == b\nsame(f(1), 2)", "`same(f(1), 2)`: it uses"),
        ("x = unknown()\nassert f(x) == 1", "the name `unknown`"),
        ("assert f(...) == 1", "`...`"),
        ("def g():\n    return g()\nassert f(g()) == 1", "calls nested too deeply"),
        ("while True:\n    assert f(0) == 0", "more than 2000 calls"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_reason(source: str, reason: str) -> None:
    found = read(source)
    assert reason in " ".join(found.refused)
    assert len(found.calls) == (2000 if source.startswith("while") else 0)


def test_one_refused_assert_does_not_spoil_the_others() -> None:
    found = read("assert f(1) == 1\nassert f(secret) == 2\nassert f(3) == 3")
    assert [call.args for call in found.calls] == [(1,), (3,)]
    assert found.refused == ("`assert f(secret) == 2`: the name `secret`",)


def test_asserts_on_nothing_are_left_out() -> None:
    assert read("assert True\nassert f(1) == 1\nprint\nprint('x')") == AssertTests((Asserted((1,), 1),), ())
