"""Arithmetic: sums, products, powers, functions, in LaTeX and in plain spelling."""

from abc import ABC, abstractmethod
from fractions import Fraction

from groupwise.grading.math.bounds import MAX_POSTFIX, OutOfBoundsError, ParseError
from groupwise.grading.math.reader import Token, TokenReader
from groupwise.grading.math.rewrite import negated, quotient
from groupwise.grading.math.tree import Const, Node, Num, Op, Quantity, Var
from groupwise.grading.math.units import DEGREE
from groupwise.grading.math.vocabulary import NOT_FACTORS
from groupwise.grading.math.words import plain_words

_SIGNS = frozenset(("+", "-", "pm", "mp"))
_STARTS = frozenset(("letter", "(", "[", "{", "number"))


class ExpressionParser(TokenReader, ABC):
    """Recursive descent over sums, products and powers; what is in them besides, a subclass says."""

    @abstractmethod
    def command(self, name: str) -> Node:
        """A LaTeX command or a named function."""

    @abstractmethod
    def bracketed(self, opening: str) -> Node:
        """What stands in brackets."""

    @abstractmethod
    def item(self) -> Node:
        """One of several parts between commas."""

    def items(self, joins: bool = True) -> list[Node]:
        """What stands between commas and semicolons, with `joins` also between `and` and `or`: (1 or 2) is no pair."""
        separators = (",", ";", "join") if joins else (",", ";")
        items = [self.item()]
        while self.kind in separators:
            self.take()
            while joins and self.kind in separators:
                self.take()
            items.append(self.item())
        return items

    def sum(self) -> Node:
        """Terms with + - ± ∓ between them."""
        terms: list[Node] = []
        while not terms or self.name in _SIGNS:
            sign, signs = "", 0
            while (name := self.name) in _SIGNS:
                self.take()
                if name in ("pm", "mp"):
                    sign = name
                elif name == "-" and sign in ("", "-"):
                    sign = "" if sign else "-"
                signs += 1
                if signs > MAX_POSTFIX:
                    raise ParseError("too many signs")
            term = self.product()
            if sign:
                term = negated(term) if sign == "-" else Op(sign, (term,))
            terms.append(self.count(term))
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
                node = (
                    Var(f"{node.name}^({order})")
                    if isinstance(node, Var) and order
                    else Op("pow", (node, self.script()))
                )
                self.leave()
            elif kind == "!" and self.following != "=":
                self.take()
                if is_double := self.kind == "!":
                    self.take()
                    if self.kind == "!":
                        raise ParseError("more than two factorial signs in a row")
                node = Op("double_factorial" if is_double else "factorial", (node,))
            elif kind == "%":
                self.take()
                node = Op("percent", (node,))
            elif kind == "degree":
                node = Op({"C": "celsius", "F": "fahrenheit"}.get(self.take().text, "degree"), (node,))
            elif kind == "_" and isinstance(node, Var) and "_" not in node.name:
                self.take()
                node = Var(node.name + "_" + self.subscript())
            elif kind == "'":
                self.take()
                if not isinstance(node, Var):
                    raise ParseError("a prime behind a value")
                node = Var(node.name + "'")
            else:
                return node
            self.count(node)
        raise OutOfBoundsError(f"more than {MAX_POSTFIX} powers or factorials in a row")

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
        start = self.position
        if self.kind == "number" and self.following == "/":
            above, _, below = self.take().number, self.take(), self.take().number
            if above is None or below is None or not 0 < above.value < below.value:
                raise ParseError("two numbers side by side")
            return Op("add", (node, Op("div", (Num(above.value), Num(below.value)))))
        if self.named("frac"):
            fraction = self.primary()
            if isinstance(fraction, Op) and all(isinstance(a, Num) and a.decimals < 0 for a in fraction.args):
                values = [a.value for a in fraction.args if isinstance(a, Num)]
                if len(values) == 2 and 0 < values[0] < values[1]:
                    return Op("add", (node, Op("div", (Num(values[0]), Num(values[1])))))
        self.position = start
        return node

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

    def subscripted(self, token: Token) -> Node:
        """A variable with its subscript; e and i are constants, f(x) is a function."""
        name = token.text
        if name in ("C", "P") and self.kind == "(" and (chosen := self.chosen(name)) is not None:
            return chosen
        if self.kind == "_":
            self.take()
            return Var(name + "_" + self.subscript())
        if name in ("e", "i", "pi"):
            return Const(name)
        return Var(name)

    def chosen(self, name: str) -> Node | None:
        """C(10, 3) and P(10, 3) of two integers, taken off; None for anything else."""
        parts = self.tokens[self.position : self.position + 5]
        if [part.kind for part in parts] != ["(", "number", ",", "number", ")"]:
            return None
        n, k = parts[1].number, parts[3].number
        if n is None or k is None or n.decimals >= 0 or k.decimals >= 0 or n.value < k.value:
            return None
        self.position += 5
        if name == "C":
            return Op("binomial", (n, k))
        return Op("div", (Op("factorial", (n,)), Op("factorial", (Num(n.value - k.value),))))

    def subscript(self) -> str:
        """The text of a subscript."""
        if self.kind != "{":
            return self.take().text
        parts, depth = list[str](), 0
        while self.position < len(self.tokens):
            token = self.take()
            depth += (token.kind == "{") - (token.kind == "}")
            if not depth:
                return "".join(parts)
            if token.kind != "{":
                parts.append(token.text)
        raise ParseError("a subscript without its end")

    def script(self) -> Node:
        """An exponent or argument: a group, or what follows as far as it is one number, letter or command."""
        if self.kind in ("-", "+"):
            negative = self.take().kind == "-"
            node = self.script()
            return Op("neg", (node,)) if negative else node
        if self.kind == "number":
            return self.script_argument()
        node = self.primary()
        if self.kind == "^":
            self.take()
            self.enter()
            node = Op("pow", (node, self.script()))
            self.leave()
        return self.count(node)

    def script_argument(self) -> Node:
        """The argument of a root: one number, letter, command or group."""
        number = self.token.number
        if number is None:
            return self.primary()
        self.take()
        return number

    def digit(self) -> Node:
        """An argument of \\frac without braces is one digit, one letter or one command."""
        token = self.token
        if token.kind != "number" or not token.text.isdigit() or len(token.text) == 1:
            return self.script_argument()
        rest = token.text[1:]
        self.tokens[self.position] = Token("number", rest, Num(Fraction(int(rest[:4000]))))
        if len(rest) > 4000:
            raise ParseError("a fraction without braces")
        return Num(Fraction(int(token.text[0])))
