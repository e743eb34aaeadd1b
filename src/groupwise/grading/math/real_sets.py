"""Sets of real numbers: intervals, unions, differences, inequalities, all in one form."""

from fractions import Fraction
from functools import reduce
from typing import NamedTuple

from groupwise.grading.math.bounds import Budget, ParseError, UndefinedError
from groupwise.grading.math.exact import exact
from groupwise.grading.math.numeric import Numeric, as_fraction
from groupwise.grading.math.rewrite import substituted
from groupwise.grading.math.scalars import infinite
from groupwise.grading.math.tree import TURNED, Chain, Const, Items, Node, Num, Op, Var, variables

_INTERVALS = frozenset(("()", "[]", "(]", "[)", "(["))
_MAX_PARTS = 40


class Bound(NamedTuple):
    """A cut of the real line. place: its number, to 200 bits; side: -1 just before it, 1 just behind it."""

    infinity: int
    place: Fraction
    side: int


# Disjoint, in order, none touching the next: pairs of bounds.
RealSet = tuple[tuple[Bound, Bound], ...]

_LOWEST, _HIGHEST = Bound(-1, Fraction(0), 1), Bound(1, Fraction(0), -1)
_ALL: RealSet = ((_LOWEST, _HIGHEST),)


def is_inequality(node: Node) -> bool:
    """Whether a node is an inequality, or several of them."""
    if isinstance(node, Items) and node.kind in ("list", "intersection"):
        return all(is_inequality(item) for item in node.items)
    return isinstance(node, Chain) and TURNED.keys() >= set(node.relations)


def real_set(node: Node, budget: Budget) -> RealSet | None:
    """The set that a node describes, in the form in which sets are equal; None for what describes none."""
    try:
        return _set(node, budget)
    except (ParseError, UndefinedError):
        return None


def _set(node: Node, budget: Budget) -> RealSet:
    budget.spend(10)
    if isinstance(node, Const) and node.name in ("reals", "empty"):
        return _ALL if node.name == "reals" else ()
    if isinstance(node, Chain):
        return _chain(node, budget)
    if not isinstance(node, Items) or len(node.items) > _MAX_PARTS:
        raise ParseError("no set of numbers")
    if node.kind in _INTERVALS and len(node.items) == 2:
        low = _bound(node.items[0], 1 if node.kind[0] == "(" else -1, budget)
        high = _bound(node.items[1], -1 if node.kind[1] in ")[" else 1, budget)
        if low >= high:
            raise ParseError("bounds that are not in order are no interval")
        return _united([(low, high)])
    if node.kind == "{}":
        return _united([(_bound(item, -1, budget), _bound(item, 1, budget)) for item in node.items])
    parts = [_set(item, budget) for item in node.items]
    if node.kind in ("union", "list"):
        return _united([pair for part in parts for pair in part])
    if node.kind == "intersection":
        return reduce(_intersection, parts)
    if node.kind == "difference":
        return _intersection(parts[0], _complement(parts[1]))
    raise ParseError("no set of numbers")


def _chain(node: Chain, budget: Budget) -> RealSet:
    if node.relations == ("in",) and isinstance(node.sides[0], Var):
        return _set(node.sides[1], budget)
    names = variables(node)
    if len(names) != 1:
        raise ParseError("no inequality of one variable")
    name = next(iter(names))
    total = _ALL
    for i, relation in enumerate(node.relations):
        left, right = node.sides[i], node.sides[i + 1]
        if left == Var(name) and not variables(right):
            part = _half_line(relation, right, budget)
        elif right == Var(name) and not variables(left):
            part = _half_line(TURNED.get(relation, relation), left, budget)
        else:
            part = _linear(relation, left, right, name, budget)
        total = _intersection(total, part)
    return total


def _linear(relation: str, left: Node, right: Node, name: str, budget: Budget) -> RealSet:
    """The half line of an inequality whose sides are linear with rational coefficients."""
    difference = Op("add", (left, Op("neg", (right,))))
    values = [exact(substituted(difference, name, Fraction(at)), budget) for at in (0, 1, 2, 5)]
    at_0, at_1, at_2, at_5 = values
    if at_0 is None or at_1 is None or at_2 is None or at_5 is None:
        raise ParseError("no inequality of one variable")
    slope = at_1 - at_0
    if not slope or at_2 - at_1 != slope or at_5 - at_2 != 3 * slope:
        raise ParseError("no linear inequality")
    turned = relation if slope > 0 else TURNED.get(relation, relation)
    return _half_line(turned, Num(-at_0 / slope), budget)


def _half_line(relation: str, other: Node, budget: Budget) -> RealSet:
    before, behind = _bound(other, -1, budget), _bound(other, 1, budget)
    intervals = {
        "<": [(_LOWEST, before)],
        "<=": [(_LOWEST, behind)],
        ">": [(behind, _HIGHEST)],
        ">=": [(before, _HIGHEST)],
        "=": [(before, behind)],
        "!=": [(_LOWEST, before), (behind, _HIGHEST)],
    }
    if relation not in intervals:
        raise ParseError("no inequality")
    return _united(intervals[relation])


def _bound(node: Node, side: int, budget: Budget) -> Bound:
    infinity = infinite(node)
    if infinity:
        return Bound(infinity, Fraction(0), -infinity)
    if variables(node):
        raise ParseError("a bound with a variable")
    value = exact(node, budget)
    if value is None:
        number = as_fraction(Numeric(240, {}, budget).value(node))
        if number is None:
            raise ParseError("a bound that is not real")
        value = Fraction(round(number * 2**160), 2**160)
    return Bound(0, value, side)


def _united(pairs: list[tuple[Bound, Bound]]) -> RealSet:
    """Intervals in order, with those joined that overlap or touch."""
    found: list[tuple[Bound, Bound]] = []
    for low, high in sorted(pair for pair in pairs if pair[0] < pair[1]):
        if found and low <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], high))
        else:
            found.append((low, high))
    return tuple(found)


def _intersection(first: RealSet, second: RealSet) -> RealSet:
    if len(first) * len(second) > _MAX_PARTS * _MAX_PARTS:
        raise ParseError("too many parts")
    return _united([(max(a[0], b[0]), min(a[1], b[1])) for a in first for b in second])


def _complement(part: RealSet) -> RealSet:
    ends = [_LOWEST, *(bound for pair in part for bound in pair), _HIGHEST]
    return _united(list(zip(ends[::2], ends[1::2], strict=True)))
