"""Whether an answer is a number as one writes it, and no computation that is left to the reader."""

from fractions import Fraction

from groupwise.grading.math.tree import Based, Chain, Items, Node, Num, Op, Quantity, literal

_TEN = 10
_ZERO = Num(Fraction(0))


def is_number(node: Node, mixed: bool = True, base: int = 10) -> bool:
    """Whether a tree is a written number: an integer, decimal, fraction, mixed number, percentage, in scientific
    notation, with or without a unit, or several of these. Of a chain such as x = 5 the last side counts.

    mixed: whether a sum of an integer and a fraction is the mixed number 3½ and not 3 + ½; the tree is the same.
    base: that of the reference answer, since a number in another one is still to be converted.
    """
    match node:
        case Num():
            return True
        case Based(_, written_in):
            return written_in == base
        case Quantity(Op("add", (value, Op("mul", (Num(), Num()))))):
            return mixed and is_number(value, mixed, base)
        case Quantity(value):
            return is_number(value, mixed, base)
        case Chain(_, sides):
            return is_number(sides[-1], mixed, base)
        case Items(_, items):
            return all(is_number(item, mixed, base) for item in items)
        case Op("neg" | "percent", (value,)):
            return is_number(value, mixed, base)
        case Op("div", (numerator, denominator)):
            return literal(numerator) is not None and literal(denominator) is not None
        case Op("mul", (Num(mantissa), Op("pow", (_, exponent)) as power)):
            return 1 <= mantissa < _TEN and _is_power_of_ten(power) and exponent != _ZERO
        case Op("add", (Num(), Op("div", (Num(), Num())))):
            return mixed
        case _:
            return _is_power_of_ten(node)


def _is_power_of_ten(node: Node) -> bool:
    match node:
        case Op("pow", (Num(base), exponent)):
            return base == _TEN and literal(exponent) is not None
    return False
