"""Fenced blocks of code in a text, as Markdown has them and as models write them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from groupwise.grading.records import SPECIAL_TOKEN

# Possessive, so that a long line is read once. A fence may begin the text of a list item or of a quotation.
_FENCE = re.compile(r"^([ \t]*+(?:(?:[-*+>]|[0-9]{1,3}[.)])[ \t]++)*+)(`{3,}+|~{3,}+)[ \t]*+([^`\n]*+)$", re.MULTILINE)
_PYTHON = re.compile(r"(?:i?python|py)[0-9.]*")


@dataclass(frozen=True, slots=True)
class Block:
    """tagged: as Python; a block without any tag is not. closed: False for one that the text ends in."""

    text: str
    tagged: bool
    closed: bool = True


@dataclass(frozen=True, slots=True)
class _Opened:
    fence: str
    tag: str
    indent: int
    start: int


def fenced_blocks(text: str) -> list[Block]:
    """The blocks that are tagged as Python or not tagged, in their order; each without the indentation of its fence.

    A line of backticks that is indented further than its block belongs to what the block says, as in a docstring.
    """
    return list(_blocks(text))


def _blocks(text: str) -> Iterator[Block]:
    opened: _Opened | None = None
    for match in _FENCE.finditer(text):
        before, fence, rest = match[1].expandtabs(4), match[2], match[3].strip()
        if opened is None:
            word = rest.split(maxsplit=1)[0].strip("{}.").lower() if rest else ""
            opened = _Opened(fence, word, len(before), min(match.end() + 1, len(text)))
        elif (
            not rest
            and not before.strip("> ")
            and fence[0] == opened.fence[0]
            and len(fence) >= len(opened.fence)
            and len(before) <= opened.indent + 3
        ):
            if _is_python(opened.tag):
                yield _made(text[opened.start : max(opened.start, match.start() - 1)], opened, closed=True)
            opened = None
    if opened is not None and _is_python(opened.tag):
        # Some close the block behind the last line of the program, not below it.
        rest = SPECIAL_TOKEN.sub("", text[opened.start :]).partition(opened.fence)[0]
        yield _made(rest, opened, closed=False)


def _is_python(tag: str) -> bool:
    return not tag or _PYTHON.fullmatch(tag) is not None


def _made(text: str, opened: _Opened, closed: bool) -> Block:
    if opened.indent:
        text = text.expandtabs(4)
        lines = [line for line in text.split("\n") if line.strip()]
        margin = min([opened.indent, *(len(line) - len(line.lstrip(" >")) for line in lines)])
        text = re.sub(rf"^[ >]{{1,{margin}}}", "", text, flags=re.MULTILINE) if margin else text
    return Block(text, bool(opened.tag), closed)
