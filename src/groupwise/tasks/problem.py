"""What a problem is, and the endless stream that training draws problems from."""

from dataclasses import dataclass
from typing import NamedTuple


class Message(NamedTuple):
    """One turn of a chat."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem with a checkable answer.

    `messages` is the conversation up to the model's turn, without any template; for most files it is one user message.
    `source` says where the problem came from, as `file:line` or `generator:index`, so that an error can name it.
    """

    id: str
    messages: tuple[Message, ...]
    answer: str
    domain: str = "math"
    source: str = ""

    @property
    def question(self) -> str:
        """The text of the last user message."""
        return next((m.content for m in reversed(self.messages) if m.role == "user"), "")
