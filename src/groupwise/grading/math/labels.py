"""Words in an answer: joining words, functions, units, labels, products of letters."""

import re
from collections.abc import Callable

from groupwise.grading.math.reader import Token
from groupwise.grading.math.units import is_known_word, unit_of
from groupwise.grading.math.vocabulary import FUNCTIONS, GREEK, INFINITY

_COMPOUND = re.compile(
    r"([A-Za-z]?)(arcsin|arccos|arctan|sin|cos|tan|cot|sec|csc|ln|log|sqrt|pi)([A-Za-z]?)|([A-Za-z])(pi)([A-Za-z]?)"
)
_SIGNS = {"==": "=", "**": "^", "+-": "pm"}
_HAS_LETTERS = re.compile(r"[A-Za-z]{2}|[A-Za-z]\.[A-Za-z]")


def named_token(sign: str, spaced: bool) -> Token:
    """The token of a sign or of the name of a command."""
    if sign in GREEK:
        return Token("letter", sign, spaced=spaced)
    if sign in ("and", "or"):
        return Token("join", sign)
    if sign in INFINITY:
        return Token("name", "infty", spaced=spaced)
    sign = "..." if sign.startswith("...") else _SIGNS.get(sign, sign)
    return Token("name" if sign[0].isalpha() else sign, sign, spaced=spaced)


def add_text(tokens: list[Token], inner: str, spaced: bool, read: Callable[[str], list[Token]]) -> None:
    """The content of \\text{…}: a joining word, mathematics, a unit, or a label."""
    words = inner.replace("~", " ").replace("\\ ", " ").strip()
    bare = words.strip(",;. ").lower()
    behind = bool(tokens) and tokens[-1].kind in ("number", ")", "}", "unit", "/")
    if not bare:
        if words.startswith((",", ";")):
            tokens.append(Token(","))
        return
    if bare in ("and", "or"):
        tokens.append(Token("join", bare))
    elif behind and _is_unit(bare):
        tokens.append(Token("unit", words))
    elif any(c.isdigit() for c in bare) or not _HAS_LETTERS.search(bare):
        tokens.extend(read(words))
    elif bare in FUNCTIONS:
        tokens.append(Token("name", bare, spaced=spaced))
    elif bare in ("percent", "pct", "per cent"):
        tokens.append(Token("%", "%"))
    elif tokens and tokens[-1].kind == "label" and not is_known_word(bare):
        tokens[-1] = Token("label", tokens[-1].text + " " + words)
    else:
        tokens.append(Token("label", words, spaced=spaced))


def _is_unit(words: str) -> bool:
    """Whether the words name a unit that the table knows."""
    unit = unit_of(words)
    return unit is not None and not any(name.startswith("?") for name, _ in unit.dimensions)


def add_word(tokens: list[Token], word: str, spaced: bool) -> None:
    """A run of letters: a joining word, a function, a unit behind a number, a label, or a product of variables."""
    lower = word.lower()
    behind = bool(tokens) and tokens[-1].kind in ("number", ")", "}", "degree", "label", "unit", "%")
    if lower in ("and", "or"):
        tokens.append(Token("join", lower))
    elif word in FUNCTIONS or (lower in FUNCTIONS and len(word) > 3):
        tokens.append(Token("name", lower, spaced=spaced))
    elif word in GREEK or word in INFINITY:
        tokens.append(named_token(word, spaced))
    elif word == "in" and not behind:
        tokens.append(Token("name", "in"))
    elif lower in ("pct", "percent"):
        tokens.append(Token("%", "%"))
    elif (len(word) > 1 and behind and is_known_word(word)) or (_is_quotient_of_units(tokens) and is_known_word(word)):
        tokens.append(Token("label", word, spaced=spaced))
    elif (parts := _COMPOUND.fullmatch(word)) is not None:
        for part in parts.groups():
            if part:
                add_word(tokens, part, spaced)
    elif len(word) >= 4 or (tokens and tokens[-1].kind == "label") or (len(word) == 3 and behind and spaced):
        tokens.append(Token("label", word, spaced=spaced))
    else:
        for i, letter in enumerate(word):
            tokens.append(Token("letter", letter, spaced=spaced and i == 0))


def _is_quotient_of_units(tokens: list[Token]) -> bool:
    """Whether what stands last is a unit and a stroke, as in `60 km/h`."""
    if len(tokens) < 3 or tokens[-1].kind != "/" or tokens[-3].kind != "number":
        return False
    return tokens[-2].kind in ("label", "unit") and is_known_word(tokens[-2].text)


def merged_labels(tokens: list[Token]) -> list[Token]:
    """Labels that stand together are one; behind a number they are a unit."""
    merged: list[Token] = []
    i = 0
    while i < len(tokens):
        token = tokens[i]
        if token.kind not in ("label", "unit"):
            merged.append(token)
            i += 1
            continue
        phrase = [token.text]
        i += 1
        while i < len(tokens):
            kind = tokens[i].kind
            following = tokens[i + 1].kind if i + 1 < len(tokens) else ""
            if kind in ("label", "unit"):
                phrase.append(tokens[i].text)
                i += 1
            elif kind in ("/", "*") and following in ("label", "unit"):
                phrase.append(kind)
                i += 1
            elif kind == "^" and following in ("{", "number"):
                end = i + 2
                if following == "{":
                    while end < len(tokens) and end < i + 5 and tokens[end - 1].kind != "}":
                        end += 1
                phrase += [part.text for part in tokens[i:end]]
                i = end
            else:
                break
        words = " ".join(phrase)
        behind = bool(merged) and merged[-1].kind in ("number", ")", "}", "degree", "|", "name", "!")
        unit = unit_of(words) if behind else None
        if merged and merged[-1].kind == "letter" and _is_unit(words):
            unit = unit_of(words)
        merged.append(Token("unit", words, unit=unit) if unit or behind else Token("label", words))
    return merged
