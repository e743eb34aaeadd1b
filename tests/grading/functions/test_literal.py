"""Answers compared as written."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupwise.grading.as_written import literal_number, same_literal


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        ("7", "7"),
        ("+007", "7"),
        ("7.", "7"),
        ("1,000.0", "1000"),
        ("-0.50", "-0.5"),
        ("−4", "-4"),
        (".5", "0.5"),
        ("2/4", "1/2"),
        ("0.5", "1/2"),
        (r"\frac{1}{2}", "1/2"),
        (r"-\dfrac{1}{2}", "-0.5"),
        ("$7$", "7"),
        ("90°", "90"),
        (r"90^\circ", "90"),
        (r"90^{\circ}", "90"),
        (r"\text{Friday}", "Friday"),
        ("friday.", "Friday"),
        ("[1,2, 3]", "[1, 2, 3]"),
        ('["14", "-48.9"]', "['14', '-48.9']"),
        ("1 2\n3 4 ", "1 2 \n3 4"),
        ("0x5B993", "0x5b993"),
    ],
)
def test_same(answer: str, gold: str) -> None:
    assert same_literal(answer, gold)


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        ("3+4", "7"),
        ("14/2/1", "7"),
        ("14/2", "7"),
        (r"\frac{14}{2}", "7"),
        ("7 apples", "7"),
        ("1,00", "100"),
        ("0 0 0 3 0 1", "0 0 0 3 0 2"),
        ("1 2", "12"),
        ("1/0", "1"),
        ("", "7"),
        ("7", "Friday"),
        ("True", "False"),
        ("[1, 2]", "[2, 1]"),
        ("9" * 100_000, "9"),
        ("1e3", "1000"),
    ],
)
def test_different(answer: str, gold: str) -> None:
    assert not same_literal(answer, gold)


@given(st.fractions())
def test_every_ratio_is_read_exactly(number: Fraction) -> None:
    assert literal_number(str(number)) == number


@given(st.decimals(allow_nan=False, allow_infinity=False, places=4))
def test_every_decimal_is_read_exactly(number: object) -> None:
    assert literal_number(str(number)) == Fraction(str(number))


@given(st.text())
def test_any_text_is_the_same_as_itself(text: str) -> None:
    assert same_literal(text, text)
