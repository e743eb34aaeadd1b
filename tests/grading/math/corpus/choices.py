"""Every choice of the policy, both ways: (option and value, answer, reference answer, verdict)."""

from collections.abc import Iterator

from groupwise.grading.math.math_options import MathOptions
from groupwise.grading.records import Status
from tests.grading.math.corpus.kind import Case, boxed

Option = dict[str, object]

RIGHT: tuple[Status, ...] = ("correct",)
WRONG: tuple[Status, ...] = ("wrong",)

EQUAL: Option = {"percent": "equal"}
STRICT: Option = {"percent": "strict"}
LENIENT_UNITS: Option = {"units": "lenient"}
STRICT_UNITS: Option = {"units": "strict"}
EXACT: Option = {"relative_tolerance": 0.0}
ONE_PERCENT: Option = {"relative_tolerance": 0.01}
REDUCED: Option = {"unreduced": "wrong"}
ANY_FRACTION: Option = {"unreduced": "equal"}
ORDERED: Option = {"order": "strict"}
UNORDERED: Option = {"order": "ignore"}
BY_GOLD: Option = {"order": "by_gold"}
NO_DIGITS: Option = {"correct_digits": 0}
SIX_DIGITS: Option = {"correct_digits": 6}
NINE_DIGITS: Option = {"correct_digits": 9}
INTERVAL_BY_GOLD: Option = {"inequality": "by_gold"}
INTERVAL_EQUAL: Option = {"inequality": "equal"}
INTERVAL_STRICT: Option = {"inequality": "strict"}

CHOICES: tuple[tuple[Option, str, str, tuple[Status, ...]], ...] = (
    (EQUAL, "0.5", r"50\%", RIGHT),
    (STRICT, "0.5", r"50\%", WRONG),
    (EQUAL, "50", r"50\%", RIGHT),
    (STRICT, "50", r"50\%", WRONG),
    (STRICT, r"50\%", r"50\%", RIGHT),
    (STRICT, r"50 \text{ percent}", r"50\%", RIGHT),
    (STRICT, r"51\%", r"50\%", WRONG),
    (LENIENT_UNITS, "12", r"12 \text{ cm}", RIGHT),
    (STRICT_UNITS, "12", r"12 \text{ cm}", WRONG),
    (STRICT_UNITS, r"12\text{ cm}", r"12 \text{ cm}", RIGHT),
    (STRICT_UNITS, r"120\text{ mm}", r"12 \text{ cm}", RIGHT),
    (STRICT_UNITS, r"12\text{ m}", r"12 \text{ cm}", WRONG),
    (STRICT_UNITS, "12", "12", RIGHT),
    (EXACT, "3.14", "3.1415", WRONG),
    (ONE_PERCENT, "3.14", "3.1415", RIGHT),
    (ONE_PERCENT, "3.14", r"\pi", RIGHT),
    (ONE_PERCENT, "3.2", r"\pi", WRONG),
    (ONE_PERCENT, "-3.14", r"\pi", WRONG),
    (ONE_PERCENT, "100", "101", WRONG),
    (ONE_PERCENT, "0.01", "0", WRONG),
    (ONE_PERCENT, "(0.333, 2)", r"(\frac13, 2)", RIGHT),
    (ANY_FRACTION, r"\frac24", r"\frac12", RIGHT),
    (REDUCED, r"\frac24", r"\frac12", WRONG),
    (REDUCED, r"\frac12", r"\frac12", RIGHT),
    (REDUCED, "0.5", r"\frac12", RIGHT),
    (BY_GOLD, "3,1", "1,3", RIGHT),
    (ORDERED, "3,1", "1,3", WRONG),
    (ORDERED, "1,3", "1,3", RIGHT),
    (BY_GOLD, "(2,1)", "(1,2)", WRONG),
    (UNORDERED, "(2,1)", "(1,2)", RIGHT),
    (UNORDERED, "(2,2)", "(1,2)", WRONG),
    (UNORDERED, "(1,2,3)", "(1,2)", WRONG),
    (UNORDERED, "(2,1]", "(1,2]", WRONG),
    (SIX_DIGITS, "0.333333", r"\frac13", RIGHT),
    (SIX_DIGITS, "0.33333", r"\frac13", WRONG),
    (SIX_DIGITS, "0.666666", r"\frac23", RIGHT),
    (SIX_DIGITS, "0.666667", r"\frac23", RIGHT),
    (SIX_DIGITS, "0.666668", r"\frac23", WRONG),
    (NO_DIGITS, "0.333333333333", r"\frac13", WRONG),
    (NO_DIGITS, "3.14159265358979", r"\pi", WRONG),
    (NO_DIGITS, "0.125", r"\frac18", RIGHT),
    (NINE_DIGITS, "0.333333", r"\frac13", WRONG),
    (NINE_DIGITS, "0.333333333", r"\frac13", RIGHT),
    (INTERVAL_BY_GOLD, r"(-\infty,3)", "x<3", RIGHT),
    (INTERVAL_BY_GOLD, "x<3", r"(-\infty,3)", WRONG),
    (INTERVAL_EQUAL, "x<3", r"(-\infty,3)", RIGHT),
    (INTERVAL_EQUAL, r"(-\infty,3)", "x<3", RIGHT),
    (INTERVAL_EQUAL, r"x\le 3", r"(-\infty,3)", WRONG),
    (INTERVAL_STRICT, r"(-\infty,3)", "x<3", WRONG),
    (INTERVAL_STRICT, "x<3", "3>x", RIGHT),
)


def policy_cases() -> Iterator[Case]:
    """One case for each line."""
    for option, answer, gold, statuses in CHOICES:
        (name, value), *_ = option.items()
        yield Case(
            f"{name}={value}: {answer} for {gold}", boxed(answer), gold, statuses, MathOptions.model_validate(option)
        )
