"""Equations and chains of them: what value they state, and whether two say the same."""

from fractions import Fraction

from groupwise.grading.math.bounds import Budget, UndefinedError
from groupwise.grading.math.exact import PRIME, exact, modular
from groupwise.grading.math.math_options import MathOptions
from groupwise.grading.math.numeric import Numeric, as_fraction
from groupwise.grading.math.scalars import decimal_form, is_rounding, same_value
from groupwise.grading.math.tree import Chain, Items, Node, Num, Op, Quantity, Var, variables
from groupwise.grading.math.vocabulary import FUNCTION_LETTERS

_EQUAL = frozenset(("=", "~"))


def is_equation(node: Node) -> bool:
    """Whether a node is a chain of equalities."""
    return isinstance(node, Chain) and _EQUAL.issuperset(node.relations)


def label_of(node: Node) -> Node | None:
    """The name that an equation gives a value to: a variable, f(x), or a tuple of variables; None for anything else."""
    is_label = False
    match node:
        case Var() | Op("abs", (Var(),)):
            is_label = True
        case Op("abs", (Op("mul", items),)) | Op("mul", items) if all(map(_is_point, items)):
            is_label = True
        case Op("mul", (Op("pow", (Var(name), _)) | Var(name), argument)):
            is_function = name.split("_")[0].rstrip("'") in FUNCTION_LETTERS
            is_label = is_function and (isinstance(argument, Var | Op) or not variables(argument))
        case Items("()", items):
            is_label = all(isinstance(item, Var) for item in items)
    return node if is_label else None


def _is_point(node: Node) -> bool:
    """Whether it may be a letter of AB, which names a segment, or a digit of a number written abc with a line."""
    return isinstance(node, Var) and ((len(node.name) == 1 and node.name.isupper()) or node.name.endswith("~"))


def assignment(node: Node) -> tuple[Node, Node] | None:
    """Label and value of x = 5, x in S, or 5 = x; None for anything else."""
    if not isinstance(node, Chain) or len(node.sides) != 2:
        return None
    left, right = node.sides
    if node.relations[0] == "in":
        return (left, right) if label_of(left) is not None else None
    if node.relations[0] not in _EQUAL:
        return None
    if label_of(left) is not None and not (isinstance(left, Var) and left.name in variables(right)):
        return left, right
    if isinstance(right, Var) and not variables(left):
        return right, left
    return None


def stated_value(chain: Chain, policy: MathOptions, budget: Budget, is_gold: bool) -> Node | None:
    """The value that a chain of equalities ends in; None where it states none, or contradicts itself as 7 = 8 does.

    A reference answer such as 2x + 4y - 3 = 0 states no value; an answer a + b = 7 does, but 2x = 10 and xy = 0 are to
    be solved.
    """
    named = assignment(chain)
    if named is not None:
        return named[1]
    last = chain.sides[-1]
    if not is_equation(chain) or (is_gold and len(chain.sides) == 2) or isinstance(last, Items):
        return None
    for side in chain.sides[:-1]:
        constant = not variables(side) and not isinstance(side, Items | Quantity)
        if constant and not same_value(side, last, policy, budget)[0]:
            return None
    if len(chain.sides) == 2 and not variables(last):
        left = chain.sides[0]
        if _is_linear(left, budget) or (last == Num(Fraction(0)) and variables(left)):
            return None
    return last


def _is_linear(node: Node, budget: Budget) -> bool:
    """Whether it is a polynomial of degree one in a single variable."""
    names = variables(node)
    if len(names) != 1:
        return False
    try:
        values = [modular(node, 0, budget, dict.fromkeys(names, at)) for at in (1, 2, 3)]
    except UndefinedError:
        return False
    first, second, third = (value or 0 for value in values)
    return None not in values and (third - second - second + first) % PRIME == 0


def approximated(chain: Chain, budget: Budget) -> Node | None:
    """The exact side of 2\\pi \\approx 6.28, where the decimal is its rounding; None for anything else."""
    if len(chain.sides) < 2 or chain.relations[-1] != "~":
        return None
    node, decimal = chain.sides[-2], decimal_form(chain.sides[-1])
    if decimal is None or variables(node) or isinstance(node, Items | Quantity):
        return None
    try:
        value = exact(node, budget)
        value = value if value is not None else as_fraction(Numeric(200, {}, budget).value(node))
    except UndefinedError:
        return None
    return node if value is not None and is_rounding(decimal, value) else None
