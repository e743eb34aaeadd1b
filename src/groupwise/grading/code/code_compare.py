"""Whether what a program gave is what it had to give: returned values by type and value, printed text by tokens."""

import math
import re
from typing import Any

from groupwise.problem import CallTest

_DEPTH = 200
_NUMBER = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]{1,4})?")
_LONGEST_NUMBER = 400


def same_result(value: Any, test: CallTest) -> bool:
    """Whether a value, as returned or under the test's view, is the expected one within the test's tolerances.

    True and 1, a list and a tuple, a text and bytes are different; so is NaN from everything. An integer and a float of
    the same value are equal, as in the asserts of data sets.
    """
    return _same(value, test.expected, test.tolerance, test.relative_tolerance, 0)


def same_output(printed: str, expected: str, float_tolerance: float = 0.0) -> bool:
    """Whether the whole output is the expected one, token by token; how tokens are set apart does not count.

    float_tolerance: largest absolute or relative difference of numbers; 0 compares all tokens as text.
    """
    left, right = printed.split(), expected.split()
    if len(left) != len(right):
        return False
    if not float_tolerance:
        return left == right
    return all(a == b or _close_tokens(a, b, float_tolerance) for a, b in zip(left, right, strict=True))


def _same(value: Any, expected: Any, absolute: float, relative: float, depth: int) -> bool:
    if depth > _DEPTH:
        return False
    if _is_number(value) and _is_number(expected):
        return _same_number(value, expected, absolute, relative)
    if type(value) is not type(expected):
        return False
    if isinstance(expected, (list, tuple)):
        return len(value) == len(expected) and all(
            _same(item, wanted, absolute, relative, depth + 1) for item, wanted in zip(value, expected, strict=True)
        )
    if isinstance(expected, (set, frozenset)):
        wanted_items = {item: item for item in expected}
        return len(value) == len(expected) and all(
            item in wanted_items and _same(item, wanted_items[item], 0.0, 0.0, depth + 1) for item in value
        )
    if isinstance(expected, dict):
        wanted_keys = {key: key for key in expected}
        return len(value) == len(expected) and all(
            key in wanted_keys
            and _same(key, wanted_keys[key], 0.0, 0.0, depth + 1)
            and _same(item, expected[key], absolute, relative, depth + 1)
            for key, item in value.items()
        )
    return bool(value == expected)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float, complex)


def _same_number(value: Any, expected: Any, absolute: float, relative: float) -> bool:
    if value == expected:
        return True
    if not (absolute or relative):
        return False
    try:
        difference = abs(value - expected)
        largest = max(abs(value), abs(expected))
        return math.isfinite(largest) and difference <= max(absolute, relative * largest)
    except OverflowError:
        return False


def _close_tokens(left: str, right: str, tolerance: float) -> bool:
    if max(len(left), len(right)) > _LONGEST_NUMBER or not (_NUMBER.fullmatch(left) and _NUMBER.fullmatch(right)):
        return False
    a, b = float(left), float(right)
    if not (math.isfinite(a) and math.isfinite(b)):
        return False
    return abs(a - b) <= tolerance * max(1.0, abs(a), abs(b))
