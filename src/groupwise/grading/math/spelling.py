"""The text of an answer in one spelling, ahead of comparing it as text and of reading it as mathematics."""

import re

from groupwise.grading.math.characters import plain_characters, single_spaced

_DELIMITERS = (("$$", "$$"), ("$", "$"), (r"\(", r"\)"), (r"\[", r"\]"), ("**", "**"), ("`", "`"))
_SIZES = re.compile(r"\\(?:left|right|displaystyle)(?![A-Za-z])")
_THIN_SPACES = re.compile(r"\\[,!;:]")
_LONE_BLANKS = re.compile(r"(?<![A-Za-z0-9]) | (?![A-Za-z0-9])")
_UNIT_FRACTION = re.compile(
    r"\\d?frac\s*+\{\s*+\\(?:text|mathrm)\s*+\{([A-Za-z ]+)\}\s*+\}"
    r"\s*+\{\s*+\\(?:text|mathrm)\s*+\{([A-Za-z ]+)\}\s*+\}"
)
_PARENTHESES = re.compile(r"(?<!\\)\\[()]")
_ALIGNED = re.compile(r"\\(?:begin|end)\s*+\{aligned\}")
_DECORATION = (
    r"(?:\\(?:checkmark|blacksquare|square|Box|qed|blacklozenge|star)(?![A-Za-z])"
    r"|[\u2713\u2714\u2705\u25a0\u25a1\u220e])"
)
_BEFORE = re.compile(
    r"(?:\s|\\(?:Rightarrow|implies|Longrightarrow|therefore|because|rightarrow)(?![A-Za-z])|=>|[\u21d2\u2234]|=(?![=>]))++(?=.)"
)
_AFTER = re.compile(rf"{_DECORATION}\s?\Z")
_SPACE_BEHIND = re.compile(r"(?:\\[,;:! ]|\\q?quad|[\s,])+\Z")
_QUALIFIED = re.compile(
    r"(?:\\text ?\{ ?,? ?for (?:all|any|every|each|some|arbitrary) [^{}]{1,60}\}[^={}<>]{0,30}"
    r"|(?<![A-Za-z])for (?:all|any|every|each|some|arbitrary) [A-Za-z ]{1,60})\Z"
)
_ROW_SPACE = re.compile(r"(\\\\)\s*+\[-?[0-9.]{1,8}\s?[a-z]{2}\]")
_SYSTEM = re.compile(
    r"(?:(?:\\left)?\\\{\s*+\\begin\{(?:array|aligned|matrix)\}(?:\s*+\{[lcr]\})?|\\begin\{cases\})([^&]{1,400}?)"
    r"(?:\\end\{(?:array|aligned|matrix)\}(?:\s*+\\right\s?\.)?|\\end\{cases\})"
)
_REPEATED = re.compile(
    r"(?<![\d.])(\d{0,20})\.(\d{1,60})\s?(?:\\[lc]?dots[cb]?(?![A-Za-z])|\.\.\.)(?:\s(?![\d.])|(?![\d.]))"
)
_PERIOD = re.compile(r"(\d{1,12}?)\1+\Z")
_RATIO = re.compile(r"(\d{1,9}(?:\.\d{1,9})?) ?(?:\\text ?\{ ?)?to(?: ?\})? ?(\d{1,9}(?:\.\d{1,9})?)")
_PREFIX = re.compile(
    r"(?:(?:\\text\s*+\{)?\s*+(?:the\s++)?(?:final\s++)?answer\s*+(?:is|:)\s*+:?\s*+\}?\s*+"
    r"|(?<![A-Za-z])(?:US|USD|Rs\.?|EUR|GBP|CA)\s*+\\?\$?\s*+(?=\d))",
    re.IGNORECASE,
)
_MINUTES = re.compile(r"(\d++)\s?\^\s?(?:\{\s?)?\\circ(?:\s?\})?\s?(\d++)\s?(?:\\prime|'(?!'))(?:\s?(\d++)\s?'')?")
_CHOSEN = re.compile(r"(?:\{ ?\} ?)?[_^] ?(?:\{ ?(\d++) ?\}|(\d)) ?C ?_ ?(?:\{ ?(\d++) ?\}|(\d))")
_MODULUS = re.compile(
    r"\( ?(?:\\(?:text|mathrm|operatorname) ?\{ ?mod ?\}|\\b?mod(?![A-Za-z])|mod(?![A-Za-z])) ?([^(){}]{1,40}+)\)"
    r"|\( ?\\text ?\{ ?mod ?([0-9a-z]{1,20}+) ?\} ?\)"
    r"|\\text ?\{ ?\( ?mod ?([0-9a-z]{1,20}+) ?\) ?\}"
    r"|\( ?\\text ?\{ ?mod ?\} ?([^(){}]{1,40}+)\)"
)


def canonical(text: str) -> str:
    """Text without what never changes its meaning: delimiters, sizes of brackets, spaces that separate nothing."""
    text = undecorated(_undelimited(plain_characters(text).strip()))
    text = _THIN_SPACES.sub(" ", _SIZES.sub("", text)).replace("\\dfrac", "\\frac").replace("\\tfrac", "\\frac")
    text = _LONE_BLANKS.sub("", single_spaced(text).strip())
    return text if text.endswith("...") else text.rstrip(".")


def stripped(written: str) -> str:
    """The answer in plain characters, without the marks of formulas around and inside it."""
    text = undecorated(single_spaced(_PARENTHESES.sub(" ", plain_characters(written))).strip())
    text = text.removeprefix("**").removesuffix("**").strip().removesuffix(r"\\").strip()
    if "begin" in text:
        text = _SYSTEM.sub(lambda m: ", ".join(filter(None, (row.strip(" ,") for row in m[1].split(r"\\")))), text)
        text = _ROW_SPACE.sub(r"\1", text)
    if "aligned" in text:
        text = _ALIGNED.sub("", text).replace("&", "")
    text = _bare(_PREFIX.sub("", text))
    text = _UNIT_FRACTION.sub(r"\\text{ \1/\2 }", text)
    if "dots" in text or "..." in text:
        text = _REPEATED.sub(_repeating, text)
    if " to" in text or "{to" in text:
        text = (_RATIO.fullmatch(text) and _RATIO.sub(r"\1:\2", text)) or text
    if "circ" in text:
        text = _MINUTES.sub(_in_degrees, text)
    if "C" in text:
        text = _CHOSEN.sub(lambda m: rf"\binom{{{m[1] or m[2]}}}{{{m[3] or m[4]}}}", text)
    if "mod" in text:
        text = _MODULUS.sub(lambda m: rf"\pmod{{{m[1] or m[2] or m[3] or m[4]}}}", text)
    if text.startswith(r"\[") and text.endswith(r"\]"):
        text = text[2:-2]
    text = single_spaced(text).strip()
    return text.rstrip(".").strip() if not text.endswith("...") else text


def undecorated(text: str) -> str:
    """Without signs of conclusion in front, marks of an end behind, and words such as `for any constant c`."""
    text = _BEFORE.sub("", text, count=1) if _BEFORE.match(text) else text
    while (mark := _AFTER.search(text, max(1, len(text) - 20))) is not None:
        text = _less_space(text[: mark.start()])
    if "for " in text and (qualified := _QUALIFIED.search(text, max(1, len(text) - 160))) is not None:
        text = _less_space(text[: qualified.start()])
    return text


def _less_space(text: str) -> str:
    return text[:-40] + _SPACE_BEHIND.sub("", text[-40:])


def _repeating(match: re.Match[str]) -> str:
    """0.166... with its period under a line, where its last digits are written at least twice."""
    period = _PERIOD.search(match[2])
    if period is None:
        return match[0]
    return rf"{match[1] or 0}.{match[2][: period.start()]}\overline{{{period[1]}}}"


def _undelimited(text: str) -> str:
    for left, right in _DELIMITERS:
        if text.startswith(left) and text.endswith(right) and len(text) > len(left) + len(right):
            inner = text[len(left) : -len(right)].strip()
            if left not in inner:
                return inner
    return text


def _bare(text: str) -> str:
    """Without brackets that only repeat: ((5)) is (5), in any number."""
    leading = len(text) - len(text.lstrip("("))
    repeated = min(leading, len(text) - len(text.rstrip(")"))) - 1
    if repeated < 1:
        return text
    inner = text[repeated : len(text) - repeated]
    depth = 0
    for i, character in enumerate(inner):
        depth += (character == "(") - (character == ")")
        if depth == 0 and i < len(inner) - 1:
            return text
    return inner


def _in_degrees(match: re.Match[str]) -> str:
    """Degrees, minutes and seconds as one sum."""
    return rf"({match[1]}+{match[2]}/60+{match[3] or 0}/3600)^\circ "
