"""What an answer is read into: a small tree of immutable nodes."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from operator import attrgetter

from groupwise.grading.math.units import Unit


@dataclass(frozen=True, slots=True)
class Num:
    """A number as written. decimals: digits behind the point, -1 for an integer; digits: significant ones."""

    value: Fraction
    decimals: int = -1
    digits: int = 0


@dataclass(frozen=True, slots=True)
class Const:
    """`pi`, `e`, `i`, `oo`, `reals`, `empty`, or `...`."""

    name: str


@dataclass(frozen=True, slots=True)
class Var:
    """A variable with its subscript, or a label such as `area`."""

    name: str


@dataclass(frozen=True, slots=True)
class Op:
    """An operation or function of arithmetic: `add`, `mul`, `div`, `neg`, `pow`, `root`, `sin`, …"""

    name: str
    args: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class Items:
    """Several parts. kind: `list` without brackets, the brackets `()` `[]` `[)` `(]` `{}` `<>`, `matrix` or `row`,
    `ratio`, `union`, `intersection`, `difference`."""

    kind: str
    items: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class Chain:
    """Sides with relations between them, as in 1 < x <= 2."""

    relations: tuple[str, ...]
    sides: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class Quantity:
    """A value with a unit."""

    value: "Node"
    unit: Unit


@dataclass(frozen=True, slots=True)
class Clock:
    """A time of day; half: `am`, `pm`, or empty."""

    hour: int
    minute: int
    second: int
    half: str


@dataclass(frozen=True, slots=True)
class Based:
    """Digits in a number base other than ten."""

    digits: str
    base: int


@dataclass(frozen=True, slots=True)
class Text:
    """Words, in the form in which they are compared."""

    text: str


# The relations of inequalities, and what they are from the other side.
TURNED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "!=": "!="}

_PARTS: "dict[type[Node], Callable[..., tuple[Node, ...]]]" = {
    Op: attrgetter("args"), Items: attrgetter("items"), Chain: attrgetter("sides"), Quantity: lambda node: (node.value,)
}  # fmt: skip

Node = Num | Const | Var | Op | Items | Chain | Quantity | Clock | Based | Text


def children(node: Node) -> "tuple[Node, ...]":
    """The parts of a node, in order."""
    parts = _PARTS.get(type(node))
    return () if parts is None else parts(node)


def parts_of(node: Node) -> Iterator[Node]:
    """The node and everything in it, down to numbers and names."""
    stack = [node]
    while stack:
        part = stack.pop()
        yield part
        stack.extend(children(part))


def variables(node: Node) -> frozenset[str]:
    """The names of all variables."""
    return frozenset(part.name for part in parts_of(node) if isinstance(part, Var))


def contains(node: Node, *names: str) -> bool:
    """Whether an operation of one of these names occurs."""
    return any(isinstance(part, Op) and part.name in names for part in parts_of(node))


def literal(node: Node) -> Fraction | None:
    """The value of a written number with or without a minus in front; None for anything else."""
    match node:
        case Num(value):
            return value
        case Op("neg", (Num(value),)):
            return -value
    return None
