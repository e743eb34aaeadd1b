"""The fraction of letters in the wanted script.

It is the language consistency reward of DeepSeek-R1 (2501.12948 section 2.3.2), counted in letters instead of words.

Letters that belong to all scripts, as in the mathematical alphabets, count on neither side, and LaTeX commands and the
tags of the format are no language. Nothing else is left out, code and formulas included: whatever was left out would be
a place to write in another language.
"""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import regex

from groupwise.grading.components.component import Answers, RewardComponent
from groupwise.grading.records import SPECIAL_TOKEN, Response, Score
from groupwise.technique import Card

if TYPE_CHECKING:
    from groupwise.config.checks.table import Table
    from groupwise.findings import Finding

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


class Language(RewardComponent):
    """The fraction of letters in the wanted script, against mixing of languages in the reasoning (R1)."""

    script: str = "Latin"
    """Unicode script: Latin, Han, Cyrillic, Arabic, Hangul, Devanagari, Greek, … Several are joined with `+`. LaTeX
    commands do not count; a text without letters gets 1."""

    cards = (
        Card(
            name="language consistency",
            source="DeepSeek-R1 2501.12948 §2.3.2",
            what="reasoning in the wanted language is rewarded, against mixing of languages",
            equation="R = … + w·(words of the language / all words)",
            values="w 1, added to the rest",
            keys=("rewards.language.weight", "rewards.language.script"),
            is_on=lambda c: c.any_table(lambda table: table.language.is_on),
            cost="none",
            test="grading/test_length_language_repetition.py::test_share_of_letters",
            differs="Letters of a script are counted here, so that languages of one script are not distinguished; the "
            "paper counts words.",
        ),
    )

    def score(self, answers: Answers) -> list[Score]:
        """See `score_language`."""
        return [score_language(response, self.script) for response in answers.responses_G]

    def described(self, max_new_tokens: int) -> str:  # noqa: ARG002
        """With its script."""
        return f"language (fraction of letters in {self.script})"

    def findings_in(self, table: Table) -> Iterator[Finding]:
        """A script that there is not."""
        if problem := script_error(self.script):
            yield table.error(("language.script",), f"{table.key('language.script')}: {problem}")


def score_language(response: Response, script: str) -> Score:
    """The fraction of letters that are of the wanted script, 0 to 1; 1 where there are no letters to judge.

    script: a Unicode script, or several joined with `+`, as in `Han+Hiragana+Katakana`. Raises ValueError for what
    `script_error` refuses.
    """
    if problem := script_error(script):
        raise ValueError(problem)
    letters, wanted = _patterns(_names(script))
    text = _NO_LANGUAGE.sub(" ", response.text)
    total = sum(map(len, letters.findall(text)))
    if total == 0:
        return Score(1.0, "scored", "no letters")
    fraction = sum(map(len, wanted.findall(text))) / total
    return Score(fraction, "scored", "" if fraction == 1.0 else f"{100 * fraction:.0f} % of the letters are {script}")


@functools.lru_cache(maxsize=64)
def script_error(script: str) -> str:
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
def _patterns(names: tuple[str, ...]) -> tuple[regex.Pattern[str], regex.Pattern[str]]:
    """Runs of letters that belong to one script alone, and of those that belong to one of these."""
    wanted = "".join(rf"\p{{Script={name}}}" for name in names)
    return regex.compile(rf"(?V1)[\p{{L}}{_SHARED}]+"), regex.compile(rf"(?V1)[\p{{L}}&&[{wanted}]]+")
