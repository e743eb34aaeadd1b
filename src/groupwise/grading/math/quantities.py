"""Values with units, percentages and money."""

from fractions import Fraction

from groupwise.grading.math.bounds import Budget
from groupwise.grading.math.exact import exact
from groupwise.grading.math.math_options import MathOptions
from groupwise.grading.math.scalars import same_value
from groupwise.grading.math.tree import Const, Items, Node, Num, Op, Quantity, contains
from groupwise.grading.math.units import Unit

_ANGLE, _RADIAN = (("angle", 1),), (("radian", 1),)
_RADIANS_PER_DEGREE = Op("div", (Const("pi"), Num(Fraction(180))))


def same_quantity(answer: Node, gold: Node, policy: MathOptions, budget: Budget) -> bool:
    """Whether two values agree with their units; at least one of them has one."""
    if isinstance(answer, Quantity) and isinstance(gold, Quantity):
        return _same_with_units(answer, gold, policy, budget)
    if policy.units == "strict":
        return False
    measured, bare = (answer, gold) if isinstance(answer, Quantity) else (gold, answer)
    if not isinstance(measured, Quantity) or isinstance(bare, Items):
        return False
    if same_percent(*_in_order(measured.value, bare, measured is answer), policy, budget):
        return True
    if measured.unit.dimensions == _ANGLE and (contains(bare, "div", "mul") or bare == Const("pi")):
        turned = Op("mul", (measured.value, _RADIANS_PER_DEGREE))
        return same_value(*_in_order(turned, bare, measured is answer), policy, budget)[0]
    return False


def _in_order(measured: Node, bare: Node, is_answer: bool) -> tuple[Node, Node]:
    return (measured, bare) if is_answer else (bare, measured)


def _same_with_units(answer: Quantity, gold: Quantity, policy: MathOptions, budget: Budget) -> bool:
    left, right = answer.unit, gold.unit
    if left == right or _generic(left) or _generic(right):
        return same_percent(answer.value, gold.value, policy, budget)
    if {left.dimensions, right.dimensions} == {_ANGLE, _RADIAN}:
        degrees = [
            Op("mul", (q.value, _RADIANS_PER_DEGREE)) if q.unit.dimensions == _ANGLE else q.value
            for q in (answer, gold)
        ]
        return same_value(degrees[0], degrees[1], policy, budget)[0]
    if left.dimensions != right.dimensions:
        return _same_noun(left, right) and same_value(answer.value, gold.value, policy, budget)[0]
    return same_value(_converted(answer, right), gold.value, policy, budget)[0]


def _converted(quantity: Quantity, unit: Unit) -> Node:
    """The value in another unit of the same dimensions; an exact number stays a decimal where it was one."""
    scale = Num(quantity.unit.factor / unit.factor)
    shift = (quantity.unit.shift - unit.shift) / unit.factor
    node = Op("mul", (quantity.value, scale))
    return node if not shift else Op("add", (node, Num(shift)))


def _generic(unit: Unit) -> bool:
    """Units without a name say nothing but their dimension, which may be any."""
    return all(name == "unit" for name, _ in unit.dimensions)


def _same_noun(left: Unit, right: Unit) -> bool:
    """Words that no table knows are the same thing where one phrase contains the other: apples, red apples."""
    nouns = [{name for name, _ in unit.dimensions if name.startswith("?")} for unit in (left, right)]
    return bool(nouns[0]) and bool(nouns[1]) and (nouns[0] <= nouns[1] or nouns[1] <= nouns[0])


def same_percent(answer: Node, gold: Node, policy: MathOptions, budget: Budget) -> bool:
    """Equal values, where a percentage is also its ratio, and may stand for the bare number of percents.

    A bare reference answer of at most 1 is read as a ratio: 0.5 % is not 0.5.
    """
    a_percent, g_percent = _percentage(answer), _percentage(gold)
    if policy.percent == "strict" and a_percent is not None and g_percent is not None:
        return same_value(a_percent, g_percent, policy, budget)[0]
    one_sided = (a_percent is None) != (g_percent is None)
    if one_sided and policy.percent == "strict":
        return False
    if same_value(answer, gold, policy, budget)[0]:
        return True
    if one_sided and a_percent is not None:
        bare = exact(gold, budget)
        return bare is not None and abs(bare) > 1 and same_value(a_percent, gold, policy, budget)[0]
    return one_sided and g_percent is not None and same_value(answer, g_percent, policy, budget)[0]


def _percentage(node: Node) -> Node | None:
    """The number of percents; None for what is no percentage."""
    match node:
        case Op("percent", (value,)):
            return None if contains(value, "percent") else value
        case Op("neg", (part,)) if inner := _percentage(part):
            return Op("neg", (inner,))
    return None
