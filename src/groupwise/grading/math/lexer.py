"""From the text of an answer to tokens."""

import re
from fractions import Fraction
from typing import Literal

from groupwise.grading.math.bounds import MAX_CHARACTERS, MAX_DIGITS, MAX_NODES, OutOfBoundsError, ParseError
from groupwise.grading.math.labels import add_text, add_word, merged_labels, named_token
from groupwise.grading.math.reader import Token
from groupwise.grading.math.tree import Num
from groupwise.grading.math.vocabulary import COMMANDS, UNIT_LETTERS

# Each start of a number looks so far ahead, which keeps reading linear.
_MAX_GROUPS = 120
_SCIENTIFIC = r"(?:[eE][-+]?\d{1,6}(?![\w.]))?"
_DECIMALS = r"(?:\.(?P<decimals{0}>\d+)(?P<repeat{0}>REPEAT)?|\.(?P<only{0}>REPEAT))?".replace(
    "REPEAT", r"(?:\\(?:overline|bar)\s*+(?:\{{\d+\}}|\d)|\\dot\s*+\{{?\d\}}?(?:\d*\\dot\s*+\{{?\d\}}?)?)"
)


def _number(at_top: bool) -> str:
    """At the top level of an answer a comma may group digits; between brackets it separates."""
    comma = "|," if at_top else ""
    name = "T" if at_top else "I"
    separators = rf",?\\!\s*+|\{{,\}}|\\[,;:](?:\\!)?|~|\\\s{comma}"
    groups = f"{{1,{_MAX_GROUPS}}}+"
    group = rf"\d{{1,3}}(?:(?:{separators})\d{{3}}){groups}(?!\d)|\d{{1,3}}(?:\s\d{{3}}){groups}(?!\s*+[/\d])"
    return rf"(?P<whole{name}>{group}|\d+|(?=\.\d)){_DECIMALS.format(name)}(?P<power{name}>{_SCIENTIFIC})"


_TOKENS = r"""
  (?P<space>(?:\s|~|\\[,;:!\ ]|\\hspace\*?\s*+\{[^{}]*\}|\\(?:quad|qquad|displaystyle|textstyle|limits|nolimits
      |thinspace|[bB]igg?[lrm]?|mathstrut|strut|nonumber|large|Large|LARGE|small|huge|tiny|normalsize|scriptstyle)(?![A-Za-z])
      |\\(?:left|right)(?![A-Za-z])(?:\.|\s*+\.(?!\d))?)+)
 |(?P<words>\\(?:text|textbf|textit|textrm|textsf|textnormal|mbox|hbox|mathrm|operatorname|rm)\*?\s*+\{(?P<inner>[^{}]*)\})
 |(?P<degree>(?:\^\s*+(?:\{\s*+\\(?:circ|degree)\s*+\}|\\(?:circ|degree)(?![A-Za-z]))|\\degree(?![A-Za-z]))
      (?:\s*+(?:\\(?:text|mathrm)\s*+\{\s*+~?\s*+)?(?P<scale>[CF])(?![A-Za-z])\}?)?)
 |(?P<style>\\(?:mathbf|mathit|mathsf|mathcal|mathscr|boldsymbol|bm|vec|hat|underline|overrightarrow|boxed|fbox|bf|it
      |pmb)(?![A-Za-z])\*?|\\(?:textcolor|color)\s*+\{[^{}]*\})
 |(?P<matrix>\\begin\s*+\{(?:[pbvBV]?matrix|smallmatrix|array)\}(?:\s*+\{[lcr|\s]*\})?)
 |(?P<end>\\end\s*+\{[A-Za-z]+\})
 |(?P<reals>\\(?:mathbb|mathbf|Bbb)\s*+\{?\s*+[RZNQC]\s*+\}?)
 |(?P<command>\\[A-Za-z]+)
 |(?P<escaped>\\.)
 |(?P<number>NUMBER)
 |(?P<word>[A-Za-z]+)
 |(?P<sign><=|>=|!=|==|\*\*|\+-|\.\.\.+|[-+*/^_=<>()\[\]{}|,;:!%&'.$])
"""
_TOP = re.compile(_TOKENS.replace("NUMBER", _number(True)), re.VERBOSE | re.DOTALL)
_INSIDE = re.compile(_TOKENS.replace("NUMBER", _number(False)), re.VERBOSE | re.DOTALL)
_NOT_DIGIT = re.compile(r"\D")
_NOT_LETTER = re.compile(r"[^A-Za-z]")
_ESCAPED = {"\\%": "%", "\\|": "|", "\\&": "&", "\\_": "_", "\\/": "/", "\\#": "#"}
_OPENING = frozenset(("(", "[", "\\{", "begin", "begindet", "langle"))
_CLOSING = frozenset((")", "]", "\\}", "end", "rangle"))


UnitLetters = Literal["none", "spaced", "all"]


def tokens_of(text: str, unit_letters: UnitLetters = "none") -> tuple[list[Token], bool]:
    """The tokens of an answer, and whether it carries a dollar sign as currency.

    unit_letters: whether a lone letter such as m is a unit behind a number, `spaced` only behind a blank.

    Raises ParseError for characters that no mathematics uses, and OutOfBoundsError where there is too much of it.
    """
    if len(text) > MAX_CHARACTERS:
        raise OutOfBoundsError(f"an answer of more than {MAX_CHARACTERS} characters")
    tokens: list[Token] = []
    currency = False
    position = depth = powers = 0
    spaced = False
    while position < len(text):
        match = (_INSIDE if depth > 0 else _TOP).match(text, position)
        if match is None:
            raise ParseError(f"the character {text[position]!r}")
        position = match.end()
        if match["space"] is not None:
            spaced = True
            continue
        if match["number"] is not None:
            name = "I" if depth > 0 else "T"
            powers += abs(int(match["power" + name][1:] or "0")) if match["power" + name] else 0
            if powers > MAX_DIGITS:
                raise OutOfBoundsError(f"numbers of more than {MAX_DIGITS} digits")
            tokens.append(Token("number", match["number"], _num(match, name), spaced=spaced))
        elif match["words"] is not None:
            add_text(tokens, match["inner"], spaced, lambda part: tokens_of(part)[0])
        elif match["word"] is not None:
            word = match["word"]
            if word in UNIT_LETTERS and _takes_unit(tokens, spaced, unit_letters):
                tokens.append(Token("label", word))
            elif word in ("C", "F") and spaced and _takes_unit(tokens, spaced, unit_letters):
                tokens.append(Token("degree", word))
            else:
                add_word(tokens, word, spaced)
        elif match["degree"] is not None:
            tokens.append(Token("degree", match["scale"] or ""))
        elif match["style"] is None:
            sign = match[0]
            if match["command"] is not None:
                sign = COMMANDS.get(sign[1:], sign[1:])
            elif match["matrix"] is not None:
                sign = "begindet" if "vmatrix" in match[0] else "begin"
            elif match["end"] is not None:
                sign = "end"
            elif match["reals"] is not None:
                sign = "numbers" + _NOT_LETTER.sub("", match[0])[-1]
            elif match["escaped"] is not None:
                sign = _ESCAPED.get(sign, sign)
            if sign == "\\$":
                currency = True
                continue
            if sign == "$":
                continue
            if sign == "Omega" and _takes_unit(tokens, spaced, unit_letters):
                tokens.append(Token("label", "ohm"))
                continue
            depth += sign in _OPENING
            depth -= sign in _CLOSING
            tokens.append(named_token(sign, spaced))
        spaced = False
        if len(tokens) > MAX_NODES:
            raise OutOfBoundsError(f"more than {MAX_NODES} tokens")
    return merged_labels(tokens), currency


def _takes_unit(tokens: list[Token], spaced: bool, unit_letters: UnitLetters) -> bool:
    allowed = unit_letters == "all" or (unit_letters == "spaced" and spaced)
    return allowed and bool(tokens) and tokens[-1].kind in ("number", "}")


def _num(match: re.Match[str], name: str) -> Num:
    whole = _NOT_DIGIT.sub("", match["whole" + name])
    decimals = match["decimals" + name] or ""
    repeat = _NOT_DIGIT.sub("", match["repeat" + name] or match["only" + name] or "")
    power = int(match["power" + name][1:] or "0") if match["power" + name] else 0
    if len(whole) + len(decimals) + len(repeat) + abs(power) > MAX_DIGITS:
        raise OutOfBoundsError(f"a number of more than {MAX_DIGITS} digits")
    value = Fraction(integer_of(whole + decimals), 10 ** len(decimals)) if decimals else Fraction(integer_of(whole))
    if repeat:
        value += Fraction(integer_of(repeat), (10 ** len(repeat) - 1) * 10 ** len(decimals))
        return Num(value)
    value *= Fraction(10) ** power
    places = len(decimals) - power
    written = "." in match["number"] or bool(power)
    return Num(value, max(places, 0), len((whole + decimals).lstrip("0"))) if written else Num(value)


def integer_of(digits: str) -> int:
    """An integer of any length; `int` refuses more than 4300 digits at once."""
    if len(digits) <= 4000:
        return int(digits or "0")
    half = len(digits) // 2
    high: int = integer_of(digits[:-half]) * 10**half
    return high + integer_of(digits[-half:])
