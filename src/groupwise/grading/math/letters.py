"""Answers that are letters: several options, and words that no rule of multiplication may turn round."""

import re

_OPTION = r"[(\[{]*+[A-J][)\]}.]*+"
_BETWEEN = r"(?:\s*+(?:[,/;&、]|\band\b|\\text\{ ?and ?\}|\\&)\s*+|\s++)"
_SEVERAL = re.compile(rf"{_OPTION}(?:{_BETWEEN}{_OPTION})++")
_RUN = re.compile(r"[A-J]{2,10}")
_LETTER = re.compile(r"(?<![A-Za-z])[A-J](?![A-Za-z])")
_LETTERS = re.compile(r"[A-Za-z]{2,3}|[A-Z]{2,20}")
# Short words that are others when turned round; longer ones are never products.
_WORD_LIST = """
no on act cat tac tea eat ate god dog own won now how who saw was ten net top pot opt pan nap tap pat apt tip pit
bat tab bad dab gum mug rat art tar arm ram mar era ear are ink kin low owl not ton nut tun one eon two tow use sue
war raw off yes odd six red day new old even may yam tin nit
"""
_WORDS = frozenset(_WORD_LIST.split())


def options_in(text: str) -> frozenset[str]:
    """The options of an answer that names at least two: `A, C`, `(A) and (C)`, `A/C`, `AC`; none for anything else."""
    bare = text.replace("$", "").strip()
    bare = bare if "(" in bare[1:] else bare.strip("()[]{} ")
    run = _RUN.fullmatch(bare)
    if run is not None:
        letters = list(bare)
        return frozenset(letters) if letters == sorted(set(letters)) else frozenset()
    return frozenset(_LETTER.findall(bare)) if len(bare) < 80 and _SEVERAL.fullmatch(bare) else frozenset()


def is_word(text: str) -> bool:
    """Whether letters that could be a product are a word."""
    return text.lower() in _WORDS


def is_anagram(answer: str, gold: str) -> bool:
    """Whether two words have the same letters in another order, and are words and no products of variables.

    Capitals are products up to two of them, small letters where neither is a word that is known.
    """
    if len(answer) != len(gold) or answer == gold or not (_LETTERS.fullmatch(answer) and _LETTERS.fullmatch(gold)):
        return False
    if sorted(answer.lower()) != sorted(gold.lower()):
        return False
    if is_word(answer) or is_word(gold):
        return True
    return len(gold) > 2 and not (answer.islower() and gold.islower())
