"""The length of an answer relative to the others of its group (Kimi k1.5, 2501.12599 section 2.3.3)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from groupwise.grading.components.component import Answers, RewardComponent
from groupwise.grading.records import Score
from groupwise.technique import Card, Technique

if TYPE_CHECKING:
    from groupwise.config.checks.table import Table
    from groupwise.findings import Finding


class GroupRelativeLength(RewardComponent, Technique):
    """From 0.5 for the shortest of the group to -0.5 for the longest, for wrong answers at most 0 (Kimi k1.5)."""

    lowest, highest, best_wrong = -0.5, 0.5, 0.0

    type: Literal["group_relative"] = "group_relative"

    cards = (
        Card(
            name="length reward",
            source="Kimi k1.5 2501.12599 §2.3.3",
            what="short answers of a group are rewarded more than long ones, wrong ones never more than 0",
            equation="λ = 0.5 - (L - L_min)/(L_max - L_min); λ if right, else min(0, λ)",
            values="after a warm-up without it, whose weight is not published",
            keys=("rewards.length", "rewards.length.weight"),
            is_on=lambda c: c.any_table(
                lambda table: isinstance(table.length, GroupRelativeLength) and table.length.is_on
            ),
            cost="none",
            test="grading/test_length_language_repetition.py::test_length_within_the_group",
        ),
    )

    def score(self, answers: Answers) -> list[Score]:
        """See `score_group_relative`."""
        return score_group_relative(answers.tokens_G, [score.value for score in answers.correctness_G])

    def described(self, max_new_tokens: int) -> str:  # noqa: ARG002
        """With its two ends."""
        return "length (from 0.5 for the shortest of the group to -0.5 for the longest, wrong ones at most 0)"

    def findings_in(self, table: Table) -> Iterator[Finding]:
        """A group of one."""
        if table.config.batch.samples_per_prompt == 1:
            text = (
                f"{table.key('length')}=group_relative with batch.samples_per_prompt=1: alone in its group an answer "
                "is neither short nor long; take at least 2 samples, or set the type to linear"
            )
            yield table.error(("length",), text, "batch.samples_per_prompt")


def score_group_relative(tokens_G: Sequence[int], correctness_G: Sequence[float]) -> list[Score]:
    """The length reward within a group, from 0.5 to -0.5 (Kimi k1.5, 2501.12599 section 2.3.3).

    λ = 0.5 - (length - shortest) / (longest - shortest) over all completions of the problem. A right one, of
    correctness 1, gets λ; any other one min(0, λ). Where all are of one length, all get 0. Where the correctness is
    NaN nobody knows which of the two it is, and the score is an error.
    """
    shortest, longest = min(tokens_G, default=0), max(tokens_G, default=0)
    scores = []
    for tokens, correctness in zip(tokens_G, correctness_G, strict=True):
        if math.isnan(correctness):
            scores.append(Score(math.nan, "error", "whether the answer is right is not known"))
            continue
        value = 0.5 - (tokens - shortest) / (longest - shortest) if longest > shortest else 0.0
        detail = f"{tokens} tokens, of {shortest} to {longest} in the group"
        scores.append(Score(value if correctness == 1.0 else min(0.0, value), "scored", detail))
    return scores
