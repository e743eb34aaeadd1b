"""Notations that are compared by their own rule: times of day, bases, ratios, chains of inequalities, residues."""

from collections.abc import Callable
from fractions import Fraction

from groupwise.grading.math.bounds import Budget
from groupwise.grading.math.exact import exact
from groupwise.grading.math.tree import TURNED, Based, Chain, Clock, Items, Node, Num, Op

_CONGRUENCE = "congruence"
_SIDES = 2


def same_time(answer: Clock, gold: Clock) -> bool:
    """Whether two times agree; one without am or pm is on a clock of 24 hours, or agrees by its digits."""
    if (answer.minute, answer.second) != (gold.minute, gold.second):
        return False
    if answer.half and gold.half:
        return (answer.hour % 12, answer.half) == (gold.hour % 12, gold.half)
    if answer.hour == gold.hour:
        return True
    named, other = (answer, gold) if answer.half else (gold, answer)
    return bool(named.half) and named.hour % 12 + 12 * (named.half == "pm") == other.hour


def as_ratio(node: Node) -> Node | None:
    """1:25 may be a ratio; None for a time that says am, pm or seconds."""
    if not isinstance(node, Clock):
        return node
    return None if node.half or node.second else Items("ratio", (Num(Fraction(node.hour)), Num(Fraction(node.minute))))


def same_digits(answer: Node, gold: Node) -> bool:
    """The base of the reference answer may be left out; in base ten, or without one, an answer counts by its value."""
    if isinstance(answer, Based) and isinstance(gold, Based):
        return answer == gold or (10 in (answer.base, gold.base) and _value(answer) == _value(gold))
    if isinstance(gold, Based) and gold.base != 10:
        return isinstance(answer, Num) and gold.digits.isdigit() and answer.value == int(gold.digits)
    return _value(answer) == _value(gold) is not None


def _value(node: Node) -> Fraction | None:
    if isinstance(node, Based):
        return Fraction(int(node.digits, node.base))
    return node.value if isinstance(node, Num) else None


def same_chain(answer: Node, gold: Node, same: Callable[[Node, Node], bool]) -> bool:
    """Inequalities of several variables, side by side, in either direction."""
    if not (isinstance(answer, Chain) and isinstance(gold, Chain)) or len(answer.sides) != len(gold.sides):
        return False
    other = Chain(tuple(TURNED[r] for r in reversed(answer.relations)), tuple(reversed(answer.sides)))
    return any(
        chain.relations == gold.relations and all(map(same, chain.sides, gold.sides)) for chain in (answer, other)
    )


def same_ratio(answer: tuple[Node, ...], gold: tuple[Node, ...], same: Callable[[Node, Node], bool]) -> bool:
    """Whether the parts of two ratios are the same up to a factor, by products across; 0:1 is not compared."""
    cross = [(Op("mul", (answer[0], g)), Op("mul", (a, gold[0]))) for a, g in zip(answer, gold, strict=True)]
    return all(same(left, right) for left, right in cross) and not same(answer[0], Num(Fraction(0)))


def divided(ratio: tuple[Node, ...]) -> Node:
    """The quotient of a ratio of two parts; of one part, the part."""
    return ratio[0] if len(ratio) == 1 else Op("div", ratio)


def congruence(sides: list[Node], modulus: Node) -> Items:
    """The congruence of one side, or of a name and a side."""
    return Items(_CONGRUENCE, (*sides[-_SIDES:], modulus))


def congruence_of(node: Node) -> Items | None:
    """The congruence that a node states, also as x = 3 mod 5; None for anything else."""
    if isinstance(node, Items):
        return node if node.kind == _CONGRUENCE else None
    if isinstance(node, Chain) and len(node.sides) == _SIDES and node.relations == ("=",):
        left, right = node.sides
        if isinstance(right, Op) and right.name == "mod":
            return Items(_CONGRUENCE, (left, *right.args))
    return None


def residue_of(node: Node) -> Node | None:
    """The residue that a congruence states; None for anything else."""
    return node.items[-2] if isinstance(node, Items) and node.kind == _CONGRUENCE else None


def same_congruence(answer: Items, gold: Items, budget: Budget) -> bool:
    """Whether two congruences name the same class; the name may be left out on one side."""
    if len(answer.items) == len(gold.items) > _SIDES and answer.items[0] != gold.items[0]:
        return False
    values = [exact(part, budget) for part in (*answer.items[-2:], *gold.items[-2:])]
    residue, modulus, gold_residue, gold_modulus = values
    if residue is None or gold_residue is None or modulus is None or not modulus or modulus != gold_modulus:
        return answer.items[-2:] == gold.items[-2:]
    return ((residue - gold_residue) / modulus).denominator == 1
