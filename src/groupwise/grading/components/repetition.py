"""A penalty of repeated n-grams of tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from groupwise.grading.components.component import Answers, RewardComponent
from groupwise.grading.records import Score
from groupwise.lazy import np
from groupwise.options import Fraction, PositiveInt
from groupwise.technique import Card, number

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from groupwise.config.checks.table import Table
    from groupwise.findings import Finding


class Repetition(RewardComponent):
    """Penalty of repeated n-grams of tokens: 0 to -1, minus the fraction of n-grams that occurred before."""

    lowest, highest, best_wrong = -1.0, 0.0, 0.0

    ngram_tokens: PositiveInt = 20
    """Length of an n-gram."""

    free_fraction: Fraction = 0.0
    """This fraction of repeated n-grams costs nothing; the rest is scaled to -1 again."""

    cards = (
        Card(
            name="repetition penalty",
            source="2502.03373",
            what="n-grams of tokens that occurred before cost something",
            equation="- (repeated n-grams / n-grams)",
            values="n 40, 0.05 for each",
            keys=("rewards.repetition.weight", "rewards.repetition.ngram_tokens", "rewards.repetition.free_fraction"),
            is_on=lambda c: c.any_table(lambda table: table.repetition.is_on),
            cost="none",
            test="grading/test_length_language_repetition.py::test_repeated_fraction",
            differs="The paper charges the repeated tokens; here it is one number for the answer.",
        ),
    )

    def score(self, answers: Answers) -> list[Score]:
        """See `score_repetition`."""
        return [score_repetition(r.ids, self.ngram_tokens, self.free_fraction) for r in answers.responses_G]

    def described(self, max_new_tokens: int) -> str:  # noqa: ARG002
        """With its n."""
        beyond = f" beyond {number(self.free_fraction)}" if self.free_fraction else ""
        return f"repetition (minus the fraction of repeated {self.ngram_tokens}-grams{beyond})"

    def findings_in(self, table: Table) -> Iterator[Finding]:
        """Answers too short for it, and a penalty that nothing can cost."""
        longest = table.config.sampling.max_new_tokens
        if self.ngram_tokens >= longest:
            text = (
                f"{table.key('repetition.ngram_tokens')}={self.ngram_tokens} is not less than sampling.max_new_tokens="
                f"{longest}: no answer holds two such n-grams; lower it"
            )
            yield table.error(("repetition.ngram_tokens",), text, "sampling.max_new_tokens")
        if self.free_fraction == 1:
            text = f"{table.key('repetition.free_fraction')}=1: no repetition ever costs anything; lower it"
            yield table.error(("repetition.free_fraction",), text)


def score_repetition(ids: Sequence[int], ngram_tokens: int, free_fraction: float = 0.0) -> Score:
    """0 where no n-gram occurs twice, down to -1 where only one kind is left of infinitely many.

    With the fraction of repeated n-grams r = 1 - (different n-grams) / (all n-grams) and the free fraction f:
    -max(0, r - f) / (1 - f). Fewer than n + 1 tokens hold no two n-grams and cost nothing, nor does f = 1.
    """
    fraction = repeated_fraction(ids, ngram_tokens)
    if fraction <= free_fraction:
        return Score(0.0, "scored")
    detail = f"{100 * fraction:.0f} % of the {ngram_tokens}-grams occurred before"
    return Score(-(fraction - free_fraction) / (1.0 - free_fraction), "scored", detail)


def repeated_fraction(ids: Sequence[int], ngram_tokens: int) -> float:
    """The fraction of n-grams that occurred before, from 0 to less than 1. Raises ValueError for n below 1."""
    if ngram_tokens < 1:
        raise ValueError(f"an n-gram has at least one token, not {ngram_tokens}")
    count = len(ids) - ngram_tokens + 1
    if count < 2:
        return 0.0
    return 1.0 - len(np.unique(_ngram_classes(np.asarray(ids, dtype=np.int64), ngram_tokens))) / count


def _ngram_classes(ids_T: NDArray[np.int64], ngram_tokens: int) -> NDArray[np.int64]:
    """A number for the n-gram at each position, the same for the same n-grams.

    Two runs of length m joined at a distance d make one of length m + d, so that long n-grams cost no more than the
    logarithm of their length.
    """
    classes_T = _ranks(ids_T)
    length = 1
    while length < ngram_tokens:
        step = min(length, ngram_tokens - length)
        # Ranks are below the number of positions, so that a pair fits into 64 bits.
        classes_T = _ranks(classes_T[:-step] * np.int64(len(ids_T)) + classes_T[step:])
        length += step
    return classes_T


def _ranks(values_T: NDArray[np.int64]) -> NDArray[np.int64]:
    ranks_T: NDArray[np.int64] = np.unique(values_T, return_inverse=True)[1].astype(np.int64)
    return ranks_T
