"""Answers in words: names, yes and no, options, dates."""

import re

_COMMAND = re.compile(r"\\(?:text|textbf|textit|textrm|mbox|mathrm|mathbf|operatorname|displaystyle|rm|bf|boxed)\b\*?")
_DROPPED = re.compile(r"[\\${}~*\"'`_()\[\]]+")
_FORMULA = re.compile(r"\\[A-Za-z{}|]|[\^_=<>+|\[\]]")
_MARKUP = re.compile(r"[$~*`]|(?<!\\)[{}]")
_SPACE_ALONE = re.compile(r"\s+")
_LONE_BLANKS = re.compile(r"(?<![A-Za-z0-9]) | (?![A-Za-z0-9])")
_SPACE = re.compile(r"[\s,;:.!?-]+")
_ARTICLE = re.compile(r"^(?:the|an?)\s++(?=\w)")
_OPTION = re.compile(
    r"(?:(?:the\s++)?(?:(?:final|correct)\s++)?(?:option|choice|answer)\s*+(?:is\b|:)?:?)?\s*+[(\[]?\s*+([A-J])\s*+[)\]]?(?:\s*+[.:)]\s*+\S.*|\s*+[.:]?)",
    re.IGNORECASE | re.DOTALL,
)
_OTHER_OPTION = re.compile(
    r"\([A-J]\)|(?<!\w)(?:[A-J]\s*+[.):]|[a-j]\))(?=\s*+\S)|\b(?:or|wrong|not|incorrect)\b[^A-J]{0,40}+[A-J](?!\w)"
    r"|[.;,/|:)]\s*+\(?[A-J]\)?\s*+\.?\s*+$"
)
_MONTH_NAMES = "january february march april may june july august september october november december"
_MONTHS = {name: i for i, name in enumerate(_MONTH_NAMES.split(), start=1)}
_MONTHS |= {name[:3]: i for name, i in _MONTHS.items()} | {"sept": 9}
_UNITS_AND_TEENS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
    " eighteen nineteen"
)
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_NUMBERS = {name: i for i, name in enumerate(_UNITS_AND_TEENS.split())}
_NUMBERS |= {name: 10 * i for i, name in enumerate(_TENS.split(), start=2)}
_YEAR = re.compile(r"\d{4}")
_ORDINAL = re.compile(r"(\d{1,2})(?:st|nd|rd|th)")


def plain_words(text: str) -> str:
    """Words as they are compared: lower case, no markup, single spaces, no article in front."""
    bare = _DROPPED.sub(" ", _COMMAND.sub(" ", text))
    return _ARTICLE.sub("", _SPACE.sub(" ", bare).strip().casefold())


def is_prose(text: str) -> bool:
    """Whether a text has words and punctuation alone, so that brackets and case mean little."""
    return not _FORMULA.search(_COMMAND.sub(" ", text))


def exact_words(text: str) -> str:
    """Words with formulas among them as they are compared: letter by letter, without markup."""
    return _LONE_BLANKS.sub("", _SPACE_ALONE.sub(" ", _MARKUP.sub(" ", _COMMAND.sub(" ", text)))).strip(" .")


def option_of(text: str, is_answer: bool = False) -> str:
    """The letter of an option such as `(C)`, `\\text{C}`, `C.` or `C: its text`; empty for anything else.

    A bare small letter is one only in an answer.
    """
    bare = _COMMAND.sub("", text).translate({ord(c): None for c in "{}$*\\"}).strip()
    match = _OPTION.fullmatch(bare)
    if match is None or _OTHER_OPTION.search(bare, match.end(1) + 1):
        return ""
    if match[1].islower() and "(" not in bare and not (is_answer and len(bare) == 1):
        return ""
    return match[1].upper()


def date_of(words: str) -> tuple[int, int, int] | None:
    """Year (0 for none), month and day of a date in words, in any order; None for anything else."""
    parts = [_ORDINAL.sub(r"\1", part) for part in words.split() if part not in ("of", "the")]
    if not 2 <= len(parts) <= 3 or sum(part in _MONTHS for part in parts) != 1:
        return None
    year = day = month = 0
    for part in parts:
        if part in _MONTHS:
            month = _MONTHS[part]
        elif _YEAR.fullmatch(part):
            year = int(part)
        elif part.isascii() and part.isdigit() and 1 <= int(part[:3]) <= 31:
            day = int(part)
        else:
            return None
    return (year, month, day)


def number_of(words: str) -> int | None:
    """The integer that words such as `twenty one` name, below a thousand; None for anything else."""
    total = 0
    for word in words.split():
        if word == "and" and total:
            continue
        if word == "hundred" and 0 < total < 10:
            total *= 100
        elif word in _NUMBERS and (total == 0 or total % 100 == 0 or (total % 10 == 0 and _NUMBERS[word] < 10)):
            total += _NUMBERS[word]
        else:
            return None
    return total if words else None


def same_words(answer: str, gold: str) -> bool:
    """Whether two answers in words, as `plain_words` leaves them, say the same."""
    if answer == gold:
        return True
    date = date_of(gold)
    return date is not None and date_of(answer) == date
