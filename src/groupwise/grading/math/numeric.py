"""Irrational values, in arithmetic of high precision."""

import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from mpmath.ctx_mp import MPContext

from groupwise.grading.math.bounds import MAX_BITS, MAX_FACTORIAL, Budget, OutOfBoundsError, UndefinedError
from groupwise.grading.math.points import ordinary_points
from groupwise.grading.math.tree import Const, Node, Num, Op, Var

_local = threading.local()
_MAX_ANGLE_BITS = 80
# The first gamma function at a precision makes its table, whose time grows with the cube of the precision.
_MAX_GAMMA_BITS = 300


def context() -> Any:
    """The arithmetic of this thread, whose precision no other thread changes."""
    found = getattr(_local, "context", None)
    if found is None:
        found = _local.context = MPContext()
    return found


class Numeric:
    """Values of trees at a point and a precision, within a budget.

    `span` is the range of binary magnitudes that was met: what is lost by cancellation is at most so many bits.
    """

    def __init__(self, bits: int, point: Mapping[str, Fraction], budget: Budget) -> None:
        self.mp = context()
        self.mp.prec = bits
        self.bits = bits
        self.point = point
        self.budget = budget
        self.cost = 1 + bits // 400 + (bits // 1500) ** 2
        self.highest = self.lowest = 0

    def value(self, node: Node) -> Any:
        """The value of a tree. Raises UndefinedError and OutOfBoundsError."""
        try:
            return self._value(node)
        except (ZeroDivisionError, ValueError, OverflowError) as error:
            raise UndefinedError(str(error)) from error

    def _value(self, node: Node) -> Any:
        self.budget.spend(5 * self.cost)
        if isinstance(node, Num):
            return self._seen(self._fraction(node.value))
        if isinstance(node, Var):
            return self._fraction(self.point[node.name])
        if isinstance(node, Const):
            if node.name == "i":
                return self.mp.j
            if node.name in ("pi", "e"):
                return +getattr(self.mp, node.name)
        if not isinstance(node, Op):
            raise UndefinedError("no number")
        return self._seen(self._operation(node.name, [self._value(argument) for argument in node.args]))

    def _fraction(self, value: Fraction) -> Any:
        if value.numerator.bit_length() > MAX_BITS or value.denominator.bit_length() > MAX_BITS:
            raise OutOfBoundsError("a number of too many digits")
        return self.mp.mpf(value.numerator) / value.denominator

    def _seen(self, value: Any) -> Any:
        """Keeps magnitudes within bounds."""
        if not value:
            return value
        if not self.mp.isfinite(value):
            raise UndefinedError("no finite value")
        magnitude = int(self.mp.mag(value))
        if abs(magnitude) > MAX_BITS:
            raise OutOfBoundsError("a number of too many digits")
        self.highest = max(self.highest, magnitude)
        self.lowest = min(self.lowest, magnitude)
        return value

    def _operation(self, name: str, x: list[Any]) -> Any:
        if name in _ARITHMETIC:
            return _ARITHMETIC[name](x)
        self.budget.spend(40 * self.cost)
        if name in _OPERATIONS:
            return _OPERATIONS[name](self, *x)
        if name in ("max", "min"):
            return (max if name == "max" else min)(map(self.real, x))
        return self._function(name, x[0])

    def log(self, x: Any, base: Any = None) -> Any:
        """The logarithm, natural without a base."""
        if not x:
            raise UndefinedError("the logarithm of zero")
        return self.mp.ln(x) if base is None else self.mp.ln(x) / self.mp.ln(base)

    def mod(self, x: Any, modulus: Any) -> Any:
        """The remainder, which has the sign of the modulus."""
        return self.real(x) - self.real(modulus) * self.mp.floor(self.real(x) / self.real(modulus))

    def factorial(self, *x: Any) -> Any:
        """Of one number, or the binomial of two: of integers exactly, of a variable by the gamma function."""
        x = tuple(map(self.real, x))
        if any(abs(value) > MAX_FACTORIAL for value in x):
            raise OutOfBoundsError(f"a factorial of more than {MAX_FACTORIAL}")
        if all(self.mp.isint(value) and value >= 0 for value in x):
            integers = [int(value) for value in x]
            return self.mp.mpf(math.factorial(*integers) if len(x) == 1 else math.comb(*integers))
        if self.bits > _MAX_GAMMA_BITS:
            raise OutOfBoundsError("a factorial at a high precision")
        self.budget.spend(300 * self.cost)
        return self.mp.gamma(x[0] + 1) if len(x) == 1 else self.mp.binomial(*x)

    def _function(self, name: str, x: Any) -> Any:
        self.budget.spend(60 * self.cost)
        if (x and int(self.mp.mag(x)) > _MAX_ANGLE_BITS) or (name in ("sinh", "cosh", "tanh") and abs(x) > 20_000):
            raise OutOfBoundsError("too large an angle")
        if name.startswith("arc"):
            return getattr(self.mp, "a" + name[3:])(x)
        if name not in ("sin", "cos", "tan", "cot", "sec", "csc", "sinh", "cosh", "tanh"):
            raise UndefinedError(f"no value of {name}")
        if isinstance(x, self.mp.mpc) and abs(x) > 20_000:
            raise OutOfBoundsError("too large an angle")
        value = getattr(self.mp, {"cot": "tan", "sec": "cos", "csc": "sin"}.get(name, name))(x)
        return 1 / value if name in ("cot", "sec", "csc") else value

    def root(self, x: Any, degree: Any) -> Any:
        """The root of a degree, real where the degree is odd."""
        if degree == 2:
            return self.mp.sqrt(x)
        if self.mp.isint(degree) and 0 < degree <= 1000:
            n = int(degree)
            if n % 2 and self.is_real(x) and self.real(x) < 0:
                return -self.mp.root(-self.real(x), n)
            return self.mp.root(x, n)
        return self.power(x, 1 / degree)

    def power(self, base: Any, exponent: Any) -> Any:
        """The power; 0^0 is 1."""
        if not base:
            if self.real(exponent) < 0:
                raise UndefinedError("division by zero")
            return self.mp.mpf(0 if exponent else 1)
        if abs(exponent) * (abs(int(self.mp.mag(base))) + 4) > MAX_BITS:
            raise OutOfBoundsError("a power of too many digits")
        return self.mp.power(base, exponent)

    def is_real(self, x: Any) -> bool:
        """Whether the value is real, up to rounding."""
        return not x.imag or abs(x.imag) <= abs(x) * self.mp.mpf(2) ** (60 - self.bits)

    def real(self, x: Any) -> Any:
        """The value as a real one. Raises UndefinedError for a complex one."""
        if not self.is_real(x):
            raise UndefinedError("a complex number where only a real one has a meaning")
        return x.real


_ARITHMETIC: dict[str, Callable[[list[Any]], Any]] = {
    "add": lambda x: sum(x[1:], x[0]),
    "neg": lambda x: -x[0],
    "mul": lambda x: math.prod(x[1:], start=x[0]),
    "div": lambda x: x[0] / x[1],
    "percent": lambda x: x[0] / 100,
}
_OPERATIONS: dict[str, Callable[..., Any]] = {
    "root": Numeric.root,
    "pow": Numeric.power,
    "exp": lambda at, x: at.power(+at.mp.e, x),
    "abs": lambda _, x: abs(x),
    "degree": lambda at, x: x * at.mp.pi / 180,
    "floor": lambda at, x: at.mp.floor(at.real(x)),
    "ceil": lambda at, x: at.mp.ceil(at.real(x)),
    "ln": Numeric.log,
    "log_base": Numeric.log,
    "log10": lambda at, x: at.log(x, at.mp.mpf(10)),
    "mod": Numeric.mod,
    "factorial": Numeric.factorial,
    "binomial": Numeric.factorial,
}


def values_at_points(nodes: Sequence[Node], bits: int, budget: Budget) -> Iterator[tuple[Numeric, list[Any]]]:
    """The values of trees at each of the points at which all of them have one."""
    for point in ordinary_points(nodes, budget):
        numeric = Numeric(bits, point, budget)
        try:
            values = [numeric.value(node) for node in nodes]
        except UndefinedError:
            continue
        yield numeric, values


def as_fraction(value: Any) -> Fraction | None:
    """A real value of this module as the rational number that it is in memory; None for a complex one."""
    if value.imag and abs(value.imag) > abs(value) / 2**100:
        return None
    sign, mantissa, exponent, _ = value.real._mpf_
    fraction: Fraction = Fraction(int(mantissa)) * Fraction(2) ** int(exponent)
    return -fraction if sign else fraction
