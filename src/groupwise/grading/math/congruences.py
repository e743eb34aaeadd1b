"""Residues: x = 3 (mod 5)."""

from groupwise.grading.math.bounds import Budget
from groupwise.grading.math.exact import exact
from groupwise.grading.math.tree import Chain, Items, Node, Op

KIND = "congruence"
_SIDES = 2


def congruence(sides: list[Node], modulus: Node) -> Items:
    """The congruence of one side, or of a name and a side."""
    return Items(KIND, (*sides[-_SIDES:], modulus))


def congruence_of(node: Node) -> Items | None:
    """The congruence that a node states, also as x = 3 mod 5; None for anything else."""
    if isinstance(node, Items):
        return node if node.kind == KIND else None
    if isinstance(node, Chain) and len(node.sides) == _SIDES and node.relations == ("=",):
        left, right = node.sides
        if isinstance(right, Op) and right.name == "mod":
            return Items(KIND, (left, *right.args))
    return None


def residue_of(node: Node) -> Node | None:
    """The residue that a congruence states; None for anything else."""
    return node.items[-2] if isinstance(node, Items) and node.kind == KIND else None


def same_congruence(answer: Items, gold: Items, budget: Budget) -> bool:
    """Whether two congruences name the same class; the name may be left out on one side."""
    if len(answer.items) == len(gold.items) > _SIDES and answer.items[0] != gold.items[0]:
        return False
    values = [exact(part, budget) for part in (*answer.items[-2:], *gold.items[-2:])]
    residue, modulus, gold_residue, gold_modulus = values
    if residue is None or gold_residue is None or modulus is None or not modulus or modulus != gold_modulus:
        return answer.items[-2:] == gold.items[-2:]
    return ((residue - gold_residue) / modulus).denominator == 1
