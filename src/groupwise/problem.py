"""What a problem is, and the endless stream that training draws problems from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from groupwise.code_tests import CodeTests

Judge = Literal["", "number", "literal", "scorer"]


class Message(NamedTuple):
    """One turn of a chat."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem with a checkable answer.

    `messages` is the conversation up to the model's turn, without any template; for most files it is one user message.
    `source` says where the problem came from, as `file:line` or `generator:index`, so that an error can name it.
    `tests` are of a problem that asks for a program; its answer is empty. `row` is everything that the file says of it,
    for reward functions of the user's own. `judge` says how the answer is compared where the source knows it better
    than the configuration: as a written number (`number`), as written (`literal`), or by the source's own scorer.
    """

    id: str
    messages: tuple[Message, ...]
    answer: str
    domain: str = "math"
    source: str = ""
    tests: CodeTests | None = None
    row: Mapping[str, Any] = field(default_factory=dict)
    judge: Judge = ""

    @property
    def question(self) -> str:
        """The text of the last user message."""
        return next((m.content for m in reversed(self.messages) if m.role == "user"), "")
