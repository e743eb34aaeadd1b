"""Arithmetic: sums, products, powers, functions, in LaTeX and in plain spelling."""

from fractions import Fraction

from groupwise.grading.math.bounds import MAX_POSTFIX, OutOfBoundsError, ParseError
from groupwise.grading.math.function_syntax import FunctionParser
from groupwise.grading.math.rewrite import negated, quotient
from groupwise.grading.math.tree import Node, Num, Op, Quantity, Var
from groupwise.grading.math.units import DEGREE
from groupwise.grading.math.vocabulary import NOT_FACTORS
from groupwise.grading.math.words import plain_words

_STARTS = frozenset(("letter", "(", "[", "{", "number"))


class ExpressionParser(FunctionParser):
    """Recursive descent over sums, products and powers."""

    def sum(self) -> Node:
        """Terms with + - ± ∓ between them."""
        terms: list[Node] = []
        sign = ""
        while True:
            signs = 0
            while self.kind in ("+", "-") or self.named("pm") or self.named("mp"):
                token = self.take()
                name = token.text if token.kind == "name" else token.kind
                sign = {"-": {"": "-", "-": ""}.get(sign, sign)}.get(name, name if token.kind == "name" else sign)
                signs += 1
                if signs > MAX_POSTFIX:
                    raise ParseError("too many signs")
            term = self.product()
            if sign == "-":
                term = negated(term)
            elif sign:
                term = Op(sign, (term,))
            terms.append(self.count(term))
            sign = ""
            if not (self.kind in ("+", "-") or self.named("pm") or self.named("mp")):
                break
        return terms[0] if len(terms) == 1 else Op("add", tuple(terms))

    def product(self) -> Node:
        """Factors, with or without a sign between them."""
        above, below = [self.power()], list[Node]()
        while True:
            if self.kind in ("*", "/"):
                inverse = self.take().kind == "/"
                factor = self.signed()
                (below if inverse else above).append(factor)
            elif self.named("choose") or self.named("over"):
                name = "div" if self.take().text == "over" else "binomial"
                return Op(name, (quotient(above, below), self.product()))
            elif self.named("bmod") or self.named("mod"):
                self.take()
                above = [Op("mod", (quotient(above, below), self.power()))]
                below = []
            elif self.implicit():
                above.append(self.count(self.power()))
            else:
                return quotient(above, below)

    def signed(self) -> Node:
        """A factor that may carry a sign, as in 3*-2."""
        negative = False
        while self.kind in ("-", "+"):
            negative ^= self.take().kind == "-"
        factor = self.count(self.power())
        return negated(factor) if negative else factor

    def implicit(self) -> bool:
        """Whether a factor follows without a sign; a number never does, so that `7 7` is no product."""
        kind = self.kind
        if kind == "number":
            return self.position > 0 and self.tokens[self.position - 1].kind == "!"
        if kind == "|":
            return self.bars == 0
        if kind == "name":
            return self.token.text not in NOT_FACTORS
        return kind in _STARTS

    def power(self) -> Node:
        """A primary with what is behind it: powers, factorials, %, degrees."""
        node = self.mixed(self.primary())
        for _ in range(MAX_POSTFIX):
            kind = self.kind
            if kind == "^":
                self.take()
                self.enter()
                if self.kind == "'":
                    raise ParseError("a prime as a power")
                order = self.derivative() if isinstance(node, Var) else ""
                node = Var(f"{node.name}^({order})") if isinstance(node, Var) and order else self.raised(node)
                self.leave()
            elif kind == "!" and self.following != "=":
                self.take()
                name = "factorial"
                if self.kind == "!":
                    self.take()
                    name = "double_factorial"
                    if self.kind == "!":
                        raise ParseError("more than two factorial signs in a row")
                node = Op(name, (node,))
            elif kind == "%":
                self.take()
                node = Op("percent", (node,))
            elif kind == "degree":
                node = Op({"C": "celsius", "F": "fahrenheit"}.get(self.take().text, "degree"), (node,))
            elif kind == "'":
                self.take()
                if not isinstance(node, Var):
                    raise ParseError("a prime behind a value")
                node = Var(node.name + "'")
            else:
                return node
            self.count(node)
        raise OutOfBoundsError(f"more than {MAX_POSTFIX} powers or factorials in a row")

    def raised(self, base: Node) -> Node:
        """The power with what follows as its exponent."""
        return Op("pow", (base, self.script()))

    def derivative(self) -> str:
        """The order of a derivative such as f^{(3)}, taken off; empty for a power."""
        kinds = [token.kind for token in self.tokens[self.position : self.position + 5]]
        if kinds != ["{", "(", "number", ")", "}"]:
            return ""
        self.position += 5
        return self.tokens[self.position - 3].text

    def mixed(self, node: Node) -> Node:
        """A mixed number: an integer and a proper fraction behind it, as 1 1/4 and 2\\frac{1}{2}."""
        if not isinstance(node, Num) or node.decimals >= 0 or node.value.denominator != 1:
            return node
        part: tuple[Fraction, Fraction] | None = None
        start = self.position
        if self.kind == "number" and self.following == "/":
            above = self.take().number
            self.take()
            below = self.take().number
            if above is None or below is None:
                raise ParseError("two numbers side by side")
            part = (above.value, below.value)
            if not 0 < part[0] < part[1]:
                raise ParseError("two numbers side by side")
        elif self.named("frac"):
            fraction = self.primary()
            if isinstance(fraction, Op) and all(isinstance(a, Num) and a.decimals < 0 for a in fraction.args):
                values = [a.value for a in fraction.args if isinstance(a, Num)]
                if len(values) == 2 and 0 < values[0] < values[1]:
                    part = (values[0], values[1])
        if part is None:
            self.position = start
            return node
        return Op("add", (node, Op("div", (Num(part[0]), Num(part[1])))))

    def primary(self) -> Node:
        """A number, a variable, a constant, a group, a function with its arguments."""
        token = self.take()
        kind = token.kind
        if kind == "number":
            assert token.number is not None
            return self.count(token.number)
        if kind == "letter":
            return self.count(self.subscripted(token))
        if kind == "{":
            self.enter()
            if self.kind == "}":
                raise ParseError("an empty group")
            node = self.group("}")
            self.leave()
            return node
        if kind in ("(", "[", "\\{"):
            return self.count(self.bracketed(kind))
        if kind == "|":
            self.enter()
            self.bars += 1
            node = self.sum()
            self.bars -= 1
            self.expect("|")
            self.leave()
            return self.count(Op("abs", (node,)))
        if kind == "label":
            return Var(plain_words(token.text) or token.text)
        if kind == "name":
            return self.count(self.command(token.text))
        raise ParseError(f"unexpected {token.text or kind!r}")

    def group(self, closing: str) -> Node:
        """A group in braces, with its end taken off; in a group bars count anew."""
        bars, self.bars = self.bars, 0
        items = self.items()
        self.bars = bars
        self.expect(closing)
        if len(items) != 1:
            raise ParseError("a list in a group")
        inner = items[0]
        if isinstance(inner, Quantity) and inner.unit == DEGREE:
            return Op("degree", (inner.value,))
        return inner
