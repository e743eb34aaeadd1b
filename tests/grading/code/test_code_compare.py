"""Returned values by type and value, printed text by tokens."""

import math
from typing import Any

import pytest

from groupwise.grading.code.code_compare import same_output, same_result
from groupwise.problem import CallTest


@pytest.mark.parametrize(
    ("value", "expected", "same"),
    [
        (42, 42, True),
        (42, 43, False),
        (True, 1, False),
        (1, True, False),
        (0, False, False),
        (None, False, False),
        (42.0, 42, True),
        (42, 42.0, True),
        (0.1 + 0.2, 0.3, False),
        (math.nan, math.nan, False),
        ([math.nan], [math.nan], False),
        (math.inf, math.inf, True),
        (1 + 0j, 1, True),
        ("a", "a", True),
        ("a", b"a", False),
        ("1", 1, False),
        ([1, 2], (1, 2), False),
        ([1, 2], [1, 2], True),
        ([1, 2], [1, 2, 3], False),
        ([1, 2, 3], [1, 2], False),
        ([True], [1], False),
        ([[1], [2]], [[1], [2]], True),
        ({1, 2}, {2, 1}, True),
        ({True, 2}, {1, 2}, False),
        ({1, 2}, frozenset({1, 2}), False),
        ({"a": 1, "b": [2]}, {"b": [2], "a": 1}, True),
        ({"a": True}, {"a": 1}, False),
        ({True: "x"}, {1: "x"}, False),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        (10**400, 10**400, True),
        (10**400, 1.0, False),
        ("", None, False),
        ([], (), False),
    ],
)
def test_values(value: Any, expected: Any, same: bool) -> None:
    assert same_result(value, CallTest((), expected)) is same


@pytest.mark.parametrize(
    ("value", "expected", "absolute", "relative", "same"),
    [
        (1.05, 1.0, 0.1, 0.0, True),
        (1.2, 1.0, 0.1, 0.0, False),
        (101.0, 100.0, 0.0, 0.01, True),
        (102.0, 100.0, 0.0, 0.01, False),
        (102.0, 100.0, 2.0, 0.01, True),
        ([1.0, 2.05], [1.0, 2], 0.1, 0.0, True),
        ({"x": 1.01}, {"x": 1.0}, 0.1, 0.0, True),
        (math.nan, 1.0, 10.0, 1.0, False),
        (math.inf, 1.0, 10.0, 1.0, False),
        (10**400, 1.0, 0.1, 0.0, False),
        (True, 1.0, 0.5, 0.0, False),
        ("1.05", 1.0, 0.1, 0.0, False),
    ],
)
def test_tolerances(value: Any, expected: Any, absolute: float, relative: float, same: bool) -> None:
    test = CallTest((), expected, tolerance=absolute, relative_tolerance=relative)
    assert same_result(value, test) is same


def test_deep_values_end() -> None:
    value: list[Any] = []
    for _ in range(300):
        value = [value]
    assert not same_result(value, CallTest((), value))


@pytest.mark.parametrize(
    ("printed", "expected", "same"),
    [
        ("42\n", "42", True),
        ("42", "42\n\n", True),
        ("42  \r\n", "42\n", True),
        ("1 2\n3\n", "1 2\n3", True),
        ("", "42", False),
        ("42", "", False),
        ("", "", True),
        ("1\n2", "1\n2\n3", False),
        ("1\n2\n3\n4", "1\n2\n3", False),
        ("Yes", "yes", False),
        ("42.0", "42", False),
        ("042", "42", False),
        ("12", "1 2", False),
    ],
)
def test_output_is_compared_as_a_whole(printed: str, expected: str, same: bool) -> None:
    assert same_output(printed, expected) is same


@pytest.mark.parametrize(
    ("printed", "expected", "tolerance", "same"),
    [
        ("0.3333", "0.33333333", 1e-3, True),
        ("0.3333", "0.33333333", 1e-6, False),
        ("1000.5", "1000.0", 1e-3, True),
        ("42.0", "42", 1e-9, True),
        ("nan", "nan", 1e-9, True),
        ("nan", "1", 1e9, False),
        ("inf", "1", 1e9, False),
        ("1e999", "1e999", 1e-3, True),
        ("1e999", "2e999", 1e-3, False),
        ("abc", "abd", 1.0, False),
        ("1 2", "1.0 2.0 3.0", 1e-3, False),
        ("1_000", "1000", 1e-3, False),
        ("9" * 1000, "9" * 999 + "8", 1e-3, False),
    ],
)
def test_numbers_within_a_tolerance(printed: str, expected: str, tolerance: float, same: bool) -> None:
    assert same_output(printed, expected, tolerance) is same
