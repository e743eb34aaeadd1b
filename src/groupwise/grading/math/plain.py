"""Integers and decimals compared as digits: the fast path, for numbers of any length."""

import re
from typing import NamedTuple

MINUS = str.maketrans({"\u2212": "-", "\u2013": "-", "\ufe63": "-", "\uff0d": "-"})
_PLAIN = re.compile(
    r"\s*+(?:\\?\$|\\\(|\\\[|\$\$)?\s*+(?P<sign>[-+]?)\s*+(?:\\?\$)?"
    r"(?P<whole>[0-9]{1,3}(?P<separator>,\\!|,|\{,\}|\\[,;:!]|~|[ \u00a0\u2009\u202f])[0-9]{3}"
    r"(?:(?P=separator)[0-9]{3})*"
    r"|[0-9]*)(?:\.(?P<decimals>[0-9]*))?\s*+(?:\$\$?|\\\)|\\\])?\.?\s*+"
)
_NOT_DIGIT = re.compile(r"[^0-9]+")


_GROUPED = r"(?<![\d.,])(?P<whole>\d{1,3}(?:(?:\.|\\[,:; ]|[\s~])\d{3}){1,60}+|\d++)"
_DECIMAL_COMMA = re.compile(_GROUPED + r"(?:\{,\}|,)(?P<decimals>\d++)(?![\d,])")
_GROUPING_POINTS = re.compile(r"(?<![\d.,])\d{1,3}(?:\.\d{3})++(?![\d.,])")


class Plain(NamedTuple):
    """A number in its only form: no leading or trailing zeros, no minus zero."""

    negative: bool
    whole: str
    decimals: str


def with_points(text: str) -> str:
    """Text in which a comma is the decimal mark, as 1.234,5, with points for it: 1234.5."""
    text = _DECIMAL_COMMA.sub(lambda m: f"{_NOT_DIGIT.sub('', m['whole'])}.{m['decimals']}", text)
    return _GROUPING_POINTS.sub(lambda m: m[0].replace(".", ""), text)


def plain_number(text: str) -> Plain | None:
    """The number that a text is; None for what is not just an integer or a decimal."""
    match = _PLAIN.fullmatch(text)
    if match is None:
        match = _PLAIN.fullmatch(text.translate(MINUS)) if not text.isascii() else None
        if match is None:
            return None
    whole, decimals = match["whole"], match["decimals"] or ""
    if not whole and not decimals:
        return None
    if match["separator"]:
        whole = _NOT_DIGIT.sub("", whole)
    whole, decimals = whole.lstrip("0"), decimals.rstrip("0")
    return Plain(match["sign"] == "-" and bool(whole or decimals), whole, decimals)
