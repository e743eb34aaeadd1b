"""One spelling for the many characters that mean the same, ahead of reading mathematics."""

import re
import unicodedata

from groupwise.grading.math.chinese import HAN, translated

_FULL_WIDTH = {0xFF01 + i: chr(0x21 + i) for i in range(94)}
_HAN = re.compile(HAN)
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1f\x7f]")
_REMOVED = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
_REMOVED += "\u200b\u200c\u200d\u2060\ufeff\u00ad\u200e\u200f\u2061\u2062\u2063"
_SPACES = "\u00a0\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
_COMMANDS = {
    "\u00d7": r"\times", "\u2715": r"\times", "\u2a2f": r"\times", "\u00b7": r"\cdot", "\u22c5": r"\cdot",
    "\u2219": r"\cdot", "\u2217": r"\cdot", "\u00f7": r"\div", "\u00b1": r"\pm", "\u2213": r"\mp", "\u221a": r"\sqrt",
    "\u221e": r"\infty", "\u2264": r"\le", "\u2a7d": r"\le", "\u2265": r"\ge", "\u2a7e": r"\ge", "\u2260": r"\ne",
    "\u2248": r"\approx", "\u2243": r"\approx", "\u2245": r"\approx", "\u2208": r"\in", "\u222a": r"\cup",
    "\u2229": r"\cap", "\u2216": r"\setminus", "\u2205": r"\emptyset", "\u00d8": r"\emptyset", "\u2300": r"\emptyset",
    "\u211d": r"\mathbb{R}", "\u2026": r"\ldots", "\u22ef": r"\ldots", "\u221d": r"\propto", "\u2200": r"\forall",
    "\u2203": r"\exists", "\u230a": r"\lfloor", "\u230b": r"\rfloor", "\u2308": r"\lceil", "\u2309": r"\rceil",
    "\u27e8": r"\langle", "\u27e9": r"\rangle", "\u2329": r"\langle", "\u232a": r"\rangle", "\u2220": r"\angle",
    "\u2192": r"\to", "\u21d2": r"\Rightarrow", "\u2211": r"\sum", "\u222b": r"\int", "\u220f": r"\prod",
    "\u20ac": r"\text{ euro }", "\u00a3": r"\text{ sterling }", "\u00a5": r"\text{ yuan }",
    "\u20b9": r"\text{ rupees }", "\u00a2": r"\text{ cents }", "\u2032": "'", "\u2033": "''", "\u2019": "'",
    "\u2018": "'", "\u201c": '"', "\u201d": '"', "\u2236": ":", "\u2223": "|", "\u2044": "/", "\u2215": "/",
    "\u3002": ".", "\u3001": ",", "\u2218": r"\circ",
}  # fmt: skip
_GREEK = """alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigma sigma tau
upsilon phi chi psi omega"""
_MINUSES = "\u2212\u2013\u2014\u2010\u2011\u2012\u2015\ufe63\uff0d\u207b"

_TABLE: dict[int, str | None] = {ord(c): None for c in _REMOVED}
_TABLE |= {ord(c): " " for c in _SPACES}
_TABLE |= {ord(c): f"{command} " if command.startswith("\\") else command for c, command in _COMMANDS.items()}
_TABLE |= {ord(c): "-" for c in _MINUSES if c != "\u207b"}
_TABLE |= {0x3B1 + i: f"\\{name} " for i, name in enumerate(_GREEK.split())}
_TABLE |= {0x391 + i: f"\\{name.capitalize()} " for i, name in enumerate(_GREEK.split()) if i != 17}
_TABLE |= {0x3D5: r"\phi ", 0x3F5: r"\epsilon ", 0x221B: r"\sqrt[3] ", 0x221C: r"\sqrt[4] "}

_SUPERSCRIPTS = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁽⁾ⁿⁱ", "0123456789+-()ni", strict=True))
_SUBSCRIPTS = dict(zip("₀₁₂₃₄₅₆₇₈₉₊₋₍₎ₙₐₓᵢₖ", "0123456789+-()naxik", strict=True))
_SUPERSCRIPT = re.compile(f"[{''.join(map(re.escape, _SUPERSCRIPTS))}]+")
_SUBSCRIPT = re.compile(f"[{''.join(map(re.escape, _SUBSCRIPTS))}]+")
_MONEY = re.compile("([\u20ac\u00a3\u00a5\u20b9])\\s*+([0-9][0-9.,]*)")
_SPACE = re.compile(r"\s+")
_VULGAR = re.compile("[¼½¾⅐-⅞]")


def plain_characters(text: str) -> str:
    """Text in ASCII as far as it has a spelling there: `−5` is `-5`, `√2` is `\\sqrt 2`, `x²` is `x^{2}`."""
    if not text.isprintable():
        text = _CONTROLS.sub("", text)
    if text.isascii():
        return single_spaced(text)
    text = text.translate(_FULL_WIDTH)
    if _HAN.search(text):
        text = translated(text)
    text = text.replace("°", r"^\circ ").replace("º", r"^\circ ").replace("℃", r"^\circ C").replace("℉", r"^\circ F")
    text = _MONEY.sub(r"\2\1", text)
    text = _VULGAR.sub(_vulgar, text)
    text = _SUPERSCRIPT.sub(lambda m: "^{" + "".join(_SUPERSCRIPTS[c] for c in m[0]) + "}", text)
    text = _SUBSCRIPT.sub(lambda m: "_{" + "".join(_SUBSCRIPTS[c] for c in m[0]) + "}", text)
    text = text.translate(_TABLE)
    if not text.isascii():
        normal = unicodedata.normalize("NFKC", text)
        text = normal.translate(_TABLE) if len(normal) <= 4 * len(text) else text
    return single_spaced(text)


def single_spaced(text: str) -> str:
    """Text in which every run of white space is one blank, so that no pattern has to try how to divide one."""
    return _SPACE.sub(" ", text)


def _vulgar(match: re.Match[str]) -> str:
    numerator, _, denominator = unicodedata.normalize("NFKC", match[0]).partition("\u2044")
    return f"\\frac{{{numerator}}}{{{denominator}}}" if denominator else match[0]
