"""Whether what a program gave is what it had to give: returned values by type and value, printed text by tokens."""

import math
import re
from fractions import Fraction
from typing import Any, NamedTuple

from groupwise.problem import CallTest

_DEPTH = 200
_NUMBER = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]{1,4})?")
_LONGEST_NUMBER = 400


def same_result(value: Any, test: CallTest) -> bool:
    """Whether a value, as returned or under the test's view, is the expected one within the test's tolerances.

    True and 1, a list and a tuple, a text and bytes are different; so is NaN from everything. Numbers of one value
    are equal, whatever their types. `test.as_python`: 1 will do where True is expected, though
    not True for 1, and a set for a frozen one.
    """
    return _same(value, test.expected, _Equality(test.tolerance, test.relative_tolerance, test.as_python), 0)


def same_output(printed: str, expected: str, float_tolerance: float = 0.0) -> bool:
    """Whether the whole output is the expected one, token by token; how tokens are set apart does not count.

    float_tolerance: largest absolute or relative difference of numbers where the expected one has a point or an
    exponent; an integer may end in `.0`. All other tokens, and with 0 every token, are compared as text.
    """
    left, right = printed.split(), expected.split()
    if len(left) != len(right):
        return False
    if not float_tolerance:
        return left == right
    return all(a == b or _close_tokens(a, b, float_tolerance) for a, b in zip(left, right, strict=True))


class _Equality(NamedTuple):
    absolute: float = 0.0
    relative: float = 0.0
    as_python: bool = False

    @property
    def exact(self) -> "_Equality":
        """Of what a set or the keys of a dictionary hold."""
        return self._replace(absolute=0.0, relative=0.0)


def _same(value: Any, expected: Any, how: _Equality, depth: int) -> bool:
    if depth > _DEPTH:
        return False
    if _is_number(value) and (_is_number(expected) or (how.as_python and type(expected) is bool)):
        return _same_number(value, expected, how)
    sets = how.as_python and isinstance(value, (set, frozenset)) and isinstance(expected, (set, frozenset))
    if type(value) is not type(expected) and not sets:
        return False
    if isinstance(expected, (list, tuple)):
        return len(value) == len(expected) and all(
            _same(item, wanted, how, depth + 1) for item, wanted in zip(value, expected, strict=True)
        )
    if isinstance(expected, (set, frozenset)):
        wanted_items = {item: item for item in expected}
        return len(value) == len(expected) and all(
            item in wanted_items and _same(item, wanted_items[item], how.exact, depth + 1) for item in value
        )
    if isinstance(expected, dict):
        wanted_keys = {key: key for key in expected}
        return len(value) == len(expected) and all(
            key in wanted_keys
            and _same(key, wanted_keys[key], how.exact, depth + 1)
            and _same(item, expected[key], how, depth + 1)
            for key, item in value.items()
        )
    return bool(value == expected)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float, complex, Fraction)


def _same_number(value: Any, expected: Any, how: _Equality) -> bool:
    if value == expected:
        return True
    if not (how.absolute or how.relative):
        return False
    try:
        difference = abs(value - expected)
        largest = max(abs(value), abs(expected))
        return math.isfinite(largest) and difference <= max(how.absolute, how.relative * largest)
    except OverflowError:
        return False


def _close_tokens(left: str, right: str, tolerance: float) -> bool:
    if right.lstrip("+-").isdigit():
        return "." in left and left.rstrip("0").removesuffix(".") == right
    if max(len(left), len(right)) > _LONGEST_NUMBER or not (_NUMBER.fullmatch(left) and _NUMBER.fullmatch(right)):
        return False
    a, b = float(left), float(right)
    if not (math.isfinite(a) and math.isfinite(b)):
        return False
    return abs(a - b) <= tolerance * max(1.0, abs(a), abs(b))
