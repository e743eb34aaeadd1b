"""Whether an answer only repeats the question: an expression that stands there and is still to be worked out."""

import re
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from groupwise.grading.math.bounds import OutOfBoundsError, ParseError
from groupwise.grading.math.evaluated import is_number
from groupwise.grading.math.parser import parse
from groupwise.grading.math.relations import assignment
from groupwise.grading.math.rewrite import mapped
from groupwise.grading.math.spelling import canonical, stripped
from groupwise.grading.math.tree import Based, Items, Node, Num, Op, Quantity, Var, parts_of

_FORMULAS = re.compile(
    r"\$\$(.{1,800}?)\$\$|(?<![\\$])\$([^$]{1,800})\$|\\\((.{1,800}?)\\\)|\\\[(.{1,800}?)\\\]"
    r"|\\begin\{align\*?\}(.{1,800}?)\\end\{align",
    re.DOTALL,
)
_PLAIN = re.compile(r"([-(0-9][0-9 .,()+*/^\u00d7\u00f7\u00b7\u2212-]{0,200}+)(?:[!%]|\s?[A-Za-z]{1,12})?")
_ASKS_FOR_FORM = re.compile(
    r"\b(?:express|convert|write|rewrite|simplif\w+|reduce\w*|round\w*)\b"
    r"|\bas an? (?:\w+ )?(?:fraction|decimal|percent\w*)|(?:lowest|simplest) (?:terms|form)|[\u5316\u5199\u5beb]",
    re.IGNORECASE,
)
_SIDES = re.compile(r"(?<![<>])=|\\\\|\\(?:approx|equiv|to|implies|quad|qquad)(?![A-Za-z])|\?")
_BLANK = re.compile(r"\s|\\[,;:! ]|&|[.,;:?]+\Z")
_MOST_FORMULAS, _MAX_QUESTION = 60, 8_192
_NEUTRAL = {"add": Num(Fraction(0)), "mul": Num(Fraction(1))}


class _Question(NamedTuple):
    """What stands in a question: every expression with all its parts, and every formula as text."""

    values: frozenset[Node]
    texts: frozenset[str]
    asks_for_form: bool


def is_echo(text: str, answer: Node, gold: Node, question: str, numbers: bool, others: bool) -> bool:
    """Whether an answer that is right stands in the question as an expression, in another form than the reference.

    text: the answer as written. numbers: whether it may be a number as written, such as 2/4, which counts where the
    question asks for another form of it; others: whether it may be anything else.
    """
    value, reference = _value(answer), _value(gold)
    if isinstance(value, Var) or normal(_bare(value)) == normal(_bare(reference)):
        return False
    written = is_number(value, "+" not in text) and not isinstance(value, Based)
    if not (numbers if written else others):
        return False
    found = _read(question[-_MAX_QUESTION:])
    if written and not found.asks_for_form:
        return False
    return _squeezed(text) in found.texts or not found.values.isdisjoint((normal(answer), normal(value)))


def normal(node: Node) -> Node:
    """The tree without what changes neither value nor form: order, nested brackets, + 0, times 1, zeros of decimals."""

    def change(part: Node) -> Node | None:
        match part:
            case Num(value):
                return Num(value)
            case Op("neg", (Num(value),)):
                return Num(-value)
            case Op("add" | "mul" as name, args):
                flat: list[Node] = []
                for arg in map(normal, args):
                    flat += arg.args if isinstance(arg, Op) and arg.name == name else (arg,)
                flat = sorted((arg for arg in flat if arg != _NEUTRAL[name]), key=repr)
                return flat[0] if len(flat) == 1 else Op(name, tuple(flat))
            case Items("list" | "{}" as kind, items):
                return Items(kind, tuple(sorted(map(normal, items), key=repr)))
        return None

    return mapped(node, change)


def _value(node: Node) -> Node:
    named = assignment(node)
    return named[1] if named is not None else node


def _bare(node: Node) -> Node:
    """Without its unit or percent sign, which may be left out."""
    if isinstance(node, Op) and node.name == "percent":
        return node.args[0]
    return node.value if isinstance(node, Quantity) else node


@lru_cache(maxsize=4_096)
def _read(question: str) -> _Question:
    formulas = [next(filter(None, match.groups()), "") for match in _FORMULAS.finditer(question)]
    outside = _FORMULAS.sub(" ", question)
    for match in _PLAIN.finditer(outside):
        formulas += dict.fromkeys((match[0], match[1]))
    values: set[Node] = set()
    texts: set[str] = set()
    for formula in formulas[:_MOST_FORMULAS]:
        pieces = [formula, *_SIDES.split(formula)[:20]]
        for piece in dict.fromkeys(part.strip(" .,;:?") for part in pieces):
            texts.add(_squeezed(piece))
            try:
                node = parse(stripped(piece))
            except (ParseError, OutOfBoundsError):
                continue
            values.update(normal(part) for part in parts_of(node) if not isinstance(part, Num | Var))
    texts.discard("")
    return _Question(frozenset(values), frozenset(texts), _ASKS_FOR_FORM.search(question) is not None)


def _squeezed(text: str) -> str:
    return _BLANK.sub("", canonical(text))
