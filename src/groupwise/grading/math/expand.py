"""Answers that mean several: both signs of ±, and lists of named values."""

from dataclasses import replace

from groupwise.grading.math.relations import assignment
from groupwise.grading.math.tree import Chain, Items, Node, Op, Quantity, contains

_LISTS = frozenset(("list", "{}"))
_SIGNS = frozenset(("pm", "mp"))


def named_values(node: Node) -> Node:
    """`x = 1, x = 3` and `x = 1, 3` are the values; `x = 1, y = 2` are their tuple in the order of the names."""
    if not isinstance(node, Items) or node.kind != "list":
        return node
    named = [assignment(item) for item in node.items]
    first = named[0]
    if first is None or any(
        item is None and isinstance(part, Chain) for item, part in zip(named, node.items, strict=True)
    ):
        return node
    labels = [str(item[0]) for item in named if item is not None]
    values = tuple(part if item is None else item[1] for item, part in zip(named, node.items, strict=True))
    if len(set(labels)) == 1:
        return replace(node, items=values)
    if len(set(labels)) == len(labels) == len(values):
        return Items(
            "()", tuple(value for _, value in sorted(zip(labels, values, strict=True), key=lambda pair: pair[0]))
        )
    return node


def expanded(node: Node) -> Node:
    """Both values of ± as a list; ∓ has the other sign."""
    if not contains(node, _SIGNS):
        return node
    if isinstance(node, Items) and node.kind in _LISTS:
        items: list[Node] = []
        for item in node.items:
            part = expanded(item)
            items.extend(part.items if isinstance(part, Items) and part.kind == "list" else (part,))
        return Items(node.kind, tuple(items))
    return Items("list", (_signed(node, "pm"), _signed(node, "mp")))


def _signed(node: Node, positive: str) -> Node:
    if isinstance(node, Op):
        args = tuple(_signed(argument, positive) for argument in node.args)
        if node.name in _SIGNS:
            return args[0] if node.name == positive else Op("neg", args)
        return Op(node.name, args)
    if isinstance(node, Items):
        return Items(node.kind, tuple(_signed(item, positive) for item in node.items))
    if isinstance(node, Chain):
        return Chain(node.relations, tuple(_signed(side, positive) for side in node.sides))
    if isinstance(node, Quantity):
        return Quantity(_signed(node.value, positive), node.unit)
    return node
