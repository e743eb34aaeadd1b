"""The distance of a length from that of the shortest right answer of its group (ShorterBetter, 2504.21370)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from groupwise.grading.components.component import Answers, RewardComponent
from groupwise.grading.records import Score
from groupwise.technique import Card, Technique


class OptimalLength(RewardComponent, Technique):
    """0 at the length of the group's shortest right answer, down to -1 at sampling.max_new_tokens away from it."""

    lowest, highest, best_wrong = -1.0, 0.0, 0.0

    type: Literal["optimal"] = "optimal"

    cards = (
        Card(
            name="sample optimal length",
            source="ShorterBetter 2504.21370",
            what="answers lose by their distance from the shortest right answer of their group, shorter ones too",
            equation="R = α·correct - β·|L - L*|, L* = min L of the right answers, else the mean L",
            values="α 2, β 0.001 a token: a weight of 0.001·L_max for correctness of weight 2",
            keys=("rewards.length", "rewards.length.weight"),
            is_on=lambda c: c.any_table(lambda table: isinstance(table.length, OptimalLength) and table.length.is_on),
            cost="none",
            test="grading/test_optimal_length.py::test_by_hand",
            differs="The paper counts tokens; here the distance is a fraction of L_max, as other prices on length are.",
        ),
    )

    def score(self, answers: Answers) -> list[Score]:
        """See `score_optimal_length`."""
        correctness_G = [score.value for score in answers.correctness_G]
        return score_optimal_length(answers.tokens_G, correctness_G, answers.max_new_tokens)

    def described(self, max_new_tokens: int) -> str:
        """With its two ends."""
        return f"length (0 at the shortest right answer of the group, -1 at {max_new_tokens} tokens from it)"


def score_optimal_length(tokens_G: Sequence[int], correctness_G: Sequence[float], longest: int) -> list[Score]:
    """-|L - L*| / longest of each answer; L* is the shortest right length, or the mean where no answer is right.

    An answer of unknown correctness (NaN) is neither right nor wrong, and may have been the shortest right one: then
    every score of the group is an error.
    """
    if any(map(math.isnan, correctness_G)):
        return [Score(math.nan, "error", "whether every answer is right is not known") for _ in tokens_G]
    right = [tokens for tokens, correctness in zip(tokens_G, correctness_G, strict=True) if correctness == 1.0]
    optimal = min(right) if right else sum(tokens_G) / max(len(tokens_G), 1)
    return [
        Score(-min(1.0, abs(tokens - optimal) / longest), "scored", f"{tokens} tokens, {optimal:g} is optimal")
        for tokens in tokens_G
    ]
