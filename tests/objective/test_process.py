"""Process supervision: scores of spans as advantages of tokens, worked out by hand."""

import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from groupwise.objective.advantages.process import ProcessAdvantage

# Spans of the first answer end at its tokens 1 and 3, those of the second at 0 and 3. The mean score is 3, and the
# distances from it are 0, -2, -1 and 3, whose squares add up to 14.
SPANS = [(3.0, 1, 0), (1.0, 3, 0), (2.0, 0, 1), (6.0, 3, 1)]
LENGTHS = [5, 4]
# Summed from the end of each answer; the last token of the first one is behind its spans.
DISTANCES = [[-2.0, -2.0, -2.0, -2.0, 0.0], [2.0, 3.0, 3.0, 3.0]]


def advantages(spans: Sequence[tuple[float, int, int]], lengths: Sequence[int], **options: Any) -> list[list[float]]:
    scores, lasts, answers = zip(*spans, strict=True) if spans else ((), (), ())
    made = ProcessAdvantage(**options).of(
        torch.tensor(scores, dtype=torch.float64),
        torch.tensor(lasts, dtype=torch.int64),
        torch.tensor(answers, dtype=torch.int64),
        torch.tensor(lengths),
    )
    assert made.dtype == torch.float64
    return [part.tolist() for part in made.split(list(lengths))]


@pytest.mark.parametrize(
    ("options", "divisor"),
    [
        ({}, math.sqrt(14 / 3) + 1e-4),
        ({"std_ddof": 0}, math.sqrt(14 / 4) + 1e-4),
        ({"std_epsilon": 0.5}, math.sqrt(14 / 3) + 0.5),
        ({"scale": "none"}, 1.0),
    ],
)
def test_golden(options: dict[str, Any], divisor: float) -> None:
    expected = [[distance / divisor for distance in of_answer] for of_answer in DISTANCES]
    for made, by_hand in zip(advantages(SPANS, LENGTHS, **options), expected, strict=True):
        assert made == pytest.approx(by_hand, rel=1e-14, abs=0)


def test_two_spans_that_end_at_one_token_both_count() -> None:
    """A border within a token: distances 1 and -1 of scores 2 and 0 cancel there, and the first begins before it."""
    assert advantages([(2.0, 1, 0), (0.0, 1, 0)], [3], scale="none") == [[0.0, 0.0, 0.0]]
    assert advantages([(2.0, 0, 0), (0.0, 2, 0), (1.0, 2, 0)], [4], scale="none") == [[0.0, -1.0, -1.0, 0.0]]


@pytest.mark.parametrize("spans", [[], [(7.0, 1, 0)], [(1.05, 0, 0), (1.05, 1, 0), (1.05, 2, 1), (1.05, 3, 1)]])
def test_without_anything_to_compare_all_is_exactly_0(spans: list[tuple[float, int, int]]) -> None:
    assert advantages(spans, LENGTHS) == [[0.0] * 5, [0.0] * 4]
    assert not ProcessAdvantage.signal(torch.tensor([score for score, _, _ in spans], dtype=torch.float64))


def test_an_answer_without_spans_is_0_and_changes_nothing_for_others() -> None:
    alone = advantages(SPANS, LENGTHS)
    beside = advantages([(score, last, 2 * answer) for score, last, answer in SPANS], [5, 3, 4])
    assert beside == [alone[0], [0.0] * 3, alone[1]]
    assert ProcessAdvantage.signal(torch.tensor([1.0, 2.0], dtype=torch.float64))


def test_a_score_that_is_not_finite_is_refused() -> None:
    with pytest.raises(ValueError, match="not finite"):
        advantages([(float("nan"), 0, 0), (1.0, 1, 0)], [2])
