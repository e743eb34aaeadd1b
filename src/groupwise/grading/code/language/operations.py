"""Operators of the test language on plain values, each with its cost known before it is carried out."""

import ast
import operator
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from typing import Any

from groupwise.grading.sandbox.wire_values import Items

LARGEST_BITS = 100_000
LARGEST_LENGTH = 1_000_000
WORK = 500_000
_LARGEST_COLLISION = 1000


class UnsupportedError(ValueError):
    """Something that the test language does not have, or that costs more than it allows; the message says what."""


class Budget:
    """How much work is left: one unit for every node visited and every element made."""

    def __init__(self, work: int = WORK) -> None:
        self.left = work

    def charge(self, work: int) -> None:
        """Raises UnsupportedError where there is less left."""
        self.left -= work
        if self.left < 0:
            raise UnsupportedError("more work than is allowed")


NUMBERS = (bool, int, float, complex, Fraction)
SEQUENCES = (str, bytes, list, tuple)
PLAIN = (*NUMBERS, *SEQUENCES, dict, set, frozenset, range, Items, type(None))

_SAFE_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Sub: operator.sub,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
}
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Invert: operator.invert,
    ast.Not: operator.not_,
}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda left, right: left in right,
    ast.NotIn: lambda left, right: left not in right,
}


def size_of(value: object) -> int:
    """Elements of a collection; 1 for anything else."""
    if isinstance(value, Items):
        return len(value.items)
    return len(value) if isinstance(value, (*SEQUENCES, dict, set, frozenset, range)) else 1


def refuse_collisions(keys: Any) -> None:
    """Many keys of one hash make a table as slow as the square of their number. Raises UnsupportedError for those."""
    if not isinstance(keys, (list, tuple)) or len(keys) <= _LARGEST_COLLISION:
        return
    by_hash = sorted(keys, key=hash)
    if sum(hash(one) == hash(other) and one != other for one, other in pairwise(by_hash)) > _LARGEST_COLLISION:
        raise UnsupportedError("too many keys of one hash")


def binary(operation: ast.operator, left: Any, right: Any, budget: Budget) -> Any:
    """`left operation right`. Raises UnsupportedError, TypeError or ArithmeticError."""
    _require_plain(left, right)
    budget.charge(1)
    if isinstance(operation, ast.Add):
        budget.charge(_checked_length(size_of(left) + size_of(right)))
        return left + right
    if isinstance(operation, ast.Mult):
        return _multiply(left, right, budget)
    if isinstance(operation, ast.Pow):
        if isinstance(left, int) and isinstance(right, int):
            _check_bits(left.bit_length() * abs(right))
        if isinstance(left, Fraction) or isinstance(right, Fraction):
            raise UnsupportedError("the power of a fraction")
        return left**right
    if isinstance(operation, ast.LShift) and isinstance(left, int) and isinstance(right, int):
        _check_bits(left.bit_length() + abs(right))
        return left << right
    if type(operation) not in _SAFE_BINARY or (isinstance(operation, ast.Mod) and isinstance(left, (str, bytes))):
        raise UnsupportedError(f"the operator {type(operation).__name__} on {type(left).__name__}")
    budget.charge(size_of(left) + size_of(right))
    return _SAFE_BINARY[type(operation)](left, right)


def unary(operation: ast.unaryop, value: Any) -> Any:
    """`operation value`. Raises UnsupportedError or TypeError."""
    _require_plain(value)
    return _UNARY[type(operation)](value)


def compare(operation: ast.cmpop, left: Any, right: Any, budget: Budget) -> Any:
    """`left operation right`. Raises UnsupportedError or TypeError."""
    _require_plain(left, right)
    budget.charge(size_of(left) + size_of(right))
    return _COMPARE[type(operation)](left, right)


def _multiply(left: Any, right: Any, budget: Budget) -> Any:
    if isinstance(left, int) and isinstance(right, int):
        _check_bits(left.bit_length() + right.bit_length())
    for sequence, times in ((left, right), (right, left)):
        if isinstance(sequence, SEQUENCES) and isinstance(times, int):
            budget.charge(_checked_length(len(sequence) * max(times, 0)))
    return left * right


def _checked_length(length: int) -> int:
    if length > LARGEST_LENGTH:
        raise UnsupportedError(f"a value of more than {LARGEST_LENGTH} elements")
    return length


def _check_bits(bits: int) -> None:
    if bits > LARGEST_BITS:
        raise UnsupportedError(f"an integer of more than {LARGEST_BITS} bits")


def _require_plain(*values: object) -> None:
    for value in values:
        if type(value) not in PLAIN:
            raise UnsupportedError(f"an operation on {type(value).__name__}")
