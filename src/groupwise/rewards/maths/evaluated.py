"""Whether an answer is a number as one writes it, and no computation that is left to the reader."""

from groupwise.rewards.maths.tree import Based, Chain, Items, Node, Num, Op, Quantity

_TEN = 10


def is_number(node: Node, mixed: bool = True) -> bool:
    """Whether a tree is a written number: an integer, decimal, fraction, mixed number, percentage, power of ten times
    a decimal, with or without a unit, or several of these. Of a chain such as x = 5 the last side counts.

    mixed: whether a sum of an integer and a fraction is the mixed number 3½ and not 3 + ½; the tree is the same.
    """
    match node:
        case Num() | Based():
            return True
        case Quantity(value):
            return is_number(value, mixed)
        case Chain(_, sides):
            return is_number(sides[-1], mixed)
        case Items(_, items):
            return all(is_number(item, mixed) for item in items)
        case Op("neg" | "percent", (value,)):
            return is_number(value, mixed)
        case Op("div", (numerator, denominator)):
            return _is_signed(numerator) and _is_signed(denominator)
        case Op("mul", (Num(), power)):
            return _is_power_of_ten(power)
        case Op("add", (Num(), Op("div", (Num(), Num())))):
            return mixed
        case _:
            return _is_power_of_ten(node)


def _is_signed(node: Node) -> bool:
    return isinstance(node, Num) or (isinstance(node, Op) and node.name == "neg" and isinstance(node.args[0], Num))


def _is_power_of_ten(node: Node) -> bool:
    return (
        isinstance(node, Op)
        and node.name == "pow"
        and isinstance(node.args[0], Num)
        and node.args[0].value == _TEN
        and _is_signed(node.args[1])
    )
