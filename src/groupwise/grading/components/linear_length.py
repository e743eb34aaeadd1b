"""A linear price on length."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from groupwise.grading.components.component import Answers, RewardComponent
from groupwise.grading.records import Score
from groupwise.options import NonNegativeInt
from groupwise.technique import Card, Technique

if TYPE_CHECKING:
    from groupwise.config.checks.table import Table
    from groupwise.findings import Finding


class LinearLength(RewardComponent, Technique):
    """0 up to `free_tokens`, falling to -1 at sampling.max_new_tokens."""

    lowest, highest, best_wrong = -1.0, 0.0, 0.0

    type: Literal["linear"] = "linear"

    free_tokens: NonNegativeInt = 0
    """So many tokens cost nothing."""

    cards = (
        Card(
            name="price on length",
            source="in use",
            what="every token beyond some costs the same",
            equation="0 up to L_free, then linear to -1 at L_max",
            values="none",
            keys=("rewards.length", "rewards.length.weight", "rewards.length.free_tokens"),
            is_on=lambda c: c.any_table(lambda table: isinstance(table.length, LinearLength) and table.length.is_on),
            cost="none",
            test="grading/test_length_language_repetition.py::test_a_linear_price",
        ),
    )

    def score(self, answers: Answers) -> list[Score]:
        """See `score_linear`."""
        return [score_linear(tokens, answers.max_new_tokens, self.free_tokens) for tokens in answers.tokens_G]

    def described(self, max_new_tokens: int) -> str:
        """With its two ends."""
        return f"length (0 up to {self.free_tokens} tokens, -1 at {max_new_tokens})"

    def findings_in(self, table: Table) -> Iterator[Finding]:
        """A price that no answer is long enough for."""
        longest = table.config.sampling.max_new_tokens
        if self.free_tokens >= longest:
            text = (
                f"{table.key('length.free_tokens')}={self.free_tokens} is not less than sampling.max_new_tokens="
                f"{longest}: no answer is ever long enough to cost something; lower it"
            )
            yield table.error(("length.free_tokens",), text, "sampling.max_new_tokens")


def score_linear(tokens: int, longest: int, free: int) -> Score:
    """A linear price on length, from 0 to -1: nothing for `free` tokens, -1 at `longest` and beyond.

    Raises ValueError unless 0 <= free < longest.
    """
    if not 0 <= free < longest:
        raise ValueError(f"expected 0 <= free < longest, found free={free} and longest={longest} tokens")
    if tokens <= free:
        return Score(0.0, "scored")
    return Score(-min(1.0, (tokens - free) / (longest - free)), "scored", f"{tokens} tokens of {longest}")
