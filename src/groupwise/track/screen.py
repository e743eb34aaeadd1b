"""Output that takes any character, and whose loss ends no run by itself."""

import codecs
import os
import sys
import threading
import unicodedata
from collections.abc import Callable
from contextlib import suppress
from typing import IO, cast

from groupwise import stopping
from groupwise.errors import GroupwiseError, first_line

# What has no letter of ASCII behind it.
_WRITTEN = {
    "×": "x", "±": "+/-", "–": "-", "—": "-", "−": "-", "…": "...", "÷": "/", "·": "*", "→": "->", "≤": "<=", "≥": ">=",
    "≠": "!=", "’": "'", "“": '"', "”": '"', "π": "pi", "Σ": "sum", "∑": "sum", "ε": "eps", "β": "beta", "τ": "tau",
}  # fmt: skip


def _in_ascii(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(map(_spelt, error.object[error.start : error.end])), error.end


def _spelt(character: str) -> str:
    plain = unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode()
    return _WRITTEN.get(character) or plain or character.encode("ascii", "backslashreplace").decode()


codecs.register_error("groupwise_ascii", _in_ascii)


def screen(stream: Callable[[], IO[str]]) -> IO[str]:
    """A stream for people, looked up at every write.

    What it cannot encode is spelt in ASCII. Once it is closed or full, nothing is written any more, and the run of this
    thread is asked to stop; before a run began, GroupwiseError is raised.
    """
    return cast(IO[str], _Screen(stream))


class _Screen:
    def __init__(self, stream: Callable[[], IO[str]]) -> None:
        self._stream, self._owner, self._lost = stream, threading.get_ident(), ""

    @property
    def encoding(self) -> str:
        return getattr(self._stream(), "encoding", None) or "utf-8"

    def write(self, text: str) -> int:
        encodable = text.encode(self.encoding, "groupwise_ascii").decode(self.encoding)
        self._attempt(lambda: self._stream().write(encodable))
        return len(text)

    def flush(self) -> None:
        self._attempt(lambda: self._stream().flush())

    def isatty(self) -> bool:
        return self._stream().isatty()

    def fileno(self) -> int:
        return self._stream().fileno()

    def _attempt(self, act: Callable[[], object]) -> None:
        if not self._lost:
            try:
                act()
            except (OSError, ValueError) as error:
                self._lost = f"the output cannot be written any more: {first_line(error)}"
        # The panel is drawn by a thread of its own, which has no run.
        if self._lost and not stopping.ask(self._lost) and threading.get_ident() == self._owner:
            raise GroupwiseError(self._lost)


def spell_out(stream: IO[str]) -> None:
    """What a stream cannot encode is spelt in ASCII from now on."""
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="groupwise_ascii")


def say(text: str) -> None:
    """A line on standard error, at once and without a lock, as a signal handler needs it."""
    with suppress(OSError):
        os.write(2, f"{text}\n".encode(sys.stderr.encoding or "utf-8", "groupwise_ascii"))
