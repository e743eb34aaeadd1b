"""The equation of a configuration as MathML, out of its plain text."""

import html
import re

_TOKEN = re.compile(r"\s+|\d+(?:\.\d+)?(?:e-?\d+)?|[A-Za-z]+|[Α-ωπρεβ]|.")


def mathml(text: str) -> str:
    """A display formula. Words of several letters stand upright, as functions; `_x` and `^x` are indices."""
    return f'<math display="block" tabindex="0" xmlns="http://www.w3.org/1998/Math/MathML"><mrow>{_row(text)}</mrow></math>'


def _row(text: str) -> str:
    made: list[str] = []
    at = 0
    while at < len(text):
        mark = text[at]
        if mark in "_^" and made:
            end = _index_end(text, at + 1)
            inner = text[at + 1 : end].strip("{}")
            tag = "msub" if mark == "_" else "msup"
            base = made.pop()
            while base == _SPACE and made:
                base = made.pop()
            made.append(f"<{tag}>{base}<mrow>{_row(inner)}</mrow></{tag}>")
            at = end
            continue
        found = _TOKEN.match(text, at)
        assert found is not None
        made.append(_element(found[0]))
        at = found.end()
    return "".join(made)


_SPACE = '<mspace width="0.25em"/>'


def _index_end(text: str, at: int) -> int:
    if at < len(text) and text[at] == "{":
        return text.index("}", at) + 1
    found = re.compile(r"\d+|[A-Za-zα-ω]+").match(text, at)
    return found.end() if found else min(at + 1, len(text))


def _element(token: str) -> str:
    if token.isspace():
        return _SPACE
    if token[0].isdigit():
        return f"<mn>{token}</mn>"
    if token.isalpha() and token not in "ΣΠ":
        upright = ' mathvariant="normal"' if len(token) > 1 else ""
        return f"<mi{upright}>{html.escape(token)}</mi>"
    return f"<mo>{html.escape(token)}</mo>"
