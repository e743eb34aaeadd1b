"""Answers without a mark: behind words like "the answer is", in a closing sentence, or the last number of a text."""

import re

from groupwise.grading.math.plain import MINUS

# In running text a space separates numbers, and a minus behind a digit, letter or bracket is a difference.
_LAST_NUMBER = re.compile(
    r"(?:(?<![\w)\]}])[-+])?"
    r"(?:(?<!\w)[0-9]{1,3}(?:(?:,\\!|,|\{,\}|\\,)[0-9]{3}){1,60}+(?![0-9])|(?<!\w)[0-9]+|(?<![\w.])\.(?=[0-9]))"
    r"(?:(?<=\.)[0-9]+|\.[0-9]+)?(?:[eE][-+]?[0-9]+|/[0-9]+)?"
)

_PHRASE = re.compile(
    r"(?:\b(?:answer|result|solution)|\u7b54\u6848)(?:\s++(?:to|of|for)\s++[^.:\n]{1,80}?)?(?:\*\*)?\s*+"
    r"(?:is|are|equals?|:|=|\uff1a|\u662f|\u4e3a)\s*+(?:\*\*)?\s*+:?",
    re.IGNORECASE,
)
_HEADING = re.compile(r"(?:\*\*|#[ \t]*)(?:the )?(?:final )?answer:?(?:\*\*)?:?[ \t]*+\n\s*+", re.IGNORECASE)
_ADVERB = re.compile(
    r"(?:therefore|thus|then|hence|so|simply|just|exactly|approximately|about|roughly|now|clearly|finally"
    r"|equal to|given by|as follows|option|choice|indeed|the number|the value|:)[\s,:]++",
    re.IGNORECASE,
)
_REASON = re.compile(
    r"\s*+(?:,\s++(?![\d\\$(-])|\b(?:because|since|as|which|where|when|if|but|so|for)\b|\.\s|\.$|[!?;]\s)"
)
_HEDGE = re.compile(
    r"\b(?:not|never|no|cannot|isn't|aren't|wasn't|doesn't|don't|could|may|might|maybe|perhaps|either|or|between|neither"
    r"|nor|if|whether|guess|unless|suppose|assume|n't)\b|n't|\?",
    re.IGNORECASE,
)
_STATES = re.compile(
    r"\b(?:is|are|was|were|equals?|costs?|gives?|has|have|had|makes?|made|earns?|earned|needs?|takes?|took|pays?|paid"
    r"|spends?|spent|total(?:s|ed)?|gets?|got|becomes?|sold|sells?|bought|buys?|saves?|saved|be)\b|=",
    re.IGNORECASE,
)
_ANY_DIGITS = re.compile(r"[0-9]")
_STATED = re.compile(
    r"(?<![\w.)/])-?\s?\$?(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+|(?=\.[0-9]))(?:\.[0-9]+)?"
    r"(?:/[0-9]+|\s[0-9]+/[0-9]+|\s?%)?(?![\w/^*+(]|\s[-+*/=^]|-[0-9])"
)
_SPAN = ((r"\(", r"\)"), (r"\[", r"\]"), ("$$", "$$"), ("$", "$"), ("**", "**"), ("`", "`"))
_MAX_PHRASE = 300
_MAX_SEARCHED = 8_192


def closing_answer(text: str, truncated: bool) -> tuple[str, str]:
    """The answer and `phrase` or `statement`; two empty texts where no words state one."""
    text = text[-_MAX_SEARCHED:]
    phrase_end = max((match.end() for pattern in (_PHRASE, _HEADING) for match in pattern.finditer(text)), default=-1)
    where = "phrase" if phrase_end >= 0 else "statement"
    answer = _behind(text, phrase_end, truncated) if phrase_end >= 0 else _statement(text, truncated)
    return (answer, where) if answer else ("", "")


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


def _behind(text: str, start: int, truncated: bool) -> str:
    """What stands behind the words, to the end of its formula or clause."""
    window = text[start : start + _MAX_PHRASE]
    reaches_end = start + len(window) >= len(text)
    rest = window.lstrip()
    line = rest.split("\n", 1)[0]
    reaches_end = reaches_end and "\n" not in rest
    while adverb := _ADVERB.match(line):
        line = line[adverb.end() :]
    line = line.strip()
    for left, right in _SPAN:
        if line.startswith(left):
            end = line.find(right, len(left))
            if end > 0:
                tail = line[end + len(right) :]
                if _HEDGE.search(tail.split(".")[0]):
                    return ""
                return line[len(left) : end].strip() if left != "$" or not tail[:1].isdigit() else ""
    if reaches_end and truncated:
        return ""
    if _HEDGE.search(line) or "boxed" in line:
        return ""
    clause = _REASON.search(line + " ")
    if clause:
        line = line[: clause.start()]
    return line.strip().strip("*`").rstrip(".").strip()


def _statement(text: str, truncated: bool) -> str:
    """The number of a closing sentence that states just one, as "The order costs $29.00."."""
    lines = text.rstrip().rsplit("\n", 1)[-1][-_MAX_PHRASE:]
    if truncated or not _ANY_DIGITS.search(lines):
        return ""
    sentence = re.split(r"(?<=[.!?])\s+(?=[A-Z*$\\])", lines.strip())[-1].strip("*` ").translate(MINUS)
    if _HEDGE.search(sentence):
        return ""
    numbers = list(_STATED.finditer(sentence))
    if len(numbers) != 1 or _ANY_DIGITS.search(sentence[: numbers[0].start()] + sentence[numbers[0].end() :]):
        return ""
    if not _STATES.search(sentence, 0, numbers[0].start()):
        return ""
    return numbers[0][0].strip()
