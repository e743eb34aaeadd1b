"""Whether the answer of a response is the reference answer."""

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import blake2b
from itertools import product
from time import perf_counter
from typing import NamedTuple

from groupwise.grading.math.bounds import MAX_CHARACTERS, Budget, OutOfBoundsError, ParseError, UndefinedError
from groupwise.grading.math.characters import single_spaced
from groupwise.grading.math.compare import Comparison
from groupwise.grading.math.echo import is_echo
from groupwise.grading.math.evaluated import is_number
from groupwise.grading.math.extract import Extraction, extract
from groupwise.grading.math.golds import accepted_answers, option_and_text
from groupwise.grading.math.letters import is_anagram, is_word, options_in
from groupwise.grading.math.lexer import UnitLetters
from groupwise.grading.math.math_options import AnswerMode, MathOptions
from groupwise.grading.math.parser import parse
from groupwise.grading.math.plain import Plain, plain_number, with_points
from groupwise.grading.math.spelling import canonical, stripped
from groupwise.grading.math.tree import Based, Node, Num, Quantity, Text, contains
from groupwise.grading.math.words import is_prose, option_of, plain_words
from groupwise.grading.records import Response, Status, Verdict

# Two letters are a product, in which case counts, save for words such as no.
_WORDS = re.compile(r"[A-Za-z][A-Za-z' ]{2,}")
_LETTER_UNIT = re.compile(r"\d\}?(?:\s|~|\\[,;: ])+(?:[mgshlLNJWVKCF](?![A-Za-z])|\\Omega)")
_TIGHT_UNIT = re.compile(r"\d(?:[mgshlLNJWVK](?![A-Za-z])|\\Omega)")
_MAX_SHOWN = 200
_TOO_LONG = f"more than {MAX_CHARACTERS} characters"
_COPIES = {"gsm8k": "#### %s", "answer_tag": "<answer>%s</answer>", "last_number": "%s"}

DEFAULT_POLICY = MathOptions()


@dataclass(frozen=True, slots=True)
class _Reading:
    """An answer in all its readings. node: None where it is no mathematics; error: why, out_of_bounds: too large."""

    text: str
    plain: Plain | None
    option: str = ""
    words: str = ""
    node: Node | None = None
    options: frozenset[str] = frozenset()
    error: str = ""
    out_of_bounds: bool = False


class Judgement(NamedTuple):
    """What comparing two answers says; the fields are those of a Verdict."""

    status: Status
    method: str = ""
    detail: str = ""
    flags: tuple[str, ...] = ()


def grade(response: Response | str, gold: str, policy: MathOptions = DEFAULT_POLICY, question: str = "") -> Verdict:
    """The verdict on a response, given the reference answer, and the question where it is known.

    `correct`, `wrong`, `no_answer`, `gold_bad` where no response could match, and `undecided` where comparing would
    take more than one grading may cost. Never raises, and never evaluates the text as a program. flags: those of an
    Extraction, and `unevaluated` for a right number that is given as a choice of others, as max(5, 6, 7).
    """
    started = perf_counter()
    found = Extraction("")
    try:
        if unusable := gold_error(gold, policy):
            judged = Judgement("gold_bad", detail=unusable)
        else:
            given = Response((), response) if isinstance(response, str) else response
            found = extract(given, policy.answer, policy.statement_after_box == "counts")
            judged = Judgement("no_answer", detail=found.reason)
            if found.answer:
                judged = same_answer(found.answer, gold, policy, question)
    except Exception as error:  # The run continues, and the verdict says that the grader failed, not the response.
        judged = Judgement("error", detail=f"an error of the grader: {type(error).__name__}: {error}"[:_MAX_SHOWN])
    answer = found.answer
    shown = answer if len(answer) <= _MAX_SHOWN else answer[:_MAX_SHOWN] + "…"
    score = float("nan") if judged.status in ("gold_bad", "error") else float(judged.status == "correct")
    milliseconds = 1000 * (perf_counter() - started)
    return Verdict(judged.status, score, shown, judged.method, milliseconds, judged.detail, found.flags + judged.flags)


def gold_error(gold: str, policy: MathOptions) -> str:
    """Why no response could match this reference answer, not even one that copies it; empty where one can."""
    return _gold_error(gold, policy.answer)


@lru_cache(maxsize=16_384)
def _gold_error(gold: str, mode: AnswerMode) -> str:
    text = next(iter(accepted_answers(gold)), "")
    if not text:
        return "the reference answer is empty"
    found = extract(Response((), _COPIES.get(mode, r"\boxed{%s}") % text), mode).answer
    if same_answer(found, gold).status == "correct":
        return ""
    if mode == "last_number":
        return f"the reference answer {text[:60]!r} is not a number, and answer=last_number finds only numbers"
    return f"the reference answer {text[:60]!r}, copied as a response, is read as {found[:60]!r}"


def same_answer(answer: str, gold: str, policy: MathOptions = DEFAULT_POLICY, question: str = "") -> Judgement:
    """The judgement on an answer without the text around it, given the reference answer: the best of those accepted."""
    if answer.strip() == gold.strip():
        return Judgement("correct", "text" if plain_number(gold) is None else "integer")
    judged = Judgement("wrong", "text")
    golds = accepted_answers(gold)
    # An option with its text, as B) 12, answers 12 where the reference answer names no option.
    answers = (answer, with_option[1]) if (with_option := option_and_text(answer)) else (answer,)
    for one_answer, accepted in product(answers, golds):
        if one_answer is not answer and (_gold_reading(accepted).option or len(golds) > 1):
            continue
        one = _same_answer(one_answer, accepted, policy, question)
        if one.status == "correct":
            return one
        if judged.status != "undecided" and (one.status == "undecided" or not judged.detail):
            judged = one
    return judged


def _same_answer(answer: str, gold: str, policy: MathOptions, question: str) -> Judgement:
    if policy.decimal_mark == "comma":
        answer, gold = with_points(answer), with_points(gold)
    reference = _gold_reading(gold)
    answer = single_spaced(answer)
    plain = plain_number(answer)
    if plain is not None and reference.plain is not None:
        if plain == reference.plain:
            return Judgement("correct", "decimal" if plain.decimals else "integer")
        if not plain.decimals and not reference.plain.decimals and not policy.relative_tolerance:
            return Judgement("wrong", "integer")
    if len(answer) > MAX_CHARACTERS:
        if answer.strip() == reference.text:
            return Judgement("correct", "text")
        return Judgement("undecided", "bounds", _TOO_LONG)
    text = canonical(answer)
    if text == reference.text:
        return Judgement("correct", "text")
    if reference.option and option_of(answer, is_answer=True) == reference.option:
        return Judgement("correct", "option")
    if reference.words and plain_words(answer) == reference.words:
        return Judgement("correct", "text")
    if isinstance(reference.node, Based) and text.upper() == reference.node.digits:
        return Judgement("correct", "base")
    if reference.options and options_in(text) == reference.options:
        return Judgement("correct", "options")
    if is_anagram(text, reference.text):
        return Judgement("wrong", "text")
    reading = _read(answer, text, plain)
    if reading.out_of_bounds or reference.out_of_bounds:
        return Judgement("undecided", "bounds", reading.error or reference.error)
    if reference.node is None:
        return Judgement("undecided", "text", f"the reference answer is not read: {reference.error}")
    if reading.node is None:
        return Judgement("wrong", "unread", reading.error)
    base = reference.node.base if isinstance(reference.node, Based) else 10
    if (
        policy.unevaluated == "wrong"
        and is_number(reference.node, base=base)
        and not is_number(reading.node, "+" not in text, base)
    ):
        return Judgement("wrong", "unevaluated", "the answer is a computation, and the reference answer is a number")
    judged = _compared(reading.node, reference.node, policy, (text, reference.text))
    if judged.status == "correct" and question:
        copied = (policy.unreduced == "unless_copied", policy.unevaluated == "unless_copied")
        if any(copied) and is_echo(answer, reading.node, reference.node, question, *copied):
            return Judgement("wrong", "copied", "the answer stands in the question as it is")
    if judged.status != "wrong":
        return judged
    if _LETTER_UNIT.search(answer) or _LETTER_UNIT.search(gold):
        judged = _compared_with_units(answer, gold, "spaced", policy)
    if judged.status == "wrong" and _TIGHT_UNIT.search(answer) and isinstance(reference.node, Num | Quantity):
        judged = _compared_with_units(answer, gold, "all", policy)
    return judged


def _compared(answer: Node, gold: Node, policy: MathOptions, texts: tuple[str, str]) -> Judgement:
    drawn = blake2b("\0".join(sorted(texts)).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    comparison = Comparison(policy, Budget(salt=int.from_bytes(drawn, "big")))
    try:
        same = comparison.same(answer, gold)
    except (OutOfBoundsError, RecursionError) as error:
        return Judgement("undecided", "bounds", str(error))
    except (UndefinedError, ParseError) as error:
        return Judgement("wrong", "undefined", str(error))
    flags = ("unevaluated",) if same and isinstance(gold, Num) and contains(answer, "max", "min") else ()
    return Judgement("correct" if same else "wrong", comparison.method, flags=flags)


def _compared_with_units(answer: str, gold: str, letters: UnitLetters, policy: MathOptions) -> Judgement:
    """With a lone letter behind a number read as a unit: 5 m is 5 metres."""
    try:
        nodes = [parse(stripped(written), letters) for written in (answer, single_spaced(gold))]
    except (ParseError, OutOfBoundsError) as error:
        return Judgement("wrong", "unread", str(error))
    return _compared(nodes[0], nodes[1], policy, (answer, gold))


@lru_cache(maxsize=16_384)
def _gold_reading(gold: str) -> _Reading:
    gold = single_spaced(gold)
    if len(gold) > MAX_CHARACTERS:
        return _Reading(gold.strip(), plain_number(gold), error=_TOO_LONG, out_of_bounds=True)
    text = canonical(gold)
    option = option_of(gold)
    reading = _read(gold, text, plain_number(gold))
    options = options_in(text)
    is_words = is_prose(gold) and (bool(_WORDS.fullmatch(text)) or is_word(text) or isinstance(reading.node, Text))
    words = plain_words(gold) if is_words else ""
    return replace(reading, option=option, words=words, options=options)


def _read(written: str, text: str, plain: Plain | None) -> _Reading:
    try:
        return _Reading(text, plain, node=parse(stripped(written)))
    except ParseError as error:
        return _Reading(text, plain, error=str(error))
    except OutOfBoundsError as error:
        return _Reading(text, plain, error=str(error), out_of_bounds=True)
