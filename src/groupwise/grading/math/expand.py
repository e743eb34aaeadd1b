"""Answers that mean several: both signs of ±, and lists of named values."""

from dataclasses import replace
from operator import itemgetter

from groupwise.grading.math.relations import assignment
from groupwise.grading.math.rewrite import mapped
from groupwise.grading.math.tree import Chain, Items, Node, Op, contains

_LISTS = frozenset(("list", "{}"))
_SIGNS = ("pm", "mp")


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
        return Items("()", tuple(value for _, value in sorted(zip(labels, values, strict=True), key=itemgetter(0))))
    return node


def expanded(node: Node) -> Node:
    """Both values of ± as a list; ∓ has the other sign."""
    if not contains(node, *_SIGNS):
        return node
    if isinstance(node, Items) and node.kind in _LISTS:
        items: list[Node] = []
        for item in node.items:
            part = expanded(item)
            items.extend(part.items if isinstance(part, Items) and part.kind == "list" else (part,))
        return Items(node.kind, tuple(items))
    return Items("list", (_signed(node, "pm"), _signed(node, "mp")))


def _signed(node: Node, positive: str) -> Node:
    def change(part: Node) -> Node | None:
        if not (isinstance(part, Op) and part.name in _SIGNS):
            return None
        inner = _signed(part.args[0], positive)
        return inner if part.name == positive else Op("neg", (inner,))

    return mapped(node, change)
