"""The format reward of the seed: the order of the first two tags on ids and on text, and what it lets through."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupwise.grading.components.component import Answers
from groupwise.grading.components.tag_order import TagOrderFormat
from groupwise.grading.components.tagged_format import ThinkFormat
from groupwise.grading.records import Response, Score
from tests.grading.test_format_reward import CLOSE, DECODER, END, OPEN, THINK_IDS, response_of


def score_of(response: Response, on_ids: bool = True) -> Score:
    tag_ids = THINK_IDS if on_ids else {}
    (score,) = TagOrderFormat().score(Answers([response], [len(response.ids)], [], 64, tag_ids, DECODER))
    return score


def printed(ids: list[int]) -> float:
    """The seed's `reward_format`: the places of the two ids compared, 0 where one of them is missing."""
    places = [ids.index(tag) if tag in ids else -1 for tag in (OPEN, CLOSE)]
    return float(-1 not in places and places[0] < places[1])


@pytest.mark.parametrize(
    ("ids", "fault", "is_a_format"),
    [
        ([OPEN, 6, CLOSE, 7], "", True),
        # What it lets through.
        ([OPEN, CLOSE, 7], "", False),
        ([OPEN, CLOSE], "", False),
        ([6, OPEN, 6, CLOSE, 7], "", False),
        ([OPEN, 6, CLOSE, OPEN, 6, CLOSE, 7], "", False),
        ([OPEN, OPEN, CLOSE, CLOSE], "", False),
        # What it does not.
        ([CLOSE, OPEN, 6, CLOSE, 7], "</think> before <think>", False),
        ([OPEN, 6, 7], "no </think>", False),
        ([6, CLOSE, 7], "no <think>", False),
        ([], "no <think>", False),
    ],
)
def test_golden(ids: list[int], fault: str, is_a_format: bool) -> None:
    response = response_of(ids)
    for on_ids in (True, False):
        assert score_of(response, on_ids) == Score(0.0 if fault else 1.0, "scored", fault)
    assert (ThinkFormat().score_tags(response, THINK_IDS, DECODER).value == 1.0) == is_a_format


@given(ids=st.lists(st.sampled_from([OPEN, CLOSE, END, 4, 5, 6, 7]), max_size=12), on_ids=st.booleans())
def test_it_is_the_comparison_that_the_seed_prints(ids: list[int], on_ids: bool) -> None:
    assert score_of(response_of(ids), on_ids).value == printed(ids)


def test_where_the_prompt_opens_the_block_nothing_earns_it() -> None:
    response = response_of([6, CLOSE, 7], opened=True)
    assert score_of(response) == Score(0.0, "scored", "no <think>")
    assert ThinkFormat().score_tags(response, THINK_IDS, DECODER).value == 1.0


def test_a_tag_that_is_spelled_in_letters_counts_on_text_alone() -> None:
    response = response_of([8, 9, 6, CLOSE, 7])
    assert score_of(response).detail == "no <think>"
    assert score_of(response, on_ids=False).value == 1.0
