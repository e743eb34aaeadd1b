"""The points at which expressions with variables are compared: drawn from the two texts, so that none is known ahead.

An ordinary point has a value between -5 and 10 for each variable; a far one lies beyond every constant of the
expressions, so that |x + 10^10| - 10^10 is told from x; a kink is where one |u| or max(u, v) changes, so that none is
told from x only where nobody looks.
"""

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from hashlib import blake2b
from itertools import combinations, pairwise

from groupwise.grading.math.bounds import Budget, OutOfBoundsError, UndefinedError
from groupwise.grading.math.exact import bits_of, exact
from groupwise.grading.math.rewrite import substituted
from groupwise.grading.math.tree import Const, Node, Num, Op, Var, children, contains, literal, parts_of, variables

Point = dict[str, Fraction]

_RANGES = ((0.15, 0.95), (1.1, 3.2), (2.3, 9.1), (-0.9, -0.1), (-4.7, -1.2), (-2.0, 5.0))
_INTEGER_NAMES = frozenset("nkmNKM")
_FACTORIALS = ("factorial", "double_factorial", "binomial")
_STEPS = ("floor", "ceil", "mod")
_HALF = Fraction(1, 2)
_SIGNS = ((1, 1), (-1, -1), (1, -1), (-1, 1))
_MAX_REACH, _MAX_KINKS = 2_000, 6


def ordinary_points(nodes: Sequence[Node], budget: Budget) -> Iterator[Point]:
    """Points of moderate values: positive ones first, then negative, then either.

    A letter under an even root is positive; n, k and m next to floors, factorials or (-1)^n are integers.
    """
    names = sorted(frozenset[str]().union(*map(variables, nodes)))
    same_bars = len({contains(node, "abs") for node in nodes}) == 1
    positive = frozenset[str]().union(*map(_under_roots, nodes)) if same_bars else frozenset[str]()
    counts = _INTEGER_NAMES.intersection(names) if any(map(_is_discrete, nodes)) else frozenset[str]()
    from_zero = any(contains(node, *_FACTORIALS) for node in nodes)
    for index, (low, high) in enumerate(_RANGES + _RANGES[:2] * bool(counts)):
        point: Point = {}
        for name in names:
            value = Fraction(low) + (Fraction(high) - Fraction(low)) * _share(name, index, budget)
            if name in counts:
                value = Fraction(2 * int(9 * _share(name, index, budget)) + index % 2)
                value = -value if index in (3, 4) and not from_zero else value
            point[name] = abs(value) if name in positive else value
        yield point
    if any(contains(node, *_STEPS) for node in nodes):
        for index in range(10, 13):
            yield {name: Fraction(int(19 * _share(name, index, budget)) - 9 * (name not in positive)) for name in names}


def refuting_points(nodes: Sequence[Node], budget: Budget) -> Iterator[Point]:
    """Points that can only tell apart: at the kinks of absolute values and between them, and far out."""
    names = sorted(frozenset[str]().union(*map(variables, nodes)))
    if len(names) == 1:
        yield from ({names[0]: place} for place in _kinks(nodes, names[0], budget))
    if any(contains(node, *_FACTORIALS) for node in nodes):
        return
    reach = max(_reach(node)[0] for node in nodes)
    positive = frozenset[str]().union(*map(_under_roots, nodes))
    counts = _INTEGER_NAMES.intersection(names) if any(map(_is_discrete, nodes)) else frozenset[str]()
    for index, signs in enumerate(_SIGNS[: 2 if len(names) == 1 else 4], start=20):
        point = Point()
        for number, name in enumerate(names):
            size = (1 + _share(name, index, budget)) * 2 ** (reach + 1 + int(2 * _share(name + "'", index, budget)))
            value = size if signs[number % 2] > 0 else -size
            value = Fraction(round(value)) if name in counts else value
            point[name] = abs(value) if name in positive else value
        yield point


def _share(name: str, index: int, budget: Budget) -> Fraction:
    """A number between 0 and 1 that the two texts choose; its denominator too, so that no period fits it."""
    drawn = blake2b(f"{budget.salt}:{index}:{name}".encode(), digest_size=16).digest()
    below = int.from_bytes(drawn[:8], "big") | (1 << 60) | 1
    return Fraction(int.from_bytes(drawn[8:], "big") % below, below)


def _is_discrete(node: Node) -> bool:
    """Whether floors, factorials or powers of a negative number to a variable occur."""
    if contains(node, *_FACTORIALS, *_STEPS):
        return True
    powers = [part for part in parts_of(node) if isinstance(part, Op) and part.name == "pow"]
    return any((literal(part.args[0]) or 0) < 0 and variables(part.args[1]) for part in powers)


def _under_roots(node: Node) -> frozenset[str]:
    """The variables that stand in an odd power under an even root, as those of sqrt(2gh)."""
    found: set[str] = set()
    for part in parts_of(node):
        match part:
            case Op("root", (inside, degree)) if (literal(degree) or _HALF) % 2 == 0:
                found |= _odd(inside)
            case Op("pow", (inside, Op("div", (Num(), below)))) if (literal(below) or _HALF) % 2 == 0:
                found |= _odd(inside)
    return frozenset(found)


def _odd(node: Node) -> set[str]:
    match node:
        case Var(name):
            return {name}
        case Op("mul" | "div", args):
            odd: set[str] = set()
            for arg in args:
                odd ^= _odd(arg)
            return odd
        case Op("pow", (base, exponent)) if (literal(exponent) or _HALF) % 2 == 1:
            return _odd(base)
    return set()


def _reach(node: Node) -> tuple[int, bool]:
    """Binary digits that the constants of an expression reach, multiplied out, and whether it has a variable."""
    parts = [_reach(part) for part in children(node)]
    varies = isinstance(node, Var) or any(part[1] for part in parts)
    largest = max((reach for reach, _ in parts), default=0)
    match node:
        case Num(value):
            largest = bits_of(value)
        case Const():
            largest = 2
        case Op("pow" | "exp", args) if not parts[-1][1]:
            largest = int((parts[0][0] if len(args) > 1 else 2) * max(Fraction(1), abs(_size(args[-1]))))
        case Op("pow", _):
            largest = parts[1][0] if not parts[0][1] else largest
        case Op("mul" | "div", _):
            steady = sum(reach for reach, moves in parts if not moves)
            largest = steady + max((reach for reach, moves in parts if moves), default=0)
        case Op("add", _):
            largest += 1
    return min(_MAX_REACH, largest), varies


def _size(node: Node) -> Fraction:
    try:
        return min(exact(node, Budget(200)) or Fraction(1), Fraction(_MAX_REACH))
    except (OutOfBoundsError, UndefinedError):
        return Fraction(_MAX_REACH)


def _kinks(nodes: Iterable[Node], name: str, budget: Budget) -> list[Fraction]:
    """Where something linear between bars changes its sign, or two sides of a maximum cross, and between these."""
    turns: list[Node] = []
    for part in (part for node in nodes for part in parts_of(node) if isinstance(part, Op)):
        if part.name == "abs":
            turns.append(part.args[0])
        elif part.name in ("max", "min"):
            turns += [Op("add", (one, Op("neg", (other,)))) for one, other in combinations(part.args[:4], 2)]
        elif part.name == "root" and isinstance(part.args[0], Op) and part.args[0].name == "pow":
            turns.append(part.args[0].args[0])
    places: set[Fraction] = set()
    for turn in turns[:_MAX_KINKS]:
        try:
            at_0, at_1, at_2 = (exact(substituted(turn, name, Fraction(at)), budget) for at in (0, 1, 2))
        except UndefinedError:
            continue
        if at_0 is not None and at_1 is not None and at_2 is not None and at_2 - at_1 == at_1 - at_0 != 0:
            places.add(at_0 / (at_0 - at_1))
    ordered = sorted(places)
    return ordered + [(left + right) / 2 for left, right in pairwise(ordered)]
