"""Whether an answer is the reference answer as written: the same number, or the same text."""

import re
from fractions import Fraction

from groupwise.grading.records import Verdict

_NUMBER = re.compile(r"[+-]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d*)?|[+-]?\.\d+")
_RATIO = re.compile(r"([+-]?\d+)/(\d+)")
_LATEX_RATIO = re.compile(r"([+-]?)\\[dt]?frac\{(\d+)\}\{(\d+)\}")
_WRAPPED = re.compile(r"\\(?:text|mathrm|textbf|mathbf|texttt)\{([^{}]*)\}")
_TIGHT = re.compile(r"\s*([,;:\[\](){}=])\s*")
_QUOTES = str.maketrans({'"': "'", "“": "'", "”": "'", "‘": "'", "’": "'", "−": "-", "–": "-"})
_DEGREES = re.compile(r"(?<=\d)\s*(?:°|\^\s*\{?\s*\\circ\s*\}?|\\degree)$")
_DIGITS = 4000


def grade_literal(answer: str, gold: str) -> Verdict:
    """Compare an answer, already extracted, with the only right one."""
    right = same_literal(answer, gold)
    return Verdict("correct" if right else "wrong", float(right), answer, "literal")


def same_literal(answer: str, gold: str) -> bool:
    """Numbers are compared exactly, `1,000.0` and `1000` or `2/4` and `1/2` being the same; anything else as text. A
    ratio is no integer, since the question may have been one.

    A degree sign may stand behind a number. In text, case, kinds of quotation marks, runs of white space and white
    space around brackets and commas do not count. Nothing is calculated: `3+4` is not 7.
    """
    answer, gold = _plain(answer), _plain(gold)
    expected = literal_number(gold)
    if expected is not None:
        found = literal_number(_DEGREES.sub("", answer))
        copied = expected.denominator == 1 and _is_ratio(answer) and not _is_ratio(gold)
        return found == expected and not copied
    return answer.casefold() == gold.casefold()


def _is_ratio(text: str) -> bool:
    return "/" in text or "frac" in text


def literal_number(text: str) -> Fraction | None:
    """The number that the whole text is: an integer, a decimal or a ratio of integers; None for anything else."""
    text = text.strip()
    if len(text) > _DIGITS:
        return None
    latex = _LATEX_RATIO.fullmatch(text)
    if latex:
        text = f"{latex[1]}{latex[2]}/{latex[3]}"
    ratio = _RATIO.fullmatch(text)
    if ratio:
        return Fraction(int(ratio[1]), int(ratio[2])) if int(ratio[2]) else None
    return Fraction(text.replace(",", "")) if _NUMBER.fullmatch(text) else None


def _plain(text: str) -> str:
    text = _WRAPPED.sub(r"\1", text.translate(_QUOTES)).strip().strip("$").strip()
    if text.endswith(".") and not text.endswith(".."):
        text = text[:-1]
    return _TIGHT.sub(r"\1", " ".join(text.split()))
