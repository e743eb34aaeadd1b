"""Answers without a mark: in words that say so, in the last line, or the last number of a text.

`statements.py` lists the kinds.
"""

import re

from groupwise.grading.math.last_line import lone_value, one_number
from groupwise.grading.math.plain import MINUS
from groupwise.grading.math.statements import CLOSING, EXPLICIT
from groupwise.grading.math.wording import HAN_WORD, HEDGE, LETTER, pattern, stands_alone
from groupwise.grading.math.words import number_of, plain_words

_ADVERB = pattern(
    r"(?:therefore|thus|then|hence|so|simply|just|exactly|approximately|about|roughly|now|clearly|finally|equal to"
    r"|given by|as follows|option|choice|indeed|the number|the value(?: is| of)?|letter"
    r"|(?:I (?:think|believe) )?(?:that )?(?:it|this|that|there) (?:is|are)(?: option)?|we (?:get|have|obtain)"
    r"|the (?:[a-z]++ ){1,4}(?:is|are|equals)(?! not))(?![A-Za-z])[\s,:]*+|(?:[:=\uff1a]|->|\u2192|一共|共)[\s,:]*+"
)
_SPANS = ((r"\(", r"\)"), (r"\[", r"\]"), ("$$", "$$"), ("$", "$"), ("**", "**"), ("`", "`"))
_END = pattern(
    r"\s*+(?:,\s++(?![\d\\$(-]|[A-H]\b)|\b(?:because|since|as|which|where|when|but|so|for)\b|\.\s|\.$|[!;?]\s|[。\uff0c]"
    r"|\((?:since|because|as|that is|i\.?e\.?|see|from|approx|rounded|exact|which|where|by|in total|using|因))"
)
_REASON = pattern(r"\s*+(?:\(|,?\s*+\b(?:because|since)\b|[;。])")
_EXCLUDED = pattern(
    rf"(?P<kept>.{{1,60}}?)[,;\uff0c]?\s*+[(\uff08]?(?:and )?(?:(?:not|rather than|instead of)\s++|而?不是|而非)\s*+"
    rf"(?:option |choice )?(?:{LETTER}|[-$]?\d[\d.,]*+)\W*+"
)
# Two values with `or` between them are a list of both, and no single one.
_OR = pattern(r"\bor\b|或者?")
_CHINESE_OPTION = re.compile(r"\(?([A-H]{1,6})\)?\s*+(?:选项|選項|项|項|正确|正確|符合)")
_YES_OR_NO = pattern(r"\W*(?:yes|no|true|false|none|never)\W*")
_HEDGE_BEHIND = pattern(r"\b(?:or|maybe|perhaps|if|unless|possibly|probably|might|may|could)\b|\?")
_INSTRUCTS = pattern(r"(?:^|[.:]\s++)(?:solve|find|compute|calculate|evaluate|determine|simplify|what|how)\b")
_DISPLAY = re.compile(
    r"(?:\\\[|\$\$)\s*+(?P<inner>(?:(?!\\\]|\$\$).){1,400}?)\s*+(?:\\\]|\$\$)\s*+\.?\s*+\Z", re.DOTALL
)
# In running text a space separates numbers, and a minus behind a digit, letter or bracket is a difference.
_LAST_NUMBER = re.compile(
    r"(?:(?<![\w)\]}])[-+])?"
    r"(?:(?<!\w)[0-9]{1,3}(?:(?:,\\!|,|\{,\}|\\,)[0-9]{3}){1,60}+(?![0-9])|(?<!\w)[0-9]+|(?<![\w.])\.(?=[0-9]))"
    r"(?:(?<=\.)[0-9]+|\.[0-9]+)?(?:[eE][-+]?[0-9]+|/[0-9]+)?"
)
_BLANKS, _LINES = re.compile(r"[^\S\n]+"), re.compile(r"\n(?: ?\n)+")
_MAX_STATEMENT = 300
_MAX_SEARCHED = 8_192


def explicit(text: str, truncated: bool, strong: bool = False) -> tuple[str, bool]:
    """The answer of the last explicit statement, and whether there is a statement at all.

    strong: only of the kinds that outrank a box, and only a value by itself: a number, a formula, a letter.
    """
    text = _searched(text)
    found = [match for kind in EXPLICIT if kind.strong or not strong for match in kind.pattern.finditer(text)]
    if not found:
        return "", False
    last = max(found, key=lambda match: match.end())
    named = last.groupdict()
    if value := named.get("letter") or named.get("value"):
        sentence = text[max(text.rfind("\n", 0, last.start()), text.rfind(". ", 0, last.start())) + 1 : last.end()]
        several = sum(1 for kind in EXPLICIT for other in kind.pattern.finditer(sentence) if other.lastgroup) > 1
        return ("" if several or HEDGE.search(sentence) else value), True
    answer = behind(text, last.end(), truncated)
    return ("" if strong and not stands_alone(answer) else answer), True


def _searched(text: str) -> str:
    """The part that is searched, with single blanks and line breaks, so that no pattern has to try a run of them."""
    return _LINES.sub("\n", _BLANKS.sub(" ", text[-_MAX_SEARCHED:]))


def closing(text: str, truncated: bool) -> str:
    """The answer that the end of a text states, where no words name it; empty where it states none."""
    text = _searched(text).strip()
    if truncated or not text:
        return ""
    display = _DISPLAY.search(text, max(0, len(text) - 2 * _MAX_STATEMENT))
    if display is not None:
        return display["inner"]
    *before, line = text.rsplit("\n", 2)
    line = line[-_MAX_STATEMENT:].strip()
    previous = next((part.strip() for part in reversed(before) if part.strip()), "")
    if lone_value(line) and lone_value(previous) and "=" not in line:
        return ""
    return next((answer for kind in CLOSING if (answer := kind.find(line))), "")


def last_number(text: str, truncated: bool) -> tuple[str, str]:
    """The last number as written, or an empty text and the reason why there is none."""
    text = text.translate(MINUS)
    answer = ""
    for match in _LAST_NUMBER.finditer(text):
        answer = match[0]
    if not answer:
        return "", "no number"
    if truncated and text.rstrip(".,").endswith(answer):
        return "", "cut off within the last number"
    return answer, ""


def behind(text: str, start: int, truncated: bool) -> str:
    """What stands behind the words, to the end of its formula or clause; empty where it is hedged."""
    window = text[start : start + _MAX_STATEMENT]
    rest = window.lstrip()
    line, newline, below = rest.partition("\n")
    while adverb := _ADVERB.match(line):
        line = line[adverb.end() :]
    line = line.strip()
    if not line and newline:
        line = below.strip().split("\n", 1)[0].strip()
    if line in (r"\[", "$$"):
        line = rest[rest.index(line) :]
    for left, right in _SPANS:
        if line.startswith(left):
            end = line.find(right, len(left))
            if end > 0:
                tail = line[end + len(right) :]
                inner = line[len(left) : end].strip()
                if HEDGE.search(_EXCLUDED.sub("", "x" + tail).split(".")[0]) or _INSTRUCTS.search(tail):
                    return ""
                if left != "$" or not tail[:1].isdigit():
                    return inside(inner) if left == "**" else inner
    if truncated and not newline and start + len(window) >= len(text):
        return ""
    line = line.split("\n", 1)[0]
    if _YES_OR_NO.fullmatch(line):
        return line.strip("*. !")
    if (excluded := _EXCLUDED.fullmatch(line)) and stands_alone(excluded["kept"]):
        line = excluded["kept"]
    if "boxed" in line:
        return ""
    clause = _END.search(line + " ")
    tail = line[clause.start() :] if clause else ""
    if _REASON.match(tail):
        line, tail = line[: len(line) - len(tail)], tail
        if HEDGE.search(line) or _HEDGE_BEHIND.search(tail):
            return ""
    elif HEDGE.search(_OR.sub(",", line)):
        return ""
    line = line.removesuffix(tail) if tail else line
    if (letters := _CHINESE_OPTION.match(line)) is not None:
        return letters[1]
    return inside(line.strip().strip("*`").removesuffix(".").strip())


def inside(content: str) -> str:
    """The answer in a sentence such as `She has 42 apples.`; the content itself where it is no such sentence."""
    content = content.strip()
    if len(content) > _MAX_STATEMENT:
        return content
    if "\n" in content:
        content = closing(content, truncated=False) or content
    named = re.fullmatch(r"([a-z -]{2,60}) \(([0-9]+)\)", content)
    if named is not None and number_of(plain_words(named[1])) == int(named[2][:18]):
        return named[2]
    if stands_alone(content) or (content.count(" ") < 2 and not HAN_WORD.search(content)):
        return content
    return explicit(content, truncated=False)[0] or one_number(content) or content
