"""Questions that occur twice, in one file or in training and measurement both. Everything takes linear time."""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import NamedTuple

from groupwise.problem import Problem

GRAM_WORDS = 13
"""Texts that share so many words in a row were hardly written apart (GPT-3, 2005.14165 appendix C)."""

NEAR_SHARE = 0.5

# Marks between words. Those inside of a number stay, and so does whatever may be an operator.
_PUNCTUATION = re.compile(r"(?<![0-9])[.,:]|[.,:](?![0-9])|[;?\"'`“”‘’…。，、；：？]")


class Repeats(NamedTuple):
    """Groups of problems with the same question, each as their sources.

    exact: the very same text. normalised: the same but for case, white space and punctuation, the exact ones included.
    contradictory: those of `normalised` whose answers differ.
    """

    exact: tuple[tuple[str, ...], ...]
    normalised: tuple[tuple[str, ...], ...]
    contradictory: tuple[tuple[str, ...], ...]


class Shared(NamedTuple):
    """A held-out question that training has too: its source, that in training, and the share of what is the same."""

    held_out: str
    train: str
    share: float


class Overlap(NamedTuple):
    """Held-out questions that are also trained on; each stands in the first list that it fits into.

    near: at least half of all runs of 13 words are in questions of the training file.
    """

    exact: tuple[Shared, ...]
    normalised: tuple[Shared, ...]
    near: tuple[Shared, ...]


def normalised(text: str) -> str:
    """A text without case, punctuation and the amount of white space; operators and numbers stay as they are."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(_PUNCTUATION.sub(" ", folded).split())


def find_repeats(problems: Sequence[Problem], same_answer: Callable[[Problem, Problem], bool]) -> Repeats:
    """The questions that occur more than once. `same_answer` is asked of problems with the same question alone."""
    exact: dict[str, list[Problem]] = defaultdict(list)
    alike: dict[str, list[Problem]] = defaultdict(list)
    for problem in problems:
        exact[_asked(problem)].append(problem)
        alike[normalised(_asked(problem))].append(problem)
    return Repeats(
        exact=tuple(_sources(group) for group in exact.values() if len(group) > 1),
        normalised=tuple(_sources(group) for group in alike.values() if len(group) > 1),
        contradictory=tuple(
            _sources(group)
            for group in alike.values()
            if len(group) > 1 and not all(same_answer(group[0], other) for other in group[1:])
        ),
    )


def find_overlap(train: Sequence[Problem], held_out: Sequence[Problem]) -> Overlap:
    """The held-out questions that training has too, or nearly."""
    exact: dict[str, str] = {}
    alike: dict[str, str] = {}
    numbers: dict[str, int] = {}
    grams: dict[int, str] = {}
    for problem in train:
        asked = _asked(problem)
        plain = normalised(asked)
        exact.setdefault(asked, problem.place)
        alike.setdefault(plain, problem.place)
        for gram in _grams(plain, numbers):
            grams.setdefault(gram, problem.place)
    lists: tuple[list[Shared], list[Shared], list[Shared]] = ([], [], [])
    for problem in held_out:
        asked = _asked(problem)
        plain = normalised(asked)
        if asked in exact:
            lists[0].append(Shared(problem.place, exact[asked], 1.0))
        elif plain in alike:
            lists[1].append(Shared(problem.place, alike[plain], 1.0))
        else:
            own = _grams(plain, numbers)
            known = [grams[gram] for gram in own if gram in grams]
            if own and len(known) >= NEAR_SHARE * len(own):
                lists[2].append(Shared(problem.place, Counter(known).most_common(1)[0][0], len(known) / len(own)))
    return Overlap(*map(tuple, lists))


def _grams(plain: str, numbers: dict[str, int]) -> list[int]:
    """A number for every run of 13 words. Tuples of integers hash alike in every process."""
    words = [numbers.setdefault(word, len(numbers)) for word in plain.split()]
    return [hash(tuple(words[i : i + GRAM_WORDS])) for i in range(len(words) - GRAM_WORDS + 1)]


def _asked(problem: Problem) -> str:
    """The whole conversation but for the system message."""
    return "\n\n".join(message.content for message in problem.messages if message.role != "system")


def _sources(problems: Sequence[Problem]) -> tuple[str, ...]:
    return tuple(problem.place for problem in problems)
