"""Notations that are compared by their own rule: times of day, digits in a base, chains of inequalities."""

from collections.abc import Callable
from fractions import Fraction

from groupwise.grading.math.tree import TURNED, Based, Chain, Clock, Items, Node, Num


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
