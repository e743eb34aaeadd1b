"""Whether two equations or inequalities have the same solutions: each is the other times a factor."""

from itertools import product

from groupwise.grading.math.bounds import Budget, OutOfBoundsError, UndefinedError
from groupwise.grading.math.exact import PRIME, modular
from groupwise.grading.math.numeric import values_at_points
from groupwise.grading.math.tree import Chain, Const, Node, Num, Op, Var, parts_of, variables

_EQUAL = frozenset(("=", "~"))
_TURNED = {">": "<", ">=": "<="}
_MOST_DENOMINATORS = 4


def same_equation(answer: Chain, gold: Chain, budget: Budget) -> bool:
    """Whether two equations are the same up to a constant factor, also after their denominators are cleared."""
    if len(answer.sides) != 2 or len(gold.sides) != 2:
        return False
    if answer.relations[0] not in _EQUAL or gold.relations[0] not in _EQUAL:
        return False
    a, g = _difference(answer), _difference(gold)
    if a is None or g is None or not variables(a) or not variables(g):
        return False
    if _ratio_is_constant(a, g, budget):
        return True
    cleared = [_without_denominators(node) for node in (a, g)]
    if cleared == [None, None]:
        return False
    ways = product((a, cleared[0]), (g, cleared[1]))
    return any(
        left is not None and right is not None and _ratio_is_constant(left, right, budget)
        for left, right in list(ways)[1:]
    )


def same_region(answer: Chain, gold: Chain, budget: Budget) -> bool:
    """Whether two inequalities of several variables are the same up to a positive factor."""
    if len(answer.sides) != 2 or len(gold.sides) != 2 or len(variables(gold)) < 2:
        return False
    left, right = (_TURNED.get(chain.relations[0], chain.relations[0]) for chain in (answer, gold))
    a, g = _difference(answer), _difference(gold)
    if a is None or g is None or left != right or variables(a) != variables(g):
        return False
    if not _ratio_is_constant(a, g, budget):
        return False
    return left == "!=" or _ratio_is_positive(a, g, budget)


def _difference(chain: Chain) -> Node | None:
    """The left side minus the right one, or the reverse for > and >=."""
    sides = chain.sides if chain.relations[0] not in _TURNED else chain.sides[::-1]
    if not all(isinstance(side, Op | Var | Const | Num) for side in sides):
        return None
    return Op("add", (sides[0], Op("neg", (sides[1],))))


def _without_denominators(node: Node) -> Node | None:
    """The node times all its different denominators with variables; None where there are none, or too many."""
    divisions = [part for part in parts_of(node) if isinstance(part, Op) and part.name == "div"]
    found = dict.fromkeys(part.args[1] for part in divisions if variables(part.args[1]))
    return Op("mul", (node, *found)) if 0 < len(found) <= _MOST_DENOMINATORS else None


def _ratio_is_constant(a: Node, g: Node, budget: Budget) -> bool:
    verdict = _ratio_is_constant_modular(a, g, budget)
    return _ratio_is_constant_numeric(a, g, budget) if verdict is None else verdict


def _ratio_is_constant_modular(a: Node, g: Node, budget: Budget) -> bool | None:
    pairs: list[tuple[int, int]] = []
    for point in range(5):
        try:
            left, right = modular(a, point, budget), modular(g, point, budget)
        except UndefinedError:
            continue
        if left is None or right is None:
            return None
        if not left or not right:
            return False
        pairs.append((left, right))
        if len(pairs) == 3:
            break
    if len(pairs) < 2:
        return None
    first = pairs[0]
    return all((left * first[1] - right * first[0]) % PRIME == 0 for left, right in pairs[1:])


def _ratio_is_constant_numeric(a: Node, g: Node, budget: Budget) -> bool:
    ratios = []
    for numeric, (left, right) in values_at_points((a, g), 200, budget):
        if not numeric.is_real(left) or not numeric.is_real(right):
            continue
        if abs(left) < 2**-100 or abs(right) < 2**-100:
            return False
        ratios.append(left / right)
    if len(ratios) < 2:
        raise OutOfBoundsError("no point at which both have a value")
    return all(abs(ratio - ratios[0]) <= abs(ratios[0]) * 2.0**-100 for ratio in ratios)


def _ratio_is_positive(a: Node, g: Node, budget: Budget) -> bool:
    """The sign of a ratio that is known to be constant."""
    for numeric, (left, right) in values_at_points((a, g), 200, budget):
        if left and right and numeric.is_real(left) and numeric.is_real(right):
            return bool(left.real * right.real > 0)
    raise OutOfBoundsError("no point at which both have a value")
