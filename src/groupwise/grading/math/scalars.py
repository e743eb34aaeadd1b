"""Whether two expressions have the same value."""

from fractions import Fraction
from typing import Any

from groupwise.grading.math.bounds import Budget, OutOfBoundsError, UndefinedError
from groupwise.grading.math.exact import PRIME, bits_of, exact, modular
from groupwise.grading.math.math_options import MathOptions
from groupwise.grading.math.numeric import Numeric, as_fraction, values_at_points
from groupwise.grading.math.points import refuting_points
from groupwise.grading.math.tree import Const, Node, Num, Op, contains, literal, parts_of, variables

_FIRST_BITS, _MORE_BITS, _MAX_BITS = 260, 520, 12_000
_FIRST_SPAN = 100
_FLOAT_DIGITS = 15
_LEAST_DECIMALS, _DIGITS_MORE = 4, 3
_IMAGINARY, _INFINITY = Const("i"), Const("oo")
_TEN = Num(Fraction(10))


def infinite(node: Node) -> int:
    """1 for infinity, -1 for minus infinity, 0 for anything else."""
    if isinstance(node, Op) and node.name == "neg":
        return -infinite(node.args[0])
    return int(node == _INFINITY)


def same_value(answer: Node, gold: Node, policy: MathOptions, budget: Budget) -> tuple[bool, str]:
    """Whether the values are equal, and how that was found.

    Raises OutOfBoundsError where that takes too much. An answer without a value is not equal to anything.
    """
    if infinite(answer) or infinite(gold):
        return infinite(answer) == infinite(gold), "infinity"
    if policy.unreduced == "wrong" and _unreduced(answer) and answer != gold:
        return False, "unreduced"
    if answer == gold:
        return True, "identical"
    try:
        names = variables(answer) | variables(gold)
        if not names:
            a, g = exact(answer, budget), exact(gold, budget)
            if a is not None and g is not None:
                return _same_rational(answer, a, gold, g, policy, budget)
        same = _modular(answer, gold, budget)
        if same is not None and (same or names):
            return same, "polynomial" if names else "closed_form"
        if names:
            return _same_at_points(answer, gold, budget), "expression"
        return _same_number(answer, gold, policy, budget, known_different=same is False)
    except UndefinedError:
        return False, "undefined"


def _same_rational(
    answer: Node, a: Fraction, gold: Node, g: Fraction, policy: MathOptions, budget: Budget
) -> tuple[bool, str]:
    method = "integer" if a.denominator == g.denominator == 1 else "rational"
    if a != g and rounded(answer, gold, a, g, policy, budget):
        return True, "rounded"
    return a == g, method


def decimal_form(node: Node) -> Num | None:
    """A decimal as written, with its sign and a power of ten; None for what is not one."""
    match node:
        case Num():
            return node if node.decimals >= 0 else None
        case Op("neg", (part,)) if inner := decimal_form(part):
            return Num(-inner.value, inner.decimals, inner.digits)
        case Op("percent", (part,)) if inner := decimal_form(part):
            return Num(inner.value / 100, inner.decimals + 2, inner.digits)
        case Op("mul", (part, Op("pow", (base, exponent)))) if base == _TEN and (inner := decimal_form(part)):
            power = literal(exponent)
            if power is not None and power.denominator == 1 and abs(power) <= 1000:
                decimals = max(0, inner.decimals - power.numerator)
                return Num(inner.value * Fraction(10) ** power.numerator, decimals, inner.digits)
    return None


def rounded(
    answer: Node, gold: Node, a: Fraction, g: Fraction, policy: MathOptions, budget: Budget, is_exact: bool = True
) -> bool:
    """Whether one is a decimal that is near enough to the other, as the policy says.

    is_exact: a and g are the values themselves, and not near ones of irrational numbers.
    """
    decimals = decimal_form(answer), decimal_form(gold)
    if decimals == (None, None):
        return False
    budget.spend_bits(bits_of(a) + bits_of(g))
    difference = abs(a - g)
    if policy.relative_tolerance and difference <= Fraction(policy.relative_tolerance) * abs(g):
        return True
    if not policy.correct_digits:
        return False
    # What a float prints: 0.30000000000000004 for 0.3.
    lengths = [decimal.digits if decimal is not None and decimal.decimals else 0 for decimal in decimals]
    if min(lengths) and 0 <= max(lengths) - _FLOAT_DIGITS <= 3 and difference <= abs(g) / 2**50:
        return True
    return any(
        decimal is not None
        and decimal.digits >= policy.correct_digits
        and not (is_exact and _terminates(other) and not _is_longer(longer, decimal))
        and is_rounding(decimal, other)
        for decimal, longer, other in zip(decimals, decimals[::-1], (g, a), strict=True)
    )


def _is_longer(longer: Num | None, decimal: Num) -> bool:
    """Whether one decimal has so many more digits that the other is one of its roundings: 0.123457 of 0.123456789."""
    enough = decimal.decimals >= _LEAST_DECIMALS
    return longer is not None and enough and longer.digits >= decimal.digits + _DIGITS_MORE


def _terminates(value: Fraction) -> bool:
    """Whether a number is itself a decimal, which then has no other one next to it."""
    rest = value.denominator
    rest >>= (rest & -rest).bit_length() - 1
    return pow(5, rest.bit_length(), rest) == 0 if rest > 1 else True


def is_rounding(decimal: Num, exact_value: Fraction) -> bool:
    """Whether a decimal is a value that needs more digits, rounded or cut off."""
    if not decimal.decimals or decimal.decimals > 2000:
        return False
    scale = 10**decimal.decimals
    if (exact_value * scale).denominator == 1 or (decimal.value < 0) != (exact_value < 0):
        return False
    difference = abs(exact_value) - abs(decimal.value)
    return -Fraction(1, 2 * scale) <= difference < Fraction(1, scale)


def _unreduced(node: Node) -> bool:
    match node:
        case Op("neg", (part,)):
            return _unreduced(part)
        case Op("div", (Op("neg", (Num() as above,)) | (Num() as above), Num() as below)):
            is_whole = above.decimals < 0 and below.decimals < 0
            return is_whole and below.value != 0 and (above.value / below.value).denominator != abs(below.value)
    return False


def _modular(answer: Node, gold: Node, budget: Budget) -> bool | None:
    """Exact comparison of rational functions; None where one of them is none, or no point is free of poles."""
    agreed = 0
    for point in range(4):
        try:
            a = modular(answer, point, budget)
            g = None if a is None else modular(gold, point, budget)
        except UndefinedError:
            continue
        if a is None or g is None:
            return None
        if (a - g) % PRIME:
            return False
        agreed += 1
        if agreed == 2:
            return True
    return None


def _close(a: Any, g: Any, numeric: Numeric) -> bool:
    """Whether two values differ by no more than what rounding and cancellation can make of nothing."""
    difference = abs(a - g)
    if not difference:
        return True
    mp = numeric.mp
    scale = max(int(mp.mag(value)) if value else -(1 << 30) for value in (a, g))
    top = max(scale, numeric.highest)
    return int(mp.mag(difference)) < top - numeric.bits + 60


def _again(answer: Node, gold: Node, first: Numeric, budget: Budget) -> tuple[Any, Any, Numeric]:
    """Both values at a precision at which cancellation leaves enough bits to tell them apart.

    Raises UndefinedError where a part grows with the precision, as tan(pi/2) does: it is a pole, and what was lost
    there could hide any difference.
    """
    bits = _MORE_BITS + 2 * (first.highest - first.lowest)
    if bits > _MAX_BITS:
        raise OutOfBoundsError("numbers of too different sizes")
    more = Numeric(bits, first.point, budget)
    a, g = more.value(answer), more.value(gold)
    if more.highest > first.highest + _FIRST_SPAN:
        raise UndefinedError("division by zero")
    return a, g, more


def _same_number(
    answer: Node, gold: Node, policy: MathOptions, budget: Budget, known_different: bool
) -> tuple[bool, str]:
    first = Numeric(_FIRST_BITS, {}, budget)
    a, g = first.value(answer), first.value(gold)
    method = "real" if first.is_real(a) and first.is_real(g) else "complex"
    if decimal_form(answer) or decimal_form(gold):
        left, right = as_fraction(a), as_fraction(g)
        near = left is not None and right is not None and rounded(answer, gold, left, right, policy, budget, False)
        if near:
            return True, "rounded"
    if known_different:
        return False, "closed_form"
    scale = max(abs(a), abs(g))
    if abs(a - g) > scale / 2**60 and not _close(a, g, first):
        return False, method
    a, g, more = _again(answer, gold, first, budget)
    return _close(a, g, more), method


def _differ_beyond(answer: Node, gold: Node, imaginary: bool, budget: Budget) -> bool:
    """Whether two expressions that agree at ordinary points differ far out or at the kinks of absolute values.

    Raises OutOfBoundsError where only the reference answer can be computed there: the other one hides something.
    """
    budget = Budget(salt=budget.salt)
    for point in refuting_points((answer, gold), budget):
        at = Numeric(_FIRST_BITS, point, budget)
        try:
            g = at.value(gold)
        except (UndefinedError, OutOfBoundsError):
            budget.spend(0)  # Of work spent, and not of a value too large, it raises.
            continue
        try:
            a = at.value(answer)
            if at.highest - at.lowest > _FIRST_SPAN:
                a, g, at = _again(answer, gold, at, budget)
        except UndefinedError:
            continue
        if (imaginary or (at.is_real(a) and at.is_real(g))) and not _close(a, g, at):
            return True
    return False


def _same_at_points(answer: Node, gold: Node, budget: Budget) -> bool:
    """Comparison at real points where both are real; at any points where they are real nowhere.

    Where one alone has an absolute value, as ln |x| and ln x, they also have to be real at the same points.
    """
    imaginary = any(_IMAGINARY in parts_of(node) for node in (answer, gold))
    same_domain = contains(answer, "abs") == contains(gold, "abs")
    agreed, complex_agreed, complex_differed = 0, 0, 0
    for numeric, (a, g) in values_at_points((answer, gold), _FIRST_BITS, budget):
        if numeric.highest - numeric.lowest > _FIRST_SPAN:
            try:
                a, g, numeric = _again(answer, gold, numeric, budget)
            except UndefinedError:
                continue
        close = _close(a, g, numeric)
        if imaginary or (numeric.is_real(a) and numeric.is_real(g)):
            if not close:
                return False
            agreed += 1
        elif close:
            complex_agreed += 1
        else:
            complex_differed += 1
    if agreed >= 2:
        return (same_domain or not complex_differed) and not _differ_beyond(answer, gold, imaginary, budget)
    if complex_agreed + agreed >= 2:
        return not complex_differed
    if complex_differed or any(True for _ in values_at_points((gold,), _FIRST_BITS, budget)):
        return False
    raise OutOfBoundsError("no point at which both have a value")
