"""Functions, roots, fractions and other commands, with their arguments."""

from fractions import Fraction

from groupwise.grading.math.bounds import ParseError
from groupwise.grading.math.expression import ExpressionParser
from groupwise.grading.math.rewrite import conjugated, determinant, written_out
from groupwise.grading.math.tree import Const, Items, Node, Num, Op, Var, literal, variables
from groupwise.grading.math.vocabulary import ALIASES, FUNCTIONS, OF_SEVERAL, TRIGONOMETRIC

_OPENING = frozenset(("(", "\\{", "[", "{"))
_CONSTANTS = {"infty": "oo", "emptyset": "empty", "numbersR": "reals"}


class FunctionParser(ExpressionParser):
    """Reads what a command takes."""

    def command(self, name: str) -> Node:
        """A LaTeX command or a named function."""
        if name in ("frac", "binom"):
            self.enter()
            node = Op("div" if name == "frac" else "binomial", (self.digit(), self.digit()))
            self.leave()
            return node
        if name == "sqrt":
            return self.root()
        if name in _CONSTANTS:
            return Const(_CONSTANTS[name])
        if name in ("begin", "begindet"):
            return self.matrix() if name == "begin" else determinant(self.matrix())
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
        if name == "lim":
            return self.limit()
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
        value = literal(node)
        if value is None or value.denominator != 1:
            raise ParseError("a sum between bounds that are no integers")
        return value.numerator

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
        if name in OF_SEVERAL and self.kind not in _OPENING:
            node: Node = self.left_side(name)
        elif name in OF_SEVERAL:
            node = Op(name, self.arguments())
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

    def left_side(self, name: str) -> Node:
        """What stands in front of the next equals sign, as the name of a value: \\max f = 5, \\text{LCM} = 5."""
        parts, depth = [name], 0
        while depth or self.kind not in ("=", "~"):
            if self.kind == "the end":
                raise ParseError(f"{name} of what is no list")
            depth += (self.kind == "{") - (self.kind == "}")
            parts.append(self.take().text)
        return Var(" ".join(parts))

    def limit(self) -> Node:
        """A limit that is said to be equal to something, as a name of that; of a constant, the constant."""
        start = self.position
        try:
            return self.left_side("lim")
        except ParseError:
            self.position = start
        self.expect("_")
        self.subscript()
        body = self.product()
        if variables(body):
            raise ParseError("a limit")
        return body

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

    def matrix(self) -> Node:
        """A matrix behind its `\\begin`: rows split at `\\\\`, entries at `&`."""
        self.enter()
        rows = [[self.item()]]
        while self.kind in ("&", "\\\\"):
            if self.take().kind == "&":
                rows[-1].append(self.item())
            elif self.named("end"):
                break
            else:
                rows.append([self.item()])
        if not self.named("end"):
            raise ParseError("a matrix without its end")
        self.take()
        self.leave()
        if len({len(row) for row in rows}) != 1:
            raise ParseError("rows of different lengths")
        return Items("matrix", tuple(Items("row", tuple(row)) for row in rows))
