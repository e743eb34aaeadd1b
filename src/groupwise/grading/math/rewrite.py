"""Trees made from trees: conjugates, multiples and determinants of matrices, sums and products written out."""

from collections.abc import Callable
from fractions import Fraction
from itertools import permutations

from groupwise.grading.math.bounds import MAX_NODES, OutOfBoundsError, ParseError
from groupwise.grading.math.tree import Chain, Const, Items, Node, Num, Op, Quantity, Var, children, parts_of

_MAX_ORDER = 4


def mapped(node: Node, change: Callable[[Node], Node | None]) -> Node:
    """The tree with every part replaced for which `change` gives another."""
    other = change(node)
    if other is not None:
        return other
    parts = tuple(mapped(part, change) for part in children(node))
    match node:
        case Op(name):
            return Op(name, parts)
        case Items(kind):
            return Items(kind, parts)
        case Chain(relations):
            return Chain(relations, parts)
        case Quantity(_, unit):
            return Quantity(parts[0], unit)
    return node


def substituted(node: Node, name: str, value: Fraction) -> Node:
    """The tree with a number for a variable."""
    number = Num(value)
    return mapped(node, lambda part: number if part == Var(name) else None)


def conjugated(node: Node) -> Node:
    """The complex conjugate; that of a variable is another variable. A segment AB has none."""
    named = node.args if isinstance(node, Op) else ()
    if len(named) == 2 and all(isinstance(part, Var) and part.name.isupper() for part in named):
        return node

    def change(part: Node) -> Node | None:
        if part == Const("i"):
            return Op("neg", (part,))
        return Var(part.name + "~") if isinstance(part, Var) else None

    return mapped(node, change)


def size(node: Node) -> int:
    """The number of parts of a tree."""
    return sum(1 for _ in parts_of(node))


def written_out(name: str, index: str, low: int, high: int, body: Node) -> Node:
    """A sum or product over an index as its terms."""
    if high < low:
        return Num(Fraction(0 if name == "add" else 1))
    if (high - low + 1) * size(body) > MAX_NODES:
        raise OutOfBoundsError(f"a sum of more than {MAX_NODES} operations")
    terms = tuple(substituted(body, index, Fraction(i)) for i in range(low, high + 1))
    return terms[0] if len(terms) == 1 else Op(name, terms)


def quotient(above: list[Node], below: list[Node]) -> Node:
    """Factors over factors; those of a matrix go into its entries."""
    matrices = [factor for factor in above if isinstance(factor, Items) and factor.kind == "matrix"]
    if matrices and len(above) + len(below) > 1:
        if len(matrices) > 1:
            raise ParseError("a product of matrices")
        others = [factor for factor in above if factor is not matrices[0]]
        if any(isinstance(factor, Items) for factor in others + below):
            raise ParseError("a product with a matrix")
        return _entrywise(matrices[0], lambda entry: quotient([*others, entry], below))
    top = above[0] if len(above) == 1 else Op("mul", tuple(above))
    if not below:
        return top
    return Op("div", (top, below[0] if len(below) == 1 else Op("mul", tuple(below))))


def negated(node: Node) -> Node:
    """Minus the node, entry by entry for a matrix."""
    if isinstance(node, Items) and node.kind == "matrix":
        return _entrywise(node, lambda entry: Op("neg", (entry,)))
    return Op("neg", (node,))


def _entrywise(matrix: Items, change: Callable[[Node], Node]) -> Items:
    rows = tuple(Items("row", tuple(map(change, children(row)))) for row in matrix.items)
    if size(Items("matrix", rows)) > MAX_NODES:
        raise OutOfBoundsError(f"more than {MAX_NODES} operations")
    return Items("matrix", rows)


def determinant(matrix: Node) -> Node:
    """The determinant of a square matrix of order up to 4, as a sum of products."""
    rows = [children(row) for row in children(matrix)]
    order = len(rows)
    if not isinstance(matrix, Items) or matrix.kind != "matrix" or any(len(row) != order for row in rows):
        raise ParseError("a determinant of what is no square matrix")
    if order > _MAX_ORDER:
        raise OutOfBoundsError(f"a determinant of an order above {_MAX_ORDER}")
    terms: list[Node] = []
    for columns in permutations(range(order)):
        inversions = sum(columns[i] > columns[j] for i in range(order) for j in range(i + 1, order))
        term = Op("mul", tuple(rows[i][column] for i, column in enumerate(columns)))
        terms.append(Op("neg", (term,)) if inversions % 2 else term)
    total = Op("add", tuple(terms))
    if size(total) > MAX_NODES:
        raise OutOfBoundsError(f"more than {MAX_NODES} operations")
    return total
