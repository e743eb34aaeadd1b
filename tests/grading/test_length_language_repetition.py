"""Rewards of length, language and repetition, against numbers worked out by hand."""

import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupwise.grading.components.group_relative_length import score_group_relative
from groupwise.grading.components.language import score_language, script_error
from groupwise.grading.components.linear_length import score_linear
from groupwise.grading.components.repetition import repeated_fraction, score_repetition
from groupwise.grading.records import Response

# Length


@pytest.mark.parametrize(
    ("tokens", "value"), [(0, 0.0), (100, 0.0), (101, -0.01), (150, -0.5), (199, -0.99), (200, -1.0), (500, -1.0)]
)
def test_a_linear_price(tokens: int, value: float) -> None:
    assert score_linear(tokens, longest=200, free=100).value == pytest.approx(value, abs=1e-15)


def test_a_linear_price_needs_room() -> None:
    assert score_linear(50, longest=100, free=0).value == -0.5
    for free in (100, 101, -1):
        with pytest.raises(ValueError, match="free < longest"):
            score_linear(50, longest=100, free=free)


def test_length_within_the_group() -> None:
    # 0.5 - (l - 100) / 400 is .5, .25, 0, -.25, -.5; wrong answers get at most 0.
    lengths = [100, 200, 300, 400, 500]
    assert [s.value for s in score_group_relative(lengths, [1.0] * 5)] == [0.5, 0.25, 0.0, -0.25, -0.5]
    assert [s.value for s in score_group_relative(lengths, [0.0] * 5)] == [0.0, 0.0, 0.0, -0.25, -0.5]
    assert [s.value for s in score_group_relative(lengths, [0.9, 1, 0, 1, 0])] == [0.0, 0.25, 0.0, -0.25, -0.5]


def test_equal_lengths_and_small_groups() -> None:
    assert [s.value for s in score_group_relative([7, 7, 7], [1.0, 0.0, 1.0])] == [0.0, 0.0, 0.0]
    assert [s.value for s in score_group_relative([7], [1.0])] == [0.0]
    assert score_group_relative([], []) == []


def test_an_unknown_correctness_is_an_error_of_its_own_sample_alone() -> None:
    scores = score_group_relative([10, 20, 30], [1.0, math.nan, 1.0])
    assert [s.status for s in scores] == ["scored", "error", "scored"]
    assert math.isnan(scores[1].value)
    assert [scores[0].value, scores[2].value] == [0.5, -0.5]


@given(lengths=st.lists(st.integers(0, 10_000), min_size=1, max_size=16))
def test_the_shortest_right_answer_is_paid_most(lengths: list[int]) -> None:
    values = [s.value for s in score_group_relative(lengths, [1.0] * len(lengths))]
    assert max(values) == values[lengths.index(min(lengths))]
    assert all(-0.5 <= value <= 0.5 for value in values)


# Repetition


@pytest.mark.parametrize(
    ("ids", "n", "share"),
    [
        ([], 1, 0.0),
        ([5], 1, 0.0),
        ([5, 5], 1, 0.5),
        ([5, 5, 5, 5], 1, 0.75),
        ([1, 2, 1, 2], 2, 1 / 3),
        ([1, 2, 3, 4], 2, 0.0),
        ([1, 2, 3, 1, 2, 3], 3, 1 / 4),
        ([1, 2, 3, 1, 2, 3], 4, 0.0),
        ([9] * 100, 20, 80 / 81),
        ([1, 2], 3, 0.0),
        ([1, 2, 3], 3, 0.0),
    ],
)
def test_repeated_fraction(ids: list[int], n: int, share: float) -> None:
    assert repeated_fraction(ids, n) == pytest.approx(share, abs=1e-15)
    assert score_repetition(ids, n).value == pytest.approx(-share, abs=1e-15)


@given(ids=st.lists(st.integers(0, 3) | st.integers(0, 2**31), max_size=60), n=st.integers(1, 12))
def test_ngrams_are_counted_as_by_a_set_of_tuples(ids: list[int], n: int) -> None:
    grams = [tuple(ids[i : i + n]) for i in range(len(ids) - n + 1)]
    expected = 1 - len(set(grams)) / len(grams) if grams else 0.0
    assert repeated_fraction(ids, n) == pytest.approx(expected, abs=1e-15)


def test_a_free_fraction_is_taken_off_and_the_rest_scaled() -> None:
    ids = [5, 5, 5, 5]
    assert score_repetition(ids, 1, free_fraction=0.5).value == pytest.approx(-(0.75 - 0.5) / 0.5)
    assert score_repetition(ids, 1, free_fraction=0.75).value == 0.0
    assert score_repetition(ids, 1, free_fraction=1.0).value == 0.0
    assert score_repetition([1, 2, 1, 2], 2).detail == "33 % of the 2-grams occurred before"
    with pytest.raises(ValueError, match="at least one token"):
        repeated_fraction(ids, 0)


def test_long_completions_and_long_ngrams_are_not_slow() -> None:
    started = time.process_time()
    assert repeated_fraction([1] * 100_000, 40_000) == pytest.approx(1 - 1 / 60_001)
    assert repeated_fraction(list(range(100_000)), 20) == 0.0
    assert time.process_time() - started < 2.0


# Language


def share(text: str, script: str = "Latin") -> float:
    return score_language(Response((), text), script).value


@pytest.mark.parametrize(
    ("text", "script", "value"),
    [
        ("all in English, été, Straße", "Latin", 1.0),
        ("so 你好 x", "Latin", 3 / 5),
        ("so 你好 x", "Han", 2 / 5),
        ("so 你好 x", "Han+Latin", 1.0),
        ("да", "Latin", 0.0),
        ("да", "Cyrillic", 1.0),
        ("カー漢字かな", "Han+Hiragana+Katakana", 1.0),
        ("x α", "Latin", 0.5),
        (r"\alpha 你", "Han", 1.0),
        ("<think>你</think><answer>好</answer><|im_end|>", "Han", 1.0),
        ("```你```", "Latin", 0.0),
        ("$你$", "Latin", 0.0),
        ("12 + 30 = 42 ✓", "Latin", 1.0),
        ("ℝ 12", "Han", 1.0),
        ("", "Han", 1.0),
    ],
)
def test_share_of_letters(text: str, script: str, value: float) -> None:
    assert share(text, script) == pytest.approx(value)


def test_names_of_scripts() -> None:
    assert script_error("Latin") == script_error("Han + Hiragana") == script_error("Latn") == ""
    assert "did you mean Latin?" in script_error("Latim")
    assert "did you mean Cyrillic?" in script_error("Latin+Cyrilic")
    assert "did you mean Han?" in script_error("Chinese")
    assert "did you mean Latin?" in script_error("English")
    assert "expected Latin, Han" in script_error("Xyzzy")
    for script in ("", "Latin+", "a)b", "Latin}", "Common", "\\p{L}"):
        assert script_error(script)
        with pytest.raises(ValueError, match="script"):
            share("a", script)


def test_what_the_detail_says() -> None:
    assert score_language(Response((), "a 你"), "Han").detail == "50 % of the letters are Han"
    assert score_language(Response((), "1"), "Han").detail == "no letters"
    assert score_language(Response((), "你"), "Han").detail == ""


@given(text=st.text(max_size=200))
def test_any_text_has_a_share(text: str) -> None:
    assert 0.0 <= share(text, "Latin+Han") <= 1.0
