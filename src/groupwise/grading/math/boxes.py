"""Boxes in a text: balanced, brace-less, nested, adjacent."""

import re
from dataclasses import dataclass

# A backslash takes the next character with it, so that \{ and \} are no braces.
_BRACES = re.compile(r"\\f?boxed\s*+\{|\\fbox\s*+\{|\\.|[{}]", re.DOTALL)
_BARE = re.compile(
    r"(?<!\\)\\(?:f?boxed|fbox)[ \t]++(-?\$?\d[\d,.]*|-?\.\d+|[A-Za-z](?![A-Za-z])|\\frac\{\w+\}\{\w+\})"
)
_BETWEEN = re.compile(
    r"(?:[\s$,;&]|\\[()\[\],;:! ]|\\quad|\\qquad|\\text\s*\{\s*(?:and|or),?\s*\}|\b(?:and|or)\b)*+", re.IGNORECASE
)
_MAX_BETWEEN = 60


@dataclass(frozen=True, slots=True)
class Box:
    """One box: its content, and where it starts and ends in the text."""

    content: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Boxes:
    """The boxes of a text in order, without those inside another one; unclosed: the last one lacks its end."""

    boxes: tuple[Box, ...]
    unclosed: bool


def boxes_of(text: str) -> Boxes:
    """All boxes whose braces balance."""
    start = min((i for i in (text.find("\\boxed"), text.find("\\fbox")) if i >= 0), default=-1)
    if start < 0:
        return Boxes((), False)
    first = start
    while first > 0 and text[first - 1] == "\\":
        first -= 1
    opened: list[tuple[int, int]] = []
    spans: list[tuple[int, int, int, int]] = []
    unclosed = 0
    for token in _BRACES.finditer(text, first):
        what = token[0]
        if what == "}":
            if not opened:
                continue
            box_start, content_start = opened.pop()
            if box_start < 0:
                continue
            unclosed -= 1
            while spans and spans[-1][0] > box_start:
                spans.pop()
            spans.append((box_start, content_start, token.start(), token.end()))
        elif what[-1] == "{" and what != "\\{":
            is_box = len(what) > 1
            unclosed += is_box
            opened.append((token.start() if is_box else -1, token.end()))
    found = tuple(Box(_flat(text[left:right]), start, end) for start, left, right, end in spans)
    if not found:
        found = tuple(Box(match[1].rstrip(".,"), match.start(), match.end()) for match in _BARE.finditer(text, first))
    return Boxes(found, unclosed > 0)


def joined(boxes: tuple[Box, ...], text: str) -> tuple[str, tuple[str, ...]]:
    """The answer of all boxes together, with flags: adjacent ones are a list, of several apart the last counts."""
    if not boxes:
        return "", ()
    group = [boxes[-1]]
    for box in reversed(boxes[:-1]):
        gap = text[box.end : group[-1].start]
        if len(gap) > _MAX_BETWEEN or not _BETWEEN.fullmatch(gap):
            break
        group.append(box)
    contents = list(dict.fromkeys(box.content.strip() for box in reversed(group)))
    flags: tuple[str, ...] = ()
    if len(contents) > 1:
        flags = ("box_list",)
    elif len({box.content.strip() for box in boxes}) > 1:
        flags = ("multiple_boxes",)
    return ", ".join(contents), flags


def _flat(content: str) -> str:
    """Boxes inside a box leave their content behind."""
    if "boxed" not in content and "fbox" not in content:
        return content
    pieces: list[str] = []
    inner: list[int] = []
    end = depth = 0
    for token in _BRACES.finditer(content):
        what = token[0]
        if what[-1] == "{" and what != "\\{":
            if len(what) > 1:
                pieces.append(content[end : token.start()])
                end = token.end()
                inner.append(depth)
            depth += 1
        elif what == "}":
            depth -= 1
            if inner and inner[-1] == depth:
                inner.pop()
                pieces.append(content[end : token.start()])
                end = token.end()
    pieces.append(content[end:])
    return "".join(pieces)
