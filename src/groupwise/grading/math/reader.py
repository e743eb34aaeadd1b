"""Taking tokens one by one, with bounds on depth and number of nodes."""

from dataclasses import dataclass

from groupwise.grading.math.bounds import MAX_DEPTH, MAX_NODES, OutOfBoundsError, ParseError
from groupwise.grading.math.tree import Node, Num
from groupwise.grading.math.units import Unit


@dataclass(frozen=True, slots=True)
class Token:
    """kind: `number`, `letter`, `name` (a command or function), `unit`, `label`, `join` (and, or), or a sign itself."""

    kind: str
    text: str = ""
    number: Num | None = None
    unit: Unit | None = None
    spaced: bool = False


_END = Token("the end")


class TokenReader:
    """A position in a list of tokens."""

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self.position = 0
        self.depth = 0
        self.nodes = 0
        self.bars = 0

    @property
    def token(self) -> Token:
        """The next token."""
        return self.tokens[self.position] if self.position < len(self.tokens) else _END

    @property
    def kind(self) -> str:
        """The kind of the next token."""
        return self.tokens[self.position].kind if self.position < len(self.tokens) else "the end"

    @property
    def name(self) -> str:
        """The next command by its name, or the kind of the next token."""
        token = self.tokens[self.position] if self.position < len(self.tokens) else _END
        return token.text if token.kind == "name" else token.kind

    @property
    def following(self) -> str:
        """The kind of the token behind the next one."""
        return self.tokens[self.position + 1].kind if self.position + 1 < len(self.tokens) else "the end"

    def take(self) -> Token:
        """The next token, taken off."""
        token = self.token
        self.position += 1
        return token

    def expect(self, kind: str) -> None:
        """Take off a token of this kind, or raise ParseError."""
        if self.kind != kind:
            raise ParseError(f"expected {kind!r}, found {self.token.text or self.kind!r}")
        self.position += 1

    def named(self, name: str) -> bool:
        """Whether the next token is the command of this name."""
        return self.kind == "name" and self.token.text == name

    def enter(self) -> None:
        """One level deeper."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise OutOfBoundsError(f"nested deeper than {MAX_DEPTH} levels")

    def leave(self) -> None:
        """One level up."""
        self.depth -= 1

    def count(self, node: Node) -> Node:
        """The node, counted."""
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise OutOfBoundsError(f"more than {MAX_NODES} operations")
        return node
