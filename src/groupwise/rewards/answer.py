"""Correctness: the answer after the reasoning, compared exactly. No text of a model is ever evaluated.

Everything here takes time linear in the length of the completion, whatever a policy learns to write.
"""

import re
from typing import Literal

from groupwise.rewards.types import SPECIAL_TOKEN, Response, Score

AnswerMode = Literal["boxed", "last_number"]

_TAG = re.compile(r"</?think>")
# A backslash takes the next character with it, so that \{ and \} are no braces.
_BRACES = re.compile(r"\\boxed\s*+\{|\\.|[{}]", re.DOTALL)

_MINUS = str.maketrans({"\u2212": "-", "\u2013": "-", "\ufe63": "-", "\uff0d": "-"})
_SPACES = "[ \u00a0\u2009\u202f]"
# 1,234  1,\!234  1{,}234  1\,234  1 234: groups of three behind the first, with one and the same separator.
_GROUPED = rf"[0-9]{{1,3}}(?:(?P<separator>,\\!|,|\{{,\}}|\\,|{_SPACES})[0-9]{{3}})(?:(?P=separator)[0-9]{{3}})*"
_INTEGER = re.compile(rf"(?P<sign>[-+]?)\s*(?:\\?\$)?(?P<digits>{_GROUPED}|[0-9]+)(?:\.0*)?")
_NOT_DIGIT = re.compile(r"[^0-9]")

# In running text a space separates numbers, and a minus behind a digit, letter or bracket is a difference.
_NUMBER = re.compile(
    r"(?:(?<![\w)\]}])[-+])?"
    r"(?:(?<!\w)[0-9]{1,3}(?:(?:,\\!|,|\{,\}|\\,)[0-9]{3})+(?![0-9])|(?<!\w)[0-9]+|(?<![\w.])\.(?=[0-9]))"
    r"(?:(?<=\.)[0-9]+|\.[0-9]+)?(?:[eE][-+]?[0-9]+|/[0-9]+)?"
)
_DELIMITERS = (("$$", "$$"), ("$", "$"), (r"\(", r"\)"), (r"\[", r"\]"))


def score_answer(response: Response, gold: str, mode: AnswerMode) -> Score:
    """1 for the right answer, 0 for a wrong one or none; an error where the reference answer itself is unusable."""
    fault = gold_fault(gold, mode)
    if fault:
        return Score(float("nan"), "error", fault)
    answer, reason = extract_answer(response, mode)
    if not answer:
        return Score(0.0, "no_answer", reason)
    right = same_answer(answer, gold)
    return Score(float(right), "scored", answer if len(answer) <= 200 else answer[:200] + "…")


def gold_fault(gold: str, mode: AnswerMode) -> str:
    """Why no completion could ever match this reference answer; empty where one can."""
    gold = _unwrapped(gold)
    if not gold:
        return "the reference answer is empty"
    if mode == "last_number" and integer_of(gold) is None and _last_number(gold) != _plain(gold):
        return f"the reference answer {gold[:60]!r} is not a number, and rewards.answer=last_number finds only numbers"
    return ""


def extract_answer(response: Response, mode: AnswerMode) -> tuple[str, str]:
    """The answer as written, or an empty text and the reason why there is none."""
    part = after_reasoning(response)
    if part is None:
        return "", "the reasoning is not closed"
    if mode == "boxed":
        answer = last_boxed(part)
        if answer is None:
            return "", r"no \boxed{}"
        return answer, "" if answer else r"an empty \boxed{}"
    part = SPECIAL_TOKEN.sub(" ", part).translate(_MINUS)
    answer = _last_number(part)
    if not answer:
        return "", "no number"
    if response.truncated and part.rstrip(".,").endswith(answer):
        return "", "cut off within the last number"
    return answer, ""


def after_reasoning(response: Response) -> str | None:
    """The text behind the last `</think>`, or all of it where there is no reasoning; None inside an open `<think>`."""
    start, is_open = 0, response.opened
    for tag in _TAG.finditer(response.text):
        is_open = tag[0] == "<think>"
        start = tag.end()
    return None if is_open else response.text[start:]


def last_boxed(text: str) -> str | None:
    """The content of the last `\\boxed{…}` whose braces balance; None without one."""
    opened: list[tuple[int, bool]] = []
    best: tuple[int, int] | None = None
    for token in _BRACES.finditer(text):
        if token[0] == "}":
            start, is_box = opened.pop() if opened else (0, False)
            if is_box and (best is None or start > best[0]):
                best = (start, token.start())
        elif token[0].endswith("{") and token[0] != r"\{":
            opened.append((token.end(), len(token[0]) > 1))
    return text[best[0] : best[1]].strip() if best else None


def same_answer(answer: str, gold: str) -> bool:
    """Whether an answer is the reference answer.

    An integer is compared as an integer, of any length: sign, leading zeros, thousands separators, a trailing `.0`,
    a currency sign and dollars around it make no difference. Anything else has to be the same text, where white space
    counts only between two letters or digits: `\\frac{1}{2}` is not `0.5`.
    """
    gold = _unwrapped(gold)
    integer = integer_of(gold)
    if integer is not None:
        return integer_of(answer) == integer
    return _plain(answer) == _plain(gold)


def integer_of(text: str) -> str | None:
    """An integer in its plain form, as digits with at most a minus; None for anything else.

    The digits stay text: a number of 100,000 digits is compared at once, and never converted.
    """
    match = _INTEGER.fullmatch(_undelimited(text).translate(_MINUS))
    if match is None:
        return None
    digits = _NOT_DIGIT.sub("", match["digits"]).lstrip("0")
    if not digits:
        return "0"
    return "-" + digits if match["sign"] == "-" else digits


def _last_number(text: str) -> str:
    last = ""
    for match in _NUMBER.finditer(text):
        last = match[0]
    return last


def _unwrapped(gold: str) -> str:
    """A reference answer may be a whole solution that ends in a box."""
    boxed = last_boxed(gold)
    return gold.strip() if boxed is None else boxed


def _undelimited(text: str) -> str:
    text = text.strip()
    for left, right in _DELIMITERS:
        if text.startswith(left) and text.endswith(right) and len(text) > len(left) + len(right):
            return text[len(left) : -len(right)].strip()
    return text


def _plain(text: str) -> str:
    single_spaced = " ".join(_undelimited(text).translate(_MINUS).split())
    return re.sub(r"(?<![A-Za-z0-9]) | (?![A-Za-z0-9])", "", single_spaced)
