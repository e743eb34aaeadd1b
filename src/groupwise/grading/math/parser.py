"""From tokens to the tree of an answer: lists, relations, sets, quantities."""

import re
from fractions import Fraction

from groupwise.grading.math.bounds import OutOfBoundsError, ParseError
from groupwise.grading.math.function_syntax import FunctionParser
from groupwise.grading.math.lexer import UnitLetters, tokens_of
from groupwise.grading.math.notations import congruence
from groupwise.grading.math.tree import Based, Chain, Clock, Const, Items, Node, Num, Op, Quantity, Text, Var
from groupwise.grading.math.units import CELSIUS, DEGREE, DOLLAR, FAHRENHEIT, SCALES, Unit, unit_of
from groupwise.grading.math.words import date_of, exact_words, is_prose, number_of, plain_words

_CLOCK = re.compile(
    r"\s*+(?:\\text\s*+\{)?\s*+([0-2]?\d)\s*+:\s*+([0-5]\d)(?::([0-5]\d))?(?:\s|~|\\[, ;])*+"
    r"(?:(?:\\(?:text|mathrm|mbox)\s*+\{)?(?:\s|~)*+([ap])\.?\s*+m\.?\s*+\}?)?\s*+\}?\s*+",
    re.IGNORECASE,
)
_HOUR = re.compile(
    r"\s*+(?:\\text\s*+\{)?\s*+(1[0-2]|0?[1-9])(?:\s|~|\\[, ;])*+"
    r"(?:\\(?:text|mathrm|mbox)\s*+\{)?(?:\s|~)*+([ap])\.?\s*+m\.?\s*+\}?\s*+",
    re.IGNORECASE,
)
_BASED = re.compile(
    r"\s*+\(?\s*+(?:\\text\s*+\{)?([0-9A-Za-z]{1,200}|[0-9]{1,3}(?:(?:,|\{,\})[0-9]{3}){1,50})\}?\s*+\)?\s*+"
    r"(?:_\s*+(?:\{\s*+)?(?:\\(?:text|mathrm)\s*+\{\s*+)?|(?:\\text\s*+\{)?\s*+(?:\(?in\s++)?base[\s-]*+)(?:(\d{1,2})|([a-z]{3,8}))\s*+[})]*+\s*+",
)
_MONTH_NAMES = "jan feb mar apr may jun jul aug sep oct nov dec"
_MONTH = re.compile(_MONTH_NAMES.replace(" ", "|"), re.IGNORECASE)
_ISO_DATE = re.compile(r"\s*+(\d{4})[-/](0[1-9]|1[0-2])[-/](0[1-9]|[12]\d|3[01])\s*+")
_LETTERS = re.compile(r"[A-Za-z][A-Za-z -]{2,60}")
_THIN = re.compile(r"(?<=\d)\\[,!;:]\s?(?=\d)")
_BASE_NAMES = "two three four five six seven eight nine ten eleven twelve"
_BASES = {name: base for base, name in enumerate(_BASE_NAMES.split(), start=2)} | {"sixteen": 16}
_NAMED_SETS = dict.fromkeys(("all real numbers", "all reals", "real numbers", "all real x"), "reals") | dict.fromkeys(
    ("no solution", "no solutions", "no real solution", "no real solutions", "empty set", "empty", "none"), "empty"
)
_WORD = re.compile(r"[^\W\d_]{2}")
_RELATIONS = frozenset(("=", "<", ">", "<=", ">=", "!=", "~", "in", "notin", ":"))
_DEGREES = frozenset(("degree", "celsius", "fahrenheit"))
_SETS = {"cup": "union", "cap": "intersection", "setminus": "difference"}


def parse(text: str, unit_letters: UnitLetters = "none") -> Node:
    """The tree of an answer; Text where it is words. unit_letters: whether a lone `m` behind a number is metres.

    Raises ParseError for what is neither, OutOfBoundsError for what is too large to be read.
    """
    special = _special(text)
    if special is not None:
        return special
    if _LETTERS.fullmatch(text) and (number := number_of(plain_words(text))) is not None:
        return Num(Fraction(number))
    try:
        tokens, currency = tokens_of(text, unit_letters)
        node = AnswerParser(tokens).answer()
        return Quantity(node, DOLLAR) if currency and isinstance(node, Num | Op) else node
    except ParseError:
        if _WORD.search(text):
            return in_words(plain_words(text)) if is_prose(text) else Text(exact_words(text))
        raise
    except RecursionError as error:
        raise OutOfBoundsError("nested too deep") from error


def in_words(words: str) -> Node:
    """An answer in words, where they name a number or a set that."""
    number = number_of(words)
    if number is not None:
        return Num(Fraction(number))
    return Const(_NAMED_SETS[words]) if words in _NAMED_SETS else Text(words)


def _special(text: str) -> Node | None:
    """Clock times and numbers in another base, which have their own notation."""
    if len(text) > 300:
        return None
    if _MONTH.search(text) and date_of(words := plain_words(text)) is not None:
        return Text(words)
    if (iso := _ISO_DATE.fullmatch(text)) is not None:
        return Text(f"{iso[1]} {_MONTH_NAMES.split()[int(iso[2]) - 1]} {int(iso[3])}")
    if ":" in text and (clock := _CLOCK.fullmatch(text)) is not None:
        half = (clock[4] or "").lower()
        return Clock(int(clock[1]), int(clock[2]), int(clock[3] or 0), half and half + "m")
    if text.rstrip(" }").lower().endswith(("m", "m.")) and (hour := _HOUR.fullmatch(text)) is not None:
        return Clock(int(hour[1]), 0, 0, hour[2].lower() + "m")
    if ("_" in text or "base" in text) and (based := _BASED.fullmatch(_THIN.sub("", text))) is not None:
        base = int(based[2]) if based[2] else _BASES.get(based[3], 0)
        digits = based[1].replace("{,}", "").replace(",", "").upper()
        if 2 <= base <= 36 and all(int(c, 36) < base for c in digits):
            return Based(digits.lstrip("0") or "0", base)
    return None


class AnswerParser(FunctionParser):
    """Reads what stands around arithmetic: several answers, equations, sets of numbers, units."""

    def answer(self) -> Node:
        """The whole answer, up to a closing full stop."""
        while self.tokens and self.tokens[-1].kind in (".", ",", ";", "...") and len(self.tokens) > 1:
            if self.tokens[-1].kind == "...":
                break
            self.tokens.pop()
        if not self.tokens:
            raise ParseError("nothing to read")
        if all(token.kind == "label" for token in self.tokens):
            raise ParseError("words")
        joins = {token.text for token in self.tokens if token.kind in ("join", ",", ";")}
        items = self.items()
        if self.position < len(self.tokens):
            raise ParseError(f"unexpected {self.tokens[self.position].text!r}")
        if len(items) == 1:
            return items[0]
        bounded = joins == {"and"} and all(isinstance(item, Chain) and item.relations[0] != "=" for item in items)
        return Items("intersection" if bounded else "list", tuple(items))

    def item(self) -> Node:
        """One answer: a chain of relations, or a set, or a value with its unit."""
        if self.kind == "~":
            self.take()
        sides, relations = [self.set_expression()], list[str]()
        while (relation := self.relation()) is not None:
            relations.append(relation)
            if relation == "=" and self.kind == "~":
                self.take()
            sides.append(self.set_expression())
        if self.named("pmod"):
            if set(relations) - {"="}:
                raise ParseError("a modulus behind an inequality")
            self.take()
            return congruence(sides, self.script())
        if not relations:
            return sides[0]
        if set(relations) == {":"}:
            return Items("ratio", tuple(sides))
        if ":" in relations:
            raise ParseError("a colon among relations")
        return Chain(tuple(relations), tuple(sides))

    def relation(self) -> str | None:
        """The next relation, taken off."""
        name = self.name
        if name == "!" and self.following == "=":
            self.take()
            name = "!="
        if name not in _RELATIONS:
            return None
        self.take()
        if name in ("<", ">") and self.kind == "=":
            self.take()
            name += "="
        return name

    def set_expression(self) -> Node:
        """Unions, intersections and differences of sets, from the left."""
        node = self.quantity()
        while self.name in _SETS:
            name = _SETS[self.take().text]
            node = Items(name, (node, self.quantity()))
            self.count(node)
        return node

    def quantity(self) -> Node:
        """A value, with its unit where it has one; `3 ft 4 in` is their sum."""
        if self.kind == "...":
            self.take()
            return Const("...")
        node = self.with_unit(self.sum())
        while isinstance(node, Quantity) and self.kind == "number":
            part = self.with_unit(self.sum())
            if not isinstance(part, Quantity) or part.unit.dimensions != node.unit.dimensions or node.unit.shift:
                raise ParseError("two quantities side by side")
            ratio = Num(part.unit.factor / node.unit.factor)
            node = Quantity(Op("add", (node.value, Op("mul", (ratio, part.value)))), node.unit)
        return node

    def with_unit(self, node: Node) -> Node:
        """The value together with the unit behind it."""
        if isinstance(node, Op) and node.name == "neg" and isinstance(node.args[0], Op):
            inner = self.with_unit(node.args[0]) if node.args[0].name in _DEGREES else node
            if isinstance(inner, Quantity):
                return Quantity(Op("neg", (inner.value,)), inner.unit)
        if isinstance(node, Op) and node.name in _DEGREES:
            unit = {"degree": DEGREE, "celsius": CELSIUS, "fahrenheit": FAHRENHEIT}[node.name]
            if self.kind == "unit":
                named = unit_of(self.take().text)
                unit = named if named is not None and named.dimensions == (("temperature", 1),) else unit
            return Quantity(node.args[0], unit)
        if self.kind != "unit":
            return node
        found = self.take()
        words = found.text.split()
        if words and words[0].lower() in SCALES:
            scaled: Node = Op("mul", (node, Num(Fraction(SCALES[words[0].lower()]))))
            rest = unit_of(" ".join(words[1:]))
            return scaled if rest is None else Quantity(scaled, rest)
        if isinstance(node, Num) and number_of(plain_words(found.text)) == node.value:
            return node
        unit_found: Unit | None = found.unit or unit_of(found.text)
        if unit_found is None:
            raise ParseError(f"no unit: {found.text!r}")
        return Quantity(node, unit_found)

    def bracketed(self, opening: str) -> Node:
        """What stands in brackets, whose kinds may differ: `(3, 4]`."""
        self.enter()
        closing = {"(": (")", "]"), "[": ("]", ")"), "\\{": ("\\}",), "langle": ("rangle",), "<": (">",)}[opening]
        if self.name in closing:
            self.take()
            self.leave()
            if opening == "\\{":
                return Const("empty")
            raise ParseError("empty brackets")
        if opening == "\\{" and self.kind == "letter" and self.following in ("|", ":"):
            self.position += 2
        items = self.items(joins=opening == "\\{")
        if opening == "\\{" and self.named("mid") and len(items) == 1:
            self.take()
            items = self.items()[-1:]
        if self.name not in closing:
            raise ParseError(f"{opening!r} without its end")
        right = self.name
        self.take()
        self.leave()
        if opening == "\\{":
            if len(items) == 1 and isinstance(items[0], Chain) and items[0].relations[0] not in ("=", "in"):
                return Items("union", (items[0],))
            return Items("{}", tuple(items))
        if opening in ("langle", "<"):
            return Items("()", tuple(items))
        if len(items) == 1:
            if isinstance(items[0], Quantity) and items[0].unit == DEGREE:
                return Op("degree", (items[0].value,))
            bare = isinstance(items[0], Num | Op | Var) or (isinstance(items[0], Items) and items[0].kind == "matrix")
            if bare or (opening == "(" and right == ")"):
                return items[0]
            return Items("[]", tuple(items))
        return Items(opening + right, tuple(items))
