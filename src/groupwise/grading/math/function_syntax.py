"""Functions, roots, fractions and other commands, with their arguments."""

from abc import ABC, abstractmethod
from fractions import Fraction

from groupwise.grading.math.bounds import ParseError
from groupwise.grading.math.reader import Token, TokenReader
from groupwise.grading.math.rewrite import conjugated, determinant, written_out
from groupwise.grading.math.tree import Const, Node, Num, Op, Var
from groupwise.grading.math.vocabulary import ALIASES, FUNCTIONS, OF_SEVERAL, TRIGONOMETRIC


class FunctionParser(TokenReader, ABC):
    """Reads what a command takes; what arithmetic is, a subclass says."""

    @abstractmethod
    def sum(self) -> Node:
        """Terms with signs between them."""

    @abstractmethod
    def product(self) -> Node:
        """Factors, with or without a sign between them."""

    @abstractmethod
    def power(self) -> Node:
        """A primary with what is behind it."""

    @abstractmethod
    def signed(self) -> Node:
        """A factor that may carry a sign."""

    @abstractmethod
    def implicit(self) -> bool:
        """Whether a factor follows without a sign."""

    @abstractmethod
    def primary(self) -> Node:
        """A number, a variable, a group, a function."""

    @abstractmethod
    def items(self) -> list[Node]:
        """Several parts between commas."""

    @abstractmethod
    def bracketed(self, opening: str) -> Node:
        """What stands in brackets."""

    @abstractmethod
    def matrix(self) -> Node:
        """A matrix."""

    def command(self, name: str) -> Node:
        """A LaTeX command or a named function."""
        if name == "frac":
            self.enter()
            node = Op("div", (self.digit(), self.digit()))
            self.leave()
            return node
        if name == "sqrt":
            return self.root()
        if name == "binom":
            self.enter()
            node = Op("binomial", (self.digit(), self.digit()))
            self.leave()
            return node
        if name == "infty":
            return Const("oo")
        if name in ("emptyset", "numbersR"):
            return Const("empty" if name == "emptyset" else "reals")
        if name == "begin":
            return self.matrix()
        if name == "begindet":
            return determinant(self.matrix())
        if name in ("sum", "prod"):
            return self.written_out("add" if name == "sum" else "mul")
        if name in ("overline", "bar"):
            self.enter()
            inner = conjugated(self.digit())
            self.leave()
            return inner
        if name in ("lfloor", "lceil"):
            self.enter()
            node = Op("floor" if name == "lfloor" else "ceil", (self.sum(),))
            if not self.named("r" + name[1:]):
                raise ParseError(f"\\{name} without its end")
            self.take()
            self.leave()
            return node
        if name == "langle":
            return self.bracketed("langle")
        if name in ("angle", "triangle"):
            return Var(name + "".join(self.take().text for _ in range(3) if self.kind == "letter"))
        if name == "mod":
            return self.remainder()
        if name in FUNCTIONS:
            return self.function(ALIASES.get(name, name))
        raise ParseError(f"unknown \\{name}")

    def written_out(self, name: str) -> Node:
        """A sum or product over an index between two integers."""
        self.enter()
        self.expect("_")
        self.expect("{")
        index = self.take()
        self.expect("=")
        low = self.integer(self.sum())
        self.expect("}")
        self.expect("^")
        high = self.integer(self.script())
        body = self.product()
        self.leave()
        if index.kind != "letter":
            raise ParseError("a sum without an index")
        return written_out(name, index.text, low, high, body)

    def integer(self, node: Node) -> int:
        """The value of a literal integer."""
        sign = 1
        if isinstance(node, Op) and node.name == "neg":
            node, sign = node.args[0], -1
        if not isinstance(node, Num) or node.value.denominator != 1:
            raise ParseError("a sum between bounds that are no integers")
        return sign * node.value.numerator

    def root(self) -> Node:
        """A root with its degree; without braces it spans a number, a letter or a group."""
        self.enter()
        degree: Node = Num(Fraction(2))
        if self.kind == "[":
            self.take()
            degree = self.sum()
            self.expect("]")
        node = Op("root", (self.script_argument(), degree))
        self.leave()
        return node

    def function(self, name: str) -> Node:
        """A function with its power, base and argument: \\sin^2 x, \\log_2 8, \\max(1, 2)."""
        self.enter()
        base: Node | None = None
        power: Node | None = None
        for _ in range(2):
            if self.kind == "_" and base is None:
                self.take()
                base = self.script()
            elif self.kind == "^" and power is None:
                self.take()
                power = self.script()
        if name in OF_SEVERAL:
            node: Node = Op(name, self.arguments())
        else:
            argument = self.argument()
            if name == "det":
                node = determinant(argument)
            elif name == "cis":
                node = Op("add", (Op("cos", (argument,)), Op("mul", (Const("i"), Op("sin", (argument,))))))
            elif base is not None:
                if name not in ("log", "ln"):
                    raise ParseError(f"a base of {name}")
                node = Op("log_base", (argument, base))
            else:
                node = Op({"log": "ln"}.get(name, name), (argument,))
            if power == Op("neg", (Num(Fraction(1)),)) and name in TRIGONOMETRIC:
                node, power = Op("arc" + name, (argument,)), None
        self.leave()
        return node if power is None else Op("pow", (node, power))

    def remainder(self) -> Node:
        """mod(17, 5); without brackets `mod` stands between its two numbers."""
        self.enter()
        arguments = self.arguments()
        self.leave()
        if len(arguments) != 2:
            raise ParseError("a remainder of one number")
        return Op("mod", arguments)

    def arguments(self) -> tuple[Node, ...]:
        """Arguments between brackets of any kind."""
        opening = self.take().kind
        closing = {"(": ")", "\\{": "\\}", "[": "]", "{": "}"}.get(opening)
        if closing is None:
            raise ParseError("a function of several arguments without brackets")
        items = self.items()
        self.expect(closing)
        return tuple(items)

    def argument(self) -> Node:
        """The argument of a function: brackets, or a product without another function in it."""
        if self.kind in ("(", "{", "[", "|"):
            return self.power()
        factors = [self.signed()]
        while self.implicit() and not (self.kind == "name" and self.token.text in FUNCTIONS) and self.kind != "(":
            factors.append(self.count(self.power()))
        if self.kind == "/" and len(factors) == 1 and self.following in ("number", "letter"):
            self.take()
            return Op("div", (factors[0], self.power()))
        return factors[0] if len(factors) == 1 else Op("mul", tuple(factors))

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
            number = self.take().number
            assert number is not None
            return number
        node = self.primary()
        if self.kind == "^":
            self.take()
            self.enter()
            node = Op("pow", (node, self.script()))
            self.leave()
        return self.count(node)

    def script_argument(self) -> Node:
        """The argument of a root: one number, letter, command or group."""
        if self.kind == "number":
            number = self.take().number
            assert number is not None
            return number
        return self.primary()

    def digit(self) -> Node:
        """An argument of \\frac without braces is one digit, one letter or one command."""
        token = self.token
        if token.kind == "number" and token.number is not None and token.text.isdigit() and len(token.text) > 1:
            rest = token.text[1:]
            self.tokens[self.position] = Token("number", rest, Num(Fraction(int(rest[:4000]))))
            if len(rest) > 4000:
                raise ParseError("a fraction without braces")
            return Num(Fraction(int(token.text[0])))
        if token.kind == "number":
            self.take()
            assert token.number is not None
            return token.number
        return self.primary()
