"""Whether the answer of a response is the reference answer."""

import re
from dataclasses import dataclass
from functools import lru_cache
from time import perf_counter
from typing import NamedTuple

from groupwise.rewards.maths.bounds import MAX_CHARACTERS, OutOfBoundsError, ParseError
from groupwise.rewards.maths.characters import plain_characters
from groupwise.rewards.maths.compare import Comparison
from groupwise.rewards.maths.evaluated import is_number
from groupwise.rewards.maths.extract import extract, unwrapped_gold
from groupwise.rewards.maths.parser import parse
from groupwise.rewards.maths.plain import Plain, plain_number
from groupwise.rewards.maths.policy import MathsPolicy
from groupwise.rewards.maths.tree import Based, Node, Num, Text, contains
from groupwise.rewards.maths.words import option_of, plain_words
from groupwise.rewards.types import Response, Status, Verdict

_DELIMITERS = (("$$", "$$"), ("$", "$"), (r"\(", r"\)"), (r"\[", r"\]"), ("**", "**"), ("`", "`"))
_SPELLINGS = re.compile(r"\\(?:left|right|displaystyle|,|!|;|:)(?![A-Za-z])")
_WORDS = re.compile(r"[A-Za-z][A-Za-z' ]+")
_LETTER_UNIT = re.compile(r"\d\}?(?:\s|~|\\[,;: ])+[mgshlLNJWVK](?![A-Za-z])")
_UNIT_FRACTION = re.compile(
    r"\\d?frac\s*\{\s*\\(?:text|mathrm)\s*\{([A-Za-z ]+)\}\s*\}\s*\{\s*\\(?:text|mathrm)\s*\{([A-Za-z ]+)\}\s*\}"
)
_PARENTHESES = re.compile(r"(?<!\\)\\[()]")
_ALIGNED = re.compile(r"\\(?:begin|end)\s*\{aligned\}")
_PREFIX = re.compile(
    r"(?:(?:\\text\s*\{)?\s*(?:the\s+)?(?:final\s+)?answer\s*(?:is|:)\s*:?\s*\}?\s*|(?:US|USD|Rs\.?|EUR|GBP|CA)\s*\\?\$?\s*(?=\d))",
    re.IGNORECASE,
)
_MAX_SHOWN = 200
_CHOICES = frozenset(("max", "min"))

DEFAULT_POLICY = MathsPolicy()


@dataclass(frozen=True, slots=True)
class _Reading:
    """An answer in all its readings. node: None where it is no mathematics; fault: why, out_of_bounds: too large."""

    text: str
    plain: Plain | None
    option: str = ""
    words: str = ""
    node: Node | None = None
    fault: str = ""
    out_of_bounds: bool = False


class Judgement(NamedTuple):
    """What comparing two answers says; the fields are those of a Verdict."""

    status: Status
    method: str = ""
    detail: str = ""
    flags: tuple[str, ...] = ()


def grade(response: Response | str, gold: str, policy: MathsPolicy = DEFAULT_POLICY) -> Verdict:
    """The verdict on a response, given the reference answer.

    `correct`, `wrong`, `no_answer`, `gold_bad` where no response could match, and `undecided` where comparing would
    take more than one grading may cost. Never raises, and never evaluates the text as a program. flags: those of an
    Extraction, and `unevaluated` for a right number that is given as a choice of others, as max(5, 6, 7).
    """
    started = perf_counter()
    if isinstance(response, str):
        response = Response((), response)
    fault = gold_fault(gold, policy)
    if fault:
        return Verdict("gold_bad", float("nan"), detail=fault, milliseconds=1000 * (perf_counter() - started))
    found = extract(response, policy.answer)
    answer = found.answer
    judged = same_answer(answer, gold, policy) if answer else Judgement("no_answer", detail=found.reason)
    shown = answer if len(answer) <= _MAX_SHOWN else answer[:_MAX_SHOWN] + "…"
    score = float(judged.status == "correct")
    milliseconds = 1000 * (perf_counter() - started)
    return Verdict(judged.status, score, shown, judged.method, milliseconds, judged.detail, found.flags + judged.flags)


def gold_fault(gold: str, policy: MathsPolicy) -> str:
    """Why no response could ever match this reference answer; empty where one can."""
    text = unwrapped_gold(gold)
    if not text.strip(" $.\t\n{}"):
        return "the reference answer is empty"
    if policy.answer == "last_number" and _gold_reading(gold).plain is None:
        found = extract(Response((), text), "last_number").answer
        if canonical(found) != canonical(text):
            return f"the reference answer {text[:60]!r} is not a number, and answer=last_number finds only numbers"
    return ""


def canonical(text: str) -> str:
    """Text without what never changes its meaning: delimiters, sizes of brackets, spaces that separate nothing."""
    text = _undelimited(plain_characters(text).strip())
    text = _SPELLINGS.sub("", text).replace("\\dfrac", "\\frac").replace("\\tfrac", "\\frac")
    return re.sub(r"(?<![A-Za-z0-9]) | (?![A-Za-z0-9])", "", " ".join(text.split())).rstrip(".")


def _undelimited(text: str) -> str:
    for left, right in _DELIMITERS:
        if text.startswith(left) and text.endswith(right) and len(text) > len(left) + len(right):
            inner = text[len(left) : -len(right)].strip()
            if left not in inner:
                return inner
    return text


def same_answer(answer: str, gold: str, policy: MathsPolicy = DEFAULT_POLICY) -> Judgement:
    """The judgement on an answer without the text around it, given the reference answer."""
    reference = _gold_reading(gold)
    plain = plain_number(answer)
    if plain is not None and reference.plain is not None:
        if plain == reference.plain:
            return Judgement("correct", "decimal" if plain.decimals else "integer")
        if not plain.decimals and not reference.plain.decimals and not policy.relative_tolerance:
            return Judgement("wrong", "integer")
    text = canonical(answer)
    if text == reference.text:
        return Judgement("correct", "text")
    if reference.option and option_of(answer, is_answer=True) == reference.option:
        return Judgement("correct", "option")
    if reference.words and plain_words(answer) == reference.words:
        return Judgement("correct", "text")
    if isinstance(reference.node, Based) and text.upper() == reference.node.digits:
        return Judgement("correct", "base")
    reading = _read(answer, text, plain)
    if reading.out_of_bounds or reference.out_of_bounds:
        return Judgement("undecided", "bounds", reading.fault or reference.fault)
    if reference.node is None:
        return Judgement("undecided", "text", f"the reference answer is not read: {reference.fault}")
    if reading.node is None:
        return Judgement("wrong", "unread", reading.fault)
    if policy.unevaluated == "wrong" and is_number(reference.node) and not is_number(reading.node, "+" not in text):
        return Judgement("wrong", "unevaluated", "the answer is a computation, and the reference answer is a number")
    judged = _compared(reading.node, reference.node, policy)
    if judged.status == "wrong" and (_LETTER_UNIT.search(answer) or _LETTER_UNIT.search(gold)):
        return _compared_with_units(answer, gold, policy)
    return judged


def _compared(answer: Node, gold: Node, policy: MathsPolicy) -> Judgement:
    comparison = Comparison(policy)
    try:
        same = comparison.same(answer, gold)
    except (OutOfBoundsError, RecursionError) as error:
        return Judgement("undecided", "bounds", str(error))
    flags = ("unevaluated",) if same and isinstance(gold, Num) and contains(answer, _CHOICES) else ()
    return Judgement("correct" if same else "wrong", comparison.method, flags=flags)


def _compared_with_units(answer: str, gold: str, policy: MathsPolicy) -> Judgement:
    """With a lone letter behind a number read as a unit: 5 m is 5 metres."""
    try:
        nodes = [parse(_stripped(written), letters_are_units=True) for written in (answer, unwrapped_gold(gold))]
    except (ParseError, OutOfBoundsError) as error:
        return Judgement("wrong", "unread", str(error))
    return _compared(nodes[0], nodes[1], policy)


@lru_cache(maxsize=16_384)
def _gold_reading(gold: str) -> _Reading:
    gold = unwrapped_gold(gold)
    text = canonical(gold)
    option = option_of(gold)
    reading = _read(gold, text, plain_number(gold))
    words = plain_words(gold) if _WORDS.fullmatch(text) or isinstance(reading.node, Text) else ""
    return _Reading(text, reading.plain, option, words, reading.node, reading.fault, reading.out_of_bounds)


def _read(written: str, text: str, plain: Plain | None) -> _Reading:
    if len(written) > MAX_CHARACTERS:
        return _Reading(text, plain, fault=f"more than {MAX_CHARACTERS} characters", out_of_bounds=True)
    try:
        return _Reading(text, plain, node=parse(_stripped(written)))
    except ParseError as error:
        return _Reading(text, plain, fault=str(error))
    except OutOfBoundsError as error:
        return _Reading(text, plain, fault=str(error), out_of_bounds=True)


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


def _stripped(written: str) -> str:
    """The answer in plain characters, without the marks of formulas around and inside it."""
    text = plain_characters(written)
    text = _PARENTHESES.sub(" ", text).strip().removeprefix("**").removesuffix("**").strip().removesuffix(r"\\").strip()
    if "aligned" in text:
        text = _ALIGNED.sub("", text).replace("&", "")
    text = _bare(_PREFIX.sub("", text))
    text = _UNIT_FRACTION.sub(r"\\text{ \1/\2 }", text)
    if text.startswith(r"\[") and text.endswith(r"\]"):
        text = text[2:-2]
    return text.strip().rstrip(".").strip() if not text.endswith("...") else text
