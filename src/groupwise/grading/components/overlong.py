"""The soft penalty of answers that come near the length limit (DAPO, 2503.14476 eq. 13)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from groupwise.grading.components.component import Answers, RewardComponent
from groupwise.grading.records import Score
from groupwise.options import NonNegativeFloat, NonNegativeInt
from groupwise.technique import Card

if TYPE_CHECKING:
    from groupwise.config.checks.table import Table
    from groupwise.findings import Finding


class Overlong(RewardComponent):
    """Soft penalty of long answers (DAPO eq. 13)."""

    lowest, highest, best_wrong = -1.0, 0.0, 0.0
    switch, turn_on = "buffer_tokens", "state a buffer"

    weight: NonNegativeFloat = 1.0

    buffer_tokens: NonNegativeInt = 0
    """Over the last so many tokens before sampling.max_new_tokens it falls linearly to -1. 0 for none."""

    cards = (
        Card(
            name="overlong penalty",
            source="DAPO 2503.14476 eq. 13",
            what="answers are rewarded less and less towards the length limit",
            equation="0 up to L_max-C, then linear to -1 at L_max",
            values="L_max 20480, C 4096, next to +1 and -1",
            keys=("rewards.overlong.buffer_tokens", "rewards.overlong.weight"),
            is_on=lambda c: c.any_table(lambda table: table.overlong.is_on and table.overlong.weight > 0),
            cost="none",
            test="grading/test_overlong_penalty.py::test_golden",
        ),
    )

    def score(self, answers: Answers) -> list[Score]:
        """See `score_overlong`."""
        return [score_overlong(tokens, answers.max_new_tokens, self.buffer_tokens) for tokens in answers.tokens_G]

    def described(self, max_new_tokens: int) -> str:
        """With its two ends."""
        return f"overlong (0 up to {max_new_tokens - self.buffer_tokens} tokens, -1 at {max_new_tokens})"

    def findings_in(self, table: Table) -> Iterator[Finding]:
        """A buffer that begins before the first token."""
        longest = table.config.sampling.max_new_tokens
        if self.buffer_tokens > longest:
            text = (
                f"{table.key('overlong.buffer_tokens')}={self.buffer_tokens} is more than sampling.max_new_tokens="
                f"{longest}: the penalty would begin before the first token and never be 0; take a buffer at the end, "
                "a fifth of the length or so"
            )
            yield table.error(("overlong.buffer_tokens",), text, "sampling.max_new_tokens")


def score_overlong(tokens: int, longest: int, buffer: int) -> Score:
    """The soft overlong penalty (DAPO, 2503.14476 eq. 13), from 0 to -1.

    With the longest answer L_max and the buffer C, all in tokens: 0 up to L_max - C, then falling linearly to -1 at
    L_max, and -1 beyond. A buffer of 0 penalises nothing.
    """
    if buffer == 0 or tokens <= longest - buffer:
        return Score(0.0, "scored")
    value = (longest - buffer - tokens) / buffer if tokens <= longest else -1.0
    return Score(value, "scored", f"{tokens} tokens of {longest}")
