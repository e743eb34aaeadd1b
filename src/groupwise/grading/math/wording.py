"""The words and values that final statements are made of: what a value is, what hedges it, what states it."""

import re

from groupwise.grading.math.chinese import HAN


def pattern(text: str) -> re.Pattern[str]:
    """A pattern of words, in either case."""
    return re.compile(text, re.IGNORECASE)


LETTER = r"\(?\b[A-H]\b\)?"
HEDGE = pattern(
    r"\b(?:not|never|no|cannot|isn't|aren't|wasn't|doesn't|don't|could|may|might|maybe|perhaps|either|or|between"
    r"|neither|nor|if|whether|guess|guesses|unless|suppose|assume|let|unsure|possibly|probably|wrong|incorrect)\b|n't|\?|[或不否猜错錯]|可能|也许|也許|如果"
)
STATES = pattern(
    r"\b(?:is|are|was|were|equals?|costs?|gives?|has|have|had|makes?|made|earns?|earned|needs?|takes?|took|pays?|paid"
    r"|spends?|spent|total(?:s|ed)?|gets?|got|becomes?|sold|sells?|bought|buys?|saves?|saved|be|left|remains?|uses?"
    r"|requires?|contains?|holds?|weighs?|reaches|lasts?|travels?|runs?|covers?)\b|="
)
STATES_IN_CHINESE = re.compile("[是有为為共需花得剩还還等]")
CONCLUDES = pattern(
    r"(?:so|therefore|thus|hence|altogether|in total|in all|finally|overall|consequently|\u2234|=>|\\therefore"
    r"|所以|因此|故|于是|於是)(?![A-Za-z])[\s,:\uff0c]*+"
)
DIGIT = re.compile(r"[0-9]")
NUMBER = (
    r"[-+\u2212]?\s?[$\u20ac\u00a3\u00a5]?(?:[0-9]{1,3}(?:,[0-9]{3})++|[0-9]++|(?=\.[0-9]))"
    r"(?:\.[0-9]++)?(?:/[0-9]++|\s[0-9]++/[0-9]++|\s?\\?%)?"
)
_UNIT_WORDS = r"(?:\s*+(?!(?:is|are|was|were|left|or)\b)[A-Za-z\u00b0\u20ac][A-Za-z/^0-9]{0,13}+){0,3}"
COMPACT = re.compile(
    rf"[=\s]*+(?:[a-zA-Z]\w?\s*+=\s*+)?(?:{NUMBER}{_UNIT_WORDS}|{NUMBER} to {NUMBER}"
    rf"|{LETTER}(?:[).:]\s*+\S.{{0,80}})?|{NUMBER}\s*+{HAN}{{1,4}})\s*+[.。]?"
)
_FORMAL, _LONG_WORD = re.compile(r"[0-9\\=+*/^]"), re.compile(r"(?<!\\)\b[A-Za-z]{3,}(?![({])")

# A sentence, as 一共有 42 个, and no number with a unit.
HAN_WORD = re.compile(rf"{HAN}{{2}}\s*+[0-9]")


def stands_alone(value: str) -> bool:
    """Whether a text is a value by itself: a number with its unit, a formula, the letter of an option."""
    value = value.strip().strip("*$`").strip()
    return bool(value) and (
        bool(COMPACT.fullmatch(value))
        or (bool(_FORMAL.search(value)) and not _LONG_WORD.search(value) and not HAN_WORD.search(value))
    )
