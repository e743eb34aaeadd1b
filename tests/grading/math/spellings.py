"""Hypothesis strategies: one mathematical value, and several of its spellings."""

from fractions import Fraction
from typing import NamedTuple

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

GROUP_SEPARATORS = (",", "{,}", r"\,", r",\!", "\u202f", "~")
FRACTION_COMMANDS = (r"\frac", r"\dfrac", r"\tfrac")
LETTERS = "abcnxyz"


class Spelled(NamedTuple):
    """Two spellings of one value, and one of another value of the same form."""

    one: str
    other: str
    wrong: str


@st.composite
def integer_text(draw: DrawFn, value: int) -> str:
    """An integer as it is written: digits, grouped digits, with `.0`, in full-width digits, with dollars around."""
    sign, digits = ("-" if value < 0 else ""), str(abs(value))
    form = draw(st.sampled_from(("plain", "grouped", "point zero", "full width", "minus sign", "braces")))
    if form == "grouped" and len(digits) > 3:
        separator = draw(st.sampled_from(GROUP_SEPARATORS))
        return sign + separator.join(_threes(digits))
    if form == "point zero":
        return f"{sign}{digits}.0"
    if form == "full width":
        return sign + "".join(chr(ord(digit) + 0xFEE0) for digit in digits)
    if form == "minus sign":
        return sign.replace("-", "\u2212") + digits
    return f"{{{sign}{digits}}}" if form == "braces" else sign + digits


@st.composite
def fraction_text(draw: DrawFn, value: Fraction) -> str:
    """A rational number as a fraction of any command, reduced or not, mixed, or a product."""
    factor = draw(st.integers(1, 9))
    top, bottom = value.numerator * factor, value.denominator * factor
    sign = "-" if top < 0 else ""
    form = draw(st.sampled_from(("command", "slash", "negative below", "mixed", "times", "parentheses")))
    if form == "slash":
        return f"{top}/{bottom}"
    if form == "negative below":
        return rf"\frac{{{-top}}}{{{-bottom}}}"
    if form == "mixed" and abs(value) > 1 and value.denominator > 1:
        whole, rest = divmod(abs(value.numerator), value.denominator)
        return rf"{sign}{whole}\frac{{{rest}}}{{{value.denominator}}}"
    if form == "times":
        return rf"{top} \cdot \frac{{1}}{{{bottom}}}"
    text = rf"{sign}{draw(st.sampled_from(FRACTION_COMMANDS))}{{{abs(top)}}}{{{bottom}}}"
    return rf"\left({text}\right)" if form == "parentheses" else text


@st.composite
def integers(draw: DrawFn) -> Spelled:
    """Integers of up to 30 digits; the wrong one differs by as little as 1."""
    value = draw(st.integers(-(10**30), 10**30) | st.integers(-50, 50))
    wrong = draw(st.sampled_from((value + 1, value - 1, 10 * value + 1, -value - 1)))
    return Spelled(draw(integer_text(value)), draw(integer_text(value)), draw(integer_text(wrong)))


@st.composite
def rationals(draw: DrawFn) -> Spelled:
    """Fractions; the wrong one is the neighbour, the negative or the reciprocal."""
    value = Fraction(draw(st.integers(-999, 999).filter(bool)), draw(st.integers(1, 999)))
    candidates = (value + Fraction(1, 997), -value, 1 / value, value + 1)
    wrong = draw(st.sampled_from([candidate for candidate in candidates if candidate != value]))
    return Spelled(draw(fraction_text(value)), draw(fraction_text(value)), draw(fraction_text(wrong)))


@st.composite
def surds(draw: DrawFn) -> Spelled:
    """c·√(k²·m) = c·k·√m; the wrong one has another radicand or coefficient."""
    coefficient = draw(st.integers(-20, 20).filter(bool))
    square, radicand = draw(st.integers(1, 9)), draw(st.integers(2, 99))
    inside = square * square * radicand
    spellings = (
        rf"{coefficient}\sqrt{{{inside}}}",
        rf"{coefficient * square}\sqrt{{{radicand}}}",
        rf"{coefficient} \cdot {inside}^{{1/2}}",
        rf"\frac{{{coefficient * square * radicand}}}{{\sqrt{{{radicand}}}}}",
        rf"\sqrt{{{radicand}}}\cdot({coefficient * square})",
    )
    wrong = draw(
        st.sampled_from(
            (
                rf"{coefficient}\sqrt{{{inside + 1}}}",
                rf"{coefficient + 1 or 2}\sqrt{{{inside}}}",
                rf"{-coefficient}\sqrt{{{inside}}}",
            )
        )
    )
    return Spelled(draw(st.sampled_from(spellings)), draw(st.sampled_from(spellings)), wrong)


@st.composite
def polynomials(draw: DrawFn) -> Spelled:
    """(ax+b)(cx+d) as a product and multiplied out in any order; the wrong one has one coefficient changed."""
    a, c = draw(st.integers(1, 12)), draw(st.integers(1, 12))
    b, d = draw(st.integers(-12, 12).filter(bool)), draw(st.integers(-12, 12).filter(bool))
    letter = draw(st.sampled_from(LETTERS))
    coefficients = [a * c, a * d + b * c, b * d]
    changed = coefficients.copy()
    changed[draw(st.integers(0, 2))] += draw(st.sampled_from((-1, 1)))
    terms = draw(st.permutations(_terms(coefficients, letter)))
    product = f"({a}{letter}{b:+})({c}{letter}{d:+})"
    spellings = (
        product,
        " + ".join(term.lstrip("+") for term in terms),
        " ".join(terms).lstrip("+"),
        rf"\left({product}\right)",
    )
    wrong = "".join(_terms(changed, letter)).lstrip("+")
    return Spelled(draw(st.sampled_from(spellings)), draw(st.sampled_from(spellings)), wrong)


@st.composite
def tuples(draw: DrawFn) -> Spelled:
    """Tuples of rational numbers; the wrong one has two parts exchanged, one more, or one fewer."""
    values = draw(st.lists(st.fractions(-20, 20, max_denominator=30), min_size=2, max_size=4, unique=True))
    brackets = (("(", ")"), (r"\left(", r"\right)"), (r"\langle ", r"\rangle"), (r"\bigl(", r"\bigr)"))

    def spell(parts: list[Fraction]) -> str:
        left, right = draw(st.sampled_from(brackets))
        comma = draw(st.sampled_from((",", ", ", r",\ ", r",\,")))
        return left + comma.join(draw(fraction_text(part) if part else st.just("0")) for part in parts) + right

    wrong = draw(st.sampled_from((values[::-1], [*values, Fraction(21)], [Fraction(21), *values[1:]])))
    return Spelled(spell(values), spell(values), spell(wrong))


@st.composite
def solution_sets(draw: DrawFn) -> Spelled:
    """Sets of integers in braces; the wrong one lacks an element or has one more."""
    values = draw(st.lists(st.integers(-99, 99), min_size=2, max_size=6, unique=True))

    def spell(parts: list[int]) -> str:
        shuffled = ", ".join(map(str, draw(st.permutations(parts))))
        return draw(st.sampled_from((rf"\{{{shuffled}\}}", rf"\left\{{{shuffled}\right\}}", shuffled)))

    wrong = draw(st.sampled_from((values[1:], [*values, 100])))
    return Spelled(spell(values), spell(values), spell(wrong))


@st.composite
def lines(draw: DrawFn) -> Spelled:
    """ax+by=c, scaled, turned round or solved for y; the wrong one has another right side."""
    a, b, c = draw(st.integers(1, 9)), draw(st.integers(1, 9)), draw(st.integers(-20, 20))
    factor = draw(st.integers(-5, 5).filter(bool))
    spellings = (
        f"{a}x+{b}y={c}",
        f"{c}={b}y+{a}x",
        f"{factor * a}x{factor * b:+}y={factor * c}",
        f"{a}x+{b}y{-c:+}=0",
        rf"y=\frac{{{c}-{a}x}}{{{b}}}",
    )
    wrong = draw(st.sampled_from((f"{a}x+{b}y={c + 1}", f"{a}x-{b}y={c}", f"{a}x+{b}z={c}")))
    return Spelled(draw(st.sampled_from(spellings)), draw(st.sampled_from(spellings)), wrong)


def every_form() -> SearchStrategy[Spelled]:
    """Any of them."""
    return st.one_of(integers(), rationals(), surds(), polynomials(), tuples(), solution_sets(), lines())


def _threes(digits: str) -> list[str]:
    head = len(digits) % 3
    return ([digits[:head]] if head else []) + [digits[i : i + 3] for i in range(head, len(digits), 3)]


def _terms(coefficients: list[int], letter: str) -> list[str]:
    powers = (rf"{letter}^{{2}}", letter, "")
    return [f"{value:+}{power}" for value, power in zip(coefficients, powers, strict=True) if value]
