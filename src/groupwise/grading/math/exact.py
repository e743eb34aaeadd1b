"""Exact values: rational numbers, and rational functions modulo a prime."""

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import partial, reduce
from hashlib import blake2b
from operator import add, mod, mul, truediv

from groupwise.grading.math.bounds import (
    MAX_BITS,
    MAX_DIGITS,
    MAX_FACTORIAL,
    Budget,
    OutOfBoundsError,
    UndefinedError,
)
from groupwise.grading.math.tree import Const, Node, Num, Op, Var

# A prime that is 1 modulo 4, so that -1 has a square root: exact arithmetic with i.
PRIME = 2**127 - 39
IMAGINARY = 155782814877520920072798144727220504337

_MAX_ROOT_BITS = 4_000
_Operation = Callable[[list[Fraction], Budget], Fraction | None]


def bits_of(value: Fraction) -> int:
    """Bits of the numerator and the denominator."""
    return value.numerator.bit_length() + value.denominator.bit_length()


def exact(node: Node, budget: Budget) -> Fraction | None:
    """The value of a rational number; None for anything else.

    Raises OutOfBoundsError before anything large is computed, and UndefinedError for what has no value.
    """
    budget.spend(2)
    if isinstance(node, Num):
        budget.spend_bits(bits_of(node.value))
        return node.value
    if not isinstance(node, Op):
        return None
    values: list[Fraction] = []
    for argument in node.args:
        if (value := exact(argument, budget)) is None:
            return None
        values.append(value)
    operation = _OPERATIONS.get(node.name)
    return None if operation is None else operation(values, budget)


def _in_turn(operation: Callable[[Fraction, Fraction], Fraction], divides: bool = False) -> _Operation:
    """An operation of two numbers on several, from the left."""

    def result(values: list[Fraction], budget: Budget) -> Fraction:
        total = values[0]
        for value in values[1:]:
            if divides and not value:
                raise UndefinedError("division by zero")
            budget.spend_bits(bits_of(total) + bits_of(value))
            total = operation(total, value)
        return total

    return result


def _power(values: list[Fraction], budget: Budget) -> Fraction | None:
    base, exponent = values
    if exponent.denominator != 1:
        if base < 0 or exponent.denominator > 64:
            return None
        root = exact_root(base, exponent.denominator)
        return None if root is None else _power([root, Fraction(exponent.numerator)], budget)
    if base in (0, 1, -1):
        if not base and exponent <= 0:
            if exponent < 0:
                raise UndefinedError("division by zero")
            return Fraction(1)
        return base if exponent.numerator % 2 or base >= 0 else Fraction(1)
    if abs(exponent) > MAX_BITS or abs(exponent.numerator) * (bits_of(base) - 1) > 2 * MAX_BITS:
        raise OutOfBoundsError(f"a power of more than {MAX_DIGITS} digits")
    budget.spend_bits(min(MAX_BITS, abs(exponent.numerator) * bits_of(base)))
    return base**exponent.numerator


def _root(values: list[Fraction], budget: Budget) -> Fraction | None:
    radicand, degree = values
    if degree.denominator != 1 or not 1 <= degree <= 64 or (radicand < 0 and degree.numerator % 2 == 0):
        return None
    root = exact_root(abs(radicand), degree.numerator)
    budget.spend(20)
    return -root if root is not None and radicand < 0 else root


def exact_root(value: Fraction, degree: int) -> Fraction | None:
    """The root of a non-negative rational where it is rational."""
    if bits_of(value) > _MAX_ROOT_BITS:
        return None
    above, below = _integer_root(value.numerator, degree), _integer_root(value.denominator, degree)
    return None if above is None or below is None else Fraction(above, below)


def _integer_root(value: int, degree: int) -> int | None:
    if degree == 2:
        root = math.isqrt(value)
        return root if root * root == value else None
    if value < 2 or degree == 1:
        return value
    if value.bit_length() <= degree:
        return None
    low, high = 1, 1 << (value.bit_length() // degree + 1)
    while low < high:
        middle = (low + high + 1) // 2
        if middle**degree <= value:
            low = middle
        else:
            high = middle - 1
    return low if low**degree == value else None


def _factorial(values: list[Fraction], budget: Budget, step: int = 1) -> Fraction:
    """The product of every step-th number down from a natural one."""
    value = values[0]
    if value.denominator != 1 or value < 0:
        raise UndefinedError("a factorial of what is no natural number")
    if value > MAX_FACTORIAL:
        raise OutOfBoundsError(f"a factorial of more than {MAX_FACTORIAL}")
    n = value.numerator
    budget.spend_bits(n * n.bit_length())
    return Fraction(math.factorial(n) if step == 1 else math.prod(range(n, 0, -step)))


def _binomial(values: list[Fraction], budget: Budget) -> Fraction:
    n, k = values
    if n.denominator != 1 or k.denominator != 1 or n < 0:
        raise UndefinedError("a binomial of what is no natural number")
    if k < 0 or k > n:
        return Fraction(0)
    k = min(k, n - k)
    if k > MAX_FACTORIAL or k.numerator * n.numerator.bit_length() > MAX_BITS:
        raise OutOfBoundsError(f"a binomial of more than {MAX_DIGITS} digits")
    budget.spend_bits(k.numerator * n.numerator.bit_length())
    return Fraction(math.comb(n.numerator, k.numerator))


def _integers(values: list[Fraction]) -> list[int]:
    if any(value.denominator != 1 for value in values):
        raise UndefinedError("a divisor of what is no integer")
    return [value.numerator for value in values]


def _lcm(values: list[Fraction], budget: Budget) -> Fraction:
    total = 1
    for value in _integers(values):
        budget.spend_bits(total.bit_length() + value.bit_length())
        total = math.lcm(total, value)
    return Fraction(total)


_divided = _in_turn(truediv, divides=True)
_OPERATIONS: dict[str, _Operation] = {
    "add": _in_turn(add),
    "mul": _in_turn(mul),
    "div": _divided,
    "mod": _in_turn(mod, divides=True),
    "neg": lambda values, _: -values[0],
    "percent": lambda values, budget: _divided([values[0], Fraction(100)], budget),
    "pow": _power,
    "root": _root,
    "factorial": _factorial,
    "double_factorial": partial(_factorial, step=2),
    "binomial": _binomial,
    "abs": lambda values, _: abs(values[0]),
    "floor": lambda values, _: Fraction(math.floor(values[0])),
    "ceil": lambda values, _: Fraction(math.ceil(values[0])),
    "max": lambda values, _: max(values),
    "min": lambda values, _: min(values),
    "gcd": lambda values, _: Fraction(math.gcd(*_integers(values))),
    "lcm": _lcm,
}


def residue(name: str, point: int, salt: int) -> int:
    """The value of a variable at a point, modulo the prime."""
    return int.from_bytes(blake2b(f"{salt}:{point}:{name}".encode(), digest_size=16).digest(), "big") % PRIME


def modular(node: Node, point: int, budget: Budget, given: Mapping[str, int] | None = None) -> int | None:
    """The value modulo the prime at a point; None for what is no rational function over the Gaussian rationals.

    Two different rational functions of degree d agree at a random point with a chance of at most d / 2^126
    (Schwartz-Zippel). pi and e are transcendental, and stand for variables. Raises UndefinedError at a pole.
    """
    budget.spend(2)
    if isinstance(node, Num):
        budget.spend_bits(bits_of(node.value))
        above, below = node.value.as_integer_ratio()
        return above % PRIME * _inverse(below) % PRIME if below > 1 else above
    if isinstance(node, Const) and node.name not in ("pi", "e"):
        return IMAGINARY if node.name == "i" else None
    if isinstance(node, Var | Const):
        return given[node.name] if given and node.name in given else residue(node.name, point, budget.salt)
    if not isinstance(node, Op):
        return None
    if node.name == "pow":
        return _modular_power(node, point, budget, given)
    operation = _MODULAR.get(node.name)
    if operation is None:
        value_exact = exact(node, budget)
        return None if value_exact is None else modular(Num(value_exact), point, budget)
    values: list[int] = []
    for argument in node.args:
        if (part := modular(argument, point, budget, given)) is None:
            return None
        values.append(part)
    return operation(values)


def _modular_power(node: Op, point: int, budget: Budget, given: Mapping[str, int] | None) -> int | None:
    exponent = exact(node.args[1], budget)
    if exponent is None:
        return None
    if exponent.denominator != 1:
        value = exact(node, budget)
        return None if value is None else modular(Num(value), point, budget)
    if bits_of(exponent) > 64:
        raise OutOfBoundsError("a power of more than 64 bits")
    base = modular(node.args[0], point, budget, given)
    if base is None:
        return None
    budget.spend(10)
    return pow(base if exponent >= 0 else _inverse(base), abs(exponent.numerator), PRIME)


def _inverse(value: int) -> int:
    if not value % PRIME:
        raise UndefinedError("division by zero")
    return pow(value, -1, PRIME)


_MODULAR: dict[str, Callable[[list[int]], int]] = {
    "add": lambda values: sum(values) % PRIME,
    "mul": lambda values: reduce(lambda total, value: total * value % PRIME, values, 1),
    "div": lambda values: values[0] * _inverse(values[1]) % PRIME,
    "neg": lambda values: -values[0] % PRIME,
    "percent": lambda values: values[0] * _inverse(100) % PRIME,
}
