"""The share of letters in the wanted script (the language consistency reward of DeepSeek-R1, 2501.12948 section 2.3.2,
counted in letters instead of words).

Letters that belong to all scripts, as in the mathematical alphabets, count on neither side, and LaTeX commands and the
tags of the format are no language. Nothing else is left out, code and formulas included: whatever was left out would be
a place to write in another language.
"""

import difflib
import functools
import re

import regex

from groupwise.grading.records import SPECIAL_TOKEN, Response, Score

# Suggested for a name that Unicode does not know.
COMMON_SCRIPTS = (
    "Arabic", "Armenian", "Bengali", "Bopomofo", "Cyrillic", "Devanagari", "Ethiopic", "Georgian", "Greek", "Gujarati",
    "Gurmukhi", "Han", "Hangul", "Hebrew", "Hiragana", "Kannada", "Katakana", "Khmer", "Lao", "Latin", "Malayalam",
    "Mongolian", "Myanmar", "Sinhala", "Tamil", "Telugu", "Thai", "Tibetan",
)  # fmt: skip

_SCRIPT_OF_LANGUAGE = {
    "chinese": "Han",
    "english": "Latin",
    "french": "Latin",
    "german": "Latin",
    "hindi": "Devanagari",
    "japanese": "Han+Hiragana+Katakana",
    "korean": "Hangul",
    "russian": "Cyrillic",
    "spanish": "Latin",
}

_NO_LANGUAGE = re.compile(r"\\[A-Za-z]+|</?(?:think|answer)>|" + SPECIAL_TOKEN.pattern)
_SHARED = r"--\p{Script=Common}--\p{Script=Inherited}"


def score_language(response: Response, script: str) -> Score:
    """The share of letters that are of the wanted script, 0 to 1; 1 where there are no letters to judge.

    script: a Unicode script, or several joined with `+`, as in `Han+Hiragana+Katakana`. Raises ValueError for what
    `script_fault` refuses.
    """
    fault = script_fault(script)
    if fault:
        raise ValueError(fault)
    letters, wanted = _patterns(_names(script))
    text = _NO_LANGUAGE.sub(" ", response.text)
    total = sum(map(len, letters.findall(text)))
    if total == 0:
        return Score(1.0, "scored", "no letters")
    share = sum(map(len, wanted.findall(text))) / total
    return Score(share, "scored", "" if share == 1.0 else f"{100 * share:.0f} % of the letters are {script}")


@functools.lru_cache(maxsize=64)
def script_fault(script: str) -> str:
    """What is wrong with the name of a script, with a suggestion; empty where nothing is."""
    for name in _names(script):
        if name.lower() in ("common", "inherited", "unknown"):
            return f"{name!r} is no script that a text can be written in"
        if re.fullmatch("[A-Za-z_]+", name):
            try:
                regex.compile(rf"\p{{Script={name}}}")
                continue
            except regex.error:
                pass
        by_case = {known.lower(): known for known in COMMON_SCRIPTS}
        near = [by_case[match] for match in difflib.get_close_matches(name.lower(), by_case, n=1, cutoff=0.7)]
        meant = _SCRIPT_OF_LANGUAGE.get(name.lower()) or next(iter(near), "")
        hint = f"did you mean {meant}?" if meant else "expected Latin, Han, Cyrillic, Arabic, Devanagari or the like"
        return f"{name!r} is not the name of a Unicode script; {hint}"
    return ""


def _names(script: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in script.split("+"))


@functools.lru_cache(maxsize=64)
def _patterns(names: tuple[str, ...]) -> tuple["regex.Pattern[str]", "regex.Pattern[str]"]:
    """Runs of letters that belong to one script alone, and of those that belong to one of these."""
    wanted = "".join(rf"\p{{Script={name}}}" for name in names)
    return regex.compile(rf"(?V1)[\p{{L}}{_SHARED}]+"), regex.compile(rf"(?V1)[\p{{L}}&&[{wanted}]]+")
