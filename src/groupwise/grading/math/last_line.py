"""What the last line of a text states: five ways, from the surest to the least sure."""

import re

from groupwise.grading.math.plain import MINUS
from groupwise.grading.math.wording import COMPACT, CONCLUDES, DIGIT, HEDGE, NUMBER, STATES, STATES_IN_CHINESE

_STATED = re.compile(rf"(?<![A-Za-z0-9_.)/])(?:{NUMBER})(?![A-Za-z0-9_/^*+(]|\s[-+*/=^]|-[0-9])")
_BOLD = re.compile(r"\*\*([^*\n]{1,120})\*\*")
_FORMULA = re.compile(r"(?<![\\$])\$([^$\n]{1,200})\$(?!\d)|\\\((.{1,200}?)\\\)")
_CHAIN = re.compile(rf"=\s*+(?P<last>{NUMBER})(?:\s++[A-Za-z]{{1,14}}){{0,3}}\s*+\.?\s*+\Z")
_SEVERAL = re.compile(r"[,;]\s|\band\b")
_BEHIND_CHAIN = re.compile(r"(?:=|\b(?:is|are|equals|be|get|gives|obtain|have))\s*+\Z", re.IGNORECASE)
_SENTENCES = re.compile(r"(?<=[.!?])\s+(?=[A-Z*$\\])|(?<=。)")
_LONE_FORMULA = re.compile(r"(?:\$(?P<one>[^$]{1,200})\$|\\\((?P<two>(?:(?!\\\)).){1,200})\\\))\s*+\.?")
_OPTION_WITH_TEXT = re.compile(r"\(?[A-H][).:]\s*+\S|[a-zA-Z] is\b")


def lone_value(line: str) -> str:
    """The value that a whole line is: `**42**`, `$42$`, `(D)`, `= 42`, `Therefore, D.`"""
    concluded = CONCLUDES.match(line)
    line = line[concluded.end() :] if concluded else line
    bare = line.strip("*` ").removesuffix(".").strip("*` ").removeprefix("=").strip("*` ")
    formula = _LONE_FORMULA.fullmatch(bare)
    if formula is not None:
        return formula["one"] or formula["two"]
    return bare if COMPACT.fullmatch(bare) and not _OPTION_WITH_TEXT.match(bare) else ""


def _last_sentence(line: str) -> str:
    return next((part.strip() for part in reversed(_SENTENCES.split(line)) if part.strip()), "")


def bold_value(line: str) -> str:
    """The only bold value of the last sentence."""
    sentence = _last_sentence(line)
    spans = _BOLD.findall(sentence)
    if len(spans) != 1 or HEDGE.search(sentence) or not COMPACT.fullmatch(spans[0].strip().strip("$")):
        return ""
    return str(spans[0]).strip()


def closing_formula(line: str) -> str:
    """The formula in which a sentence ends, behind a word that states it."""
    sentence = _last_sentence(line)
    spans = list(_FORMULA.finditer(sentence))
    if not spans or HEDGE.search(sentence) or len(sentence) - spans[-1].end() > 30:
        return ""
    if not _BEHIND_CHAIN.search(sentence[: spans[-1].start()].rstrip(" *")) or DIGIT.search(
        sentence[spans[-1].end() :]
    ):
        return ""
    return spans[-1][1] or spans[-1][2]


def calculation(line: str) -> str:
    """The last side of a calculation: `Total = 40 + 2 = 42`."""
    sentence = _last_sentence(line).strip("*` ")
    chain = _CHAIN.search(sentence)
    if chain is None or HEDGE.search(sentence) or _SEVERAL.search(sentence, sentence.index("=")):
        return ""
    return chain["last"]


def one_number(line: str) -> str:
    """The number of a sentence that states just one, as "The order costs $29.00."."""
    sentence = _last_sentence(line).strip("*` ").translate(MINUS)
    if not DIGIT.search(sentence) or HEDGE.search(sentence):
        return ""
    numbers = list(_STATED.finditer(sentence))
    if len(numbers) != 1 or DIGIT.search(sentence[: numbers[0].start()] + sentence[numbers[0].end() :]):
        return ""
    start = numbers[0].start()
    stated = STATES.search(sentence, 0, start) or STATES_IN_CHINESE.search(sentence, 0, start)
    if not stated and not (CONCLUDES.match(sentence) and STATES.search(sentence)):
        return ""
    return numbers[0][0].strip()
