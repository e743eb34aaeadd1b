"""The accepted answers that a reference answer names: a box, a list in JSON, an option with its text, prose."""

import re
from functools import lru_cache

from groupwise.grading.math.boxes import boxes_of, joined
from groupwise.grading.math.unmarked import explicit

_STRING = r"""(?:"(?:[^"\\]|\\.)*+"|'(?:[^'\\]|\\.)*+')"""
_LIST = re.compile(rf"\[\s*+{_STRING}(?:\s*+,\s*+{_STRING})*+\s*+,?\s*+\]", re.DOTALL)
_OBJECT = re.compile(
    rf"""\{{[^{{}}]*?["'](?:final_)?(?:answer|value|solution|ground_truth|target)["']\s*+:"""
    rf"""\s*+(?:({_STRING})|(-?[0-9][0-9.eE+-]*+))[^{{}}]*+\}}""",
    re.DOTALL,
)
_OPTION_STARTS = frozenset("(ABCDEFGH")
_STRINGS = re.compile(_STRING, re.DOTALL)
_OPTION_AND_TEXT = re.compile(r"(?:\(([A-H])\)|([A-H])[).:])\s++(?![(,;/&]|and\b|or\b)(\S[^()]*(?:\([^()]*\)[^()]*)*)")
_NOTE = re.compile(
    r"\((?:approx(?:\.|imately)?|rounded[^()]{0,60}|to the nearest[^()]{0,40}|exact(?:ly)?"
    r"|accept[^()]{0,60}|or equivalent)\)\.?\Z",
    re.IGNORECASE,
)
_MARKUP = re.compile(r"\\(?:text|mathrm|mbox|mathbf|textbf)\s*+\{\s*+\}|[\s$.{}]|\\[,;:!()\[\] ]")
_MIN_WORDS = 4
_MOST = 64


@lru_cache(maxsize=16_384)
def accepted_answers(gold: str) -> tuple[str, ...]:
    """The answers of which each is right, unwrapped; none where the reference answer is empty.

    A list of strings is a list of accepted answers; [1, 2] without quotation marks is mathematics.
    """
    text = unwrapped(gold)
    if text.startswith("[") and _LIST.fullmatch(text):
        items = [unwrapped(_unquoted(item)) for item in _STRINGS.findall(text)[:_MOST]]
        return tuple(dict.fromkeys(item for item in items if not is_empty(item)))
    if is_empty(text):
        return ()
    return option_and_text(text) or (text,)


def option_and_text(text: str) -> tuple[str, str] | None:
    """The option and its text of `A. 42`; None for anything else."""
    option = _OPTION_AND_TEXT.fullmatch(text) if text[:1] in _OPTION_STARTS else None
    return (f"({option[1] or option[2]})", option[3]) if option else None


def unwrapped(gold: str) -> str:
    """The answer in a whole solution: in its last box, on its `####` line, behind its words, in a JSON object."""
    if "boxed" in gold or "fbox" in gold:
        boxes = boxes_of(gold).boxes
        if boxes:
            return joined(boxes, gold)[0].strip()
    if "####" in gold:
        return gold.rsplit("####", 1)[1].strip()
    gold = gold.strip()
    if gold.startswith("{") and (named := _OBJECT.fullmatch(gold)) is not None:
        return (_unquoted(named[1]) if named[1] else named[2]).strip()
    if gold.count(" ") >= _MIN_WORDS and (stated := explicit(gold, truncated=False)[0]):
        return stated
    return _NOTE.sub("", gold).rstrip()


def is_empty(text: str) -> bool:
    """Whether nothing but markup is in a text."""
    return not _MARKUP.sub("", text)


def _unquoted(item: str) -> str:
    r"""The content of a string, in which `\\frac` and, not being JSON, `\frac` are the same."""
    return re.sub(r"\\([\\\"'])", r"\1", item[1:-1])
