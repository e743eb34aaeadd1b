"""Whether two trees are the same answer: lists, tuples, sets, intervals, matrices, equations, quantities."""

from dataclasses import dataclass, field

from groupwise.grading.math import notations
from groupwise.grading.math.bounds import Budget, OutOfBoundsError
from groupwise.grading.math.expand import expanded, named_values
from groupwise.grading.math.math_options import MathOptions
from groupwise.grading.math.quantities import same_percent, same_quantity
from groupwise.grading.math.real_sets import is_inequality, real_set
from groupwise.grading.math.relations import approximated, assignment, is_equation, stated_value
from groupwise.grading.math.scalars import same_value
from groupwise.grading.math.solutions import same_equation, same_region
from groupwise.grading.math.tree import Based, Chain, Clock, Const, Items, Node, Quantity, Text, contains, variables
from groupwise.grading.math.words import same_words

_SETS = frozenset(("union", "intersection", "difference"))
_LISTS = frozenset(("list", "{}"))
_MAX_PAIRS = 1_600
_ELLIPSIS = Const("...")


@dataclass(slots=True)
class Comparison:
    """One comparison: its policy and budget, and the last method that decided something."""

    policy: MathOptions
    budget: Budget = field(default_factory=Budget)
    method: str = ""
    depth: int = 0

    def same(self, answer: Node, gold: Node) -> bool:
        """Whether they are the same answer. Raises OutOfBoundsError where that takes too much."""
        return self._same(expanded(answer), expanded(gold))

    def _same(self, answer: Node, gold: Node) -> bool:
        self.budget.spend(5)
        if isinstance(answer, Text) or isinstance(gold, Text):
            self.method = "text"
            return isinstance(answer, Text) and isinstance(gold, Text) and same_words(answer.text, gold.text)
        if isinstance(answer, Clock) or isinstance(gold, Clock):
            self.method = "time"
            if isinstance(answer, Clock) and isinstance(gold, Clock):
                return notations.same_time(answer, gold)
            a, g = notations.as_ratio(answer), notations.as_ratio(gold)
            return a is not None and g is not None and self._same(a, g)
        if isinstance(answer, Based) or isinstance(gold, Based):
            self.method = "base"
            return notations.same_digits(answer, gold)
        if notations.residue_of(answer) is not None or notations.residue_of(gold) is not None:
            return self._congruence(answer, gold)
        if isinstance(answer, Chain) or isinstance(gold, Chain):
            return self._relation(answer, gold)
        if isinstance(answer, Items) or isinstance(gold, Items):
            return self._items(answer, gold)
        if isinstance(answer, Const) and isinstance(gold, Const) and answer.name in ("reals", "empty", "..."):
            self.method = "set"
            return answer == gold
        if isinstance(answer, Quantity) or isinstance(gold, Quantity):
            self.method = "quantity"
            return same_quantity(answer, gold, self.policy, self.budget)
        if contains(answer, "percent") or contains(gold, "percent"):
            self.method = "percent"
            return same_percent(answer, gold, self.policy, self.budget)
        same, self.method = same_value(answer, gold, self.policy, self.budget)
        return same

    def _congruence(self, answer: Node, gold: Node) -> bool:
        """3 (mod 5) also answers 3, and the reverse, where no name is given to it."""
        self.method = "congruence"
        a, g = notations.congruence_of(answer), notations.congruence_of(gold)
        if a is not None and g is not None:
            return notations.same_congruence(a, g, self.budget)
        residue = notations.residue_of(answer if a is not None else gold)
        if residue is None or (g is not None and len(g.items) > 2):
            return False
        return self._same(residue, gold) if a is not None else self._same(answer, residue)

    def _relation(self, answer: Node, gold: Node) -> bool:
        """At least one of them is an equation, an inequality or a membership."""
        if isinstance(answer, Chain) and isinstance(gold, Chain):
            return self._two_relations(answer, gold)
        if isinstance(answer, Chain):
            if is_inequality(answer):
                return self._inequality(answer, gold)
            exact_side = approximated(answer, self.budget)
            if exact_side is not None and self._same(exact_side, gold):
                return True
            value = answer.sides[-1] if exact_side is not None else None
            value = value or stated_value(answer, self.policy, self.budget, is_gold=False)
            return value is not None and self._same(value, gold)
        assert isinstance(gold, Chain)
        if is_inequality(gold):
            return self._inequality(answer, gold)
        value = stated_value(gold, self.policy, self.budget, is_gold=True)
        return value is not None and self._same(answer, value)

    def _two_relations(self, answer: Chain, gold: Chain) -> bool:
        self.method = "equation"
        left, right = assignment(answer), assignment(gold)
        if left is not None and right is not None and left[0] == right[0]:
            return self._same(left[1], right[1])
        if left is not None and right is not None and not variables(left[1]) and not variables(right[1]):
            return False
        if is_equation(answer) and is_equation(gold):
            if len(answer.sides) == len(gold.sides) == 2:
                return same_equation(answer, gold, self.budget)
            a = stated_value(answer, self.policy, self.budget, is_gold=False)
            g = stated_value(gold, self.policy, self.budget, is_gold=True)
            return a is not None and g is not None and self._same(a, g)
        return self._inequality(answer, gold)

    def _inequality(self, answer: Node, gold: Node) -> bool:
        self.method = "inequality"
        if is_inequality(answer) and is_inequality(gold):
            if variables(answer) != variables(gold):
                return False
            if isinstance(answer, Chain) and isinstance(gold, Chain) and same_region(answer, gold, self.budget):
                return True
            return self._same_set(answer, gold) or notations.same_chain(answer, gold, self._same)
        if isinstance(answer, Chain) and isinstance(gold, Chain):
            return variables(answer) == variables(gold) and self._same_set(answer, gold)
        allowed = self.policy.inequality
        if allowed == "strict" or (allowed == "by_gold" and is_inequality(answer)):
            return False
        return self._same_set(answer, gold)

    def _same_set(self, answer: Node, gold: Node) -> bool:
        a = real_set(answer, self.budget)
        return a is not None and a == real_set(gold, self.budget)

    def _items(self, answer: Node, gold: Node) -> bool:
        """At least one of them has several parts."""
        answer, gold = named_values(answer), named_values(gold)
        a_kind = answer.kind if isinstance(answer, Items) else ""
        g_kind = gold.kind if isinstance(gold, Items) else ""
        self.method = _METHODS.get(g_kind or a_kind, "list")
        a_items, g_items = _parts(answer), _parts(gold)
        free = self.policy.order == "ignore"
        if "ratio" in (a_kind, g_kind):
            return self._ratio(answer, gold)
        if is_inequality(answer) or is_inequality(gold):
            return self._inequality(answer, gold)
        if "matrix" in (a_kind, g_kind):
            return self._matrix(answer, gold)
        if a_kind in _SETS or g_kind in _SETS:
            return self._same_set(answer, gold) or (a_kind == g_kind and self._ordered(a_items, g_items))
        if isinstance(gold, Const) or isinstance(answer, Const):
            return self._same_set(answer, gold)
        if g_kind in _LISTS or not g_kind:
            if (g_kind == "{}" and a_kind not in ("list", "{}", "")) or (not g_kind and a_kind not in _LISTS):
                return False
            if self.depth and ("{}" in (a_kind, g_kind)) and a_kind != g_kind:
                return False
            if _ELLIPSIS in a_items or _ELLIPSIS in g_items:
                return self._ordered(a_items, g_items)
            return self._all(a_items, g_items, ordered=self.policy.order == "strict" or (a_kind == "()" and not free))
        if a_kind == "list" and g_kind == "()":
            return self._all(a_items, g_items, ordered=not free)
        if a_kind != g_kind or (a_kind in ("[]", "(]", "[)") and len(a_items) != len(g_items)):
            return False
        return self._all(a_items, g_items, ordered=not free or g_kind != "()")

    def _all(self, answer: tuple[Node, ...], gold: tuple[Node, ...], ordered: bool) -> bool:
        return self._ordered(answer, gold) if ordered else self._unordered(answer, gold)

    def _ordered(self, answer: tuple[Node, ...], gold: tuple[Node, ...]) -> bool:
        method = self.method
        self.depth += 1
        same = len(answer) == len(gold) and all(self._same(a, g) for a, g in zip(answer, gold, strict=True))
        self.depth -= 1
        self.method = method
        return same

    def _unordered(self, answer: tuple[Node, ...], gold: tuple[Node, ...]) -> bool:
        """Every value of one is among those of the other; how often does not count."""
        method = self.method
        if len(answer) * len(gold) > _MAX_PAIRS:
            raise OutOfBoundsError("lists too long to be compared")
        found: set[int] = set()
        self.depth += 1
        for a in answer:
            matches = [i for i, g in enumerate(gold) if self._same(a, g)]
            if not matches:
                found.clear()
                break
            found.update(matches)
        self.depth -= 1
        self.method = method
        return len(found) == len(gold)

    def _matrix(self, answer: Node, gold: Node) -> bool:
        rows_a, rows_g = _rows(answer), _rows(gold)
        if rows_a is not None and rows_g is not None:
            return len(rows_a) == len(rows_g) and all(map(self._ordered, rows_a, rows_g))
        flat_a, flat_g = _flat(answer), _flat(gold)
        return flat_a is not None and flat_g is not None and self._ordered(flat_a, flat_g)

    def _ratio(self, answer: Node, gold: Node) -> bool:
        a, g = _parts(answer), _parts(gold)
        if isinstance(answer, Items) and isinstance(gold, Items):
            if answer.kind != gold.kind or len(a) != len(g):
                return False
            return self._ordered(a, g) if self.policy.unreduced == "wrong" else notations.same_ratio(a, g, self._same)
        return len(a) * len(g) == 2 and self._same(notations.divided(a), notations.divided(g))


_METHODS = {"()": "tuple", "{}": "set", "list": "list", "matrix": "matrix", "ratio": "ratio"} | dict.fromkeys(
    (*_SETS, "(]", "[)", "[]", "(["), "interval"
)


def _parts(node: Node) -> tuple[Node, ...]:
    return node.items if isinstance(node, Items) else (node,)


def _rows(node: Node) -> tuple[tuple[Node, ...], ...] | None:
    if not isinstance(node, Items) or node.kind not in ("matrix", "[]", "()"):
        return None
    if all(isinstance(row, Items) and row.kind in ("row", "[]", "()") for row in node.items):
        return tuple(_parts(row) for row in node.items)
    return None


def _flat(node: Node) -> tuple[Node, ...] | None:
    """The entries of a vector, written as a row, a column or a tuple."""
    if not isinstance(node, Items):
        return None
    if node.kind == "matrix":
        rows = [_parts(row) for row in node.items]
        if len(rows) == 1:
            return rows[0]
        return tuple(row[0] for row in rows) if all(len(row) == 1 for row in rows) else None
    return node.items if node.kind in ("()", "[]", "list") else None
