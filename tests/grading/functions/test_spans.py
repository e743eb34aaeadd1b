"""Functions that score spans: what they may return, and which tokens a span of characters has."""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groupwise.errors import DataError
from groupwise.grading.functions.reward_function import FunctionScore, RewardFunction
from groupwise.grading.functions.samples import SampleInput
from groupwise.grading.functions.token_spans import in_tokens
from groupwise.grading.records import Span
from groupwise.grading.reward_options import FunctionOptions

Returned = Callable[[str], Any]


def scored(value: Any, text: str = "abcdef", returns: str = "character_spans", ids: int = 3) -> FunctionScore:
    """What becomes of a value that a function returns for a text."""
    options = FunctionOptions.model_validate({"path": "object:own", "returns": returns})
    sample = SampleInput("p", tuple(range(ids)), text, text, "stop", {}, 1, 0.0)
    with RewardFunction("own", options, function=lambda: value) as function:
        (score,) = function.submit([sample]).result()
    return score


@pytest.mark.parametrize(
    ("value", "spans", "mean"),
    [
        ([(0, 2, 1.0), (2, 6, 0)], [(0, 2, 1.0), (2, 6, 0.0)], 0.5),
        ([[1, 2, 0.25]], [(1, 2, 0.25)], 0.25),
        # A gap between two spans.
        (((0, 1, -1), (5, 6, 3)), [(0, 1, -1.0), (5, 6, 3.0)], 1.0),
        ([(np.int64(0), np.int64(2), np.float32(0.5))], [(0, 2, 0.5)], 0.5),
        ([], [], 0.0),
    ],
)
def test_spans_that_are_taken(value: Any, spans: list[tuple[int, int, float]], mean: float) -> None:
    score = scored(value)
    assert (score.failure, score.value, list(score.spans)) == (None, mean, spans)


@pytest.mark.parametrize(
    ("value", "kind", "message"),
    [
        ([(0, 2, 1.0), (1, 3, 1.0)], "bad_span", "span 2, tuple (1, 3, 1.0), begins before 2, where the one before"),
        ([(4, 6, 1.0), (0, 2, 1.0)], "bad_span", "begins before 6"),
        ([(0, 7, 1.0)], "bad_span", "leaves the answer, which has 6 characters"),
        ([(2, 2, 1.0)], "bad_span", "is empty or begins before 0"),
        ([(3, 2, 1.0)], "bad_span", "is empty or begins before 0"),
        ([(-1, 2, 1.0)], "bad_span", "is empty or begins before 0"),
        ([(0, 1.5, 1.0)], "bad_type", "is not (start, end, score) with whole start and end"),
        ([(0, 1)], "bad_type", "is not (start, end, score)"),
        ([0.5, 0.5], "bad_type", "span 1, float 0.5, is not (start, end, score)"),
        ([(0, 1, None)], "bad_type", "the score of span 1"),
        ([(0, 1, math.nan)], "not_finite", "the score of span 1"),
        (0.5, "bad_type", "returned float 0.5, where a list of (start, end, score) in characters of text was expected"),
        (None, "bad_type", "returned NoneType None, where a list of (start, end, score)"),
        ({"a": (0, 1, 1.0)}, "bad_type", "returned dict"),
    ],
)
def test_spans_that_are_refused(value: Any, kind: str, message: str) -> None:
    score = scored(value)
    assert math.isnan(score.value)
    assert score.failure is not None
    assert score.failure.kind == kind
    assert message in score.failure.message
    assert score.spans == ()


def test_spans_of_tokens_are_of_the_ids() -> None:
    assert scored([(0, 3, 1.0)], text="a", returns="token_spans").spans == ((0, 3, 1.0),)
    failure = scored([(0, 4, 1.0)], text="abcdefgh", returns="token_spans").failure
    assert failure is not None
    assert "leaves the answer, which has 3 tokens" in failure.message


def test_of_a_batch_only_the_wrong_ones_fail() -> None:
    options = FunctionOptions(path="object:own", returns="character_spans", call="batch")
    samples = [SampleInput(f"p{n}", (1,), "abc", "abc", "stop", {}, 1, 0.0) for n in range(3)]
    values = [[(0, 3, 1.0)], [(0, 4, 1.0)], []]
    with RewardFunction("own", options, function=lambda: values) as function:
        one, other, none = function.submit(samples).result()
    assert (one.spans, one.failure) == (((0, 3, 1.0),), None)
    assert other.failure is not None
    assert other.failure.kind == "bad_span"
    assert (none.value, none.spans, none.failure) == (0.0, (), None)


def test_a_worker_says_the_same_and_a_dry_run_says_what_was_expected() -> None:
    options = FunctionOptions(path="tests.support.span_rewards:pieces", returns="character_spans")
    sample = SampleInput("p", (1, 2), "12 apples", "12 apples", "stop", {}, 1, 0.0)
    with RewardFunction("own", options, workers=1) as function:
        (score,) = function.dry_run([sample])
    assert score.spans == ((0, 5, 0.4), (5, 9, 0.0))
    assert score.value == 0.2
    wrong = options.model_copy(update={"path": "tests.grading.functions.user_rewards:whole"})
    with RewardFunction("own", wrong, workers=1) as function, pytest.raises(DataError) as caught:
        function.dry_run([sample])
    assert "expected a list of (start, end, score) in characters of text within 10 s" in str(caught.value)


# Tokens of one, several and a part of a character, as a byte-level tokenizer has them; 汉 is spelled by three tokens.
PIECES = [b"\xe6", b"\xb1", b"\x89", b"ab", b"c", b" de", b"", b"f"]
TEXT = "汉abc def"


def decode(ids: Sequence[int]) -> str:
    return b"".join(PIECES[i] for i in ids).decode(errors="replace")


def tokens_of(*spans: tuple[int, int]) -> list[tuple[int, int]]:
    found = in_tokens([Span(*span, 1.0) for span in spans], range(len(PIECES)), TEXT, 10, decode)
    return [(span.start, span.end) for span in found]


def test_a_span_of_characters_has_the_tokens_that_hold_them() -> None:
    assert decode(range(len(PIECES))) == TEXT
    # Whole tokens: `ab`, `c`, ` de`.
    assert tokens_of((1, 3), (3, 4), (4, 7)) == [(3, 4), (4, 5), (5, 6)]
    # A character that three tokens spell is there with the last of them.
    assert tokens_of((0, 1)) == [(2, 3)]
    # Borders within `ab` and ` de`: the token is in both spans, and the first ends with it.
    assert tokens_of((1, 2), (2, 5), (5, 6)) == [(3, 4), (3, 6), (5, 6)]
    # The end of the answer has what stopped it too, up to the ten tokens of the completion.
    assert tokens_of((0, 8)) == [(2, 10)]
    assert tokens_of((7, 8)) == [(7, 10)]
    assert tokens_of() == []


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="ab 汉é😀�", min_size=1, max_size=12), st.data())
def test_a_tokenizer_that_splits_anywhere(text: str, data: st.DataObject) -> None:
    """By whole beginnings, each tried in turn: the first that reads as the text does."""
    content = text.encode()
    cuts = sorted(data.draw(st.sets(st.integers(1, len(content)))) | {0, len(content)})
    pieces = [content[start:end] for start, end in itertools.pairwise(cuts)]
    borders = sorted(data.draw(st.sets(st.integers(0, len(text)), min_size=2)))
    spans = [Span(start, end, 1.0) for start, end in itertools.pairwise(borders)]

    def read(ids: Sequence[int]) -> str:
        return b"".join(pieces[i] for i in ids).decode(errors="replace")

    def holder(character: int) -> int:
        readings = (read(range(t + 1)).startswith(text[: character + 1]) for t in range(len(pieces)))
        return list(readings).index(True)

    for made in (
        in_tokens(spans, range(len(pieces)), text, 99, read),
        # A tokenizer that strips a space where it begins to read, as SentencePiece does.
        in_tokens(spans, range(len(pieces)), text, 99, lambda ids: read(ids) if 0 in ids else read(ids).lstrip()),
    ):
        for span, of_tokens in zip(spans, made, strict=True):
            end = 99 if span.end == len(text) else holder(span.end - 1) + 1
            assert (of_tokens.start, of_tokens.end) == (holder(span.start), end)


def test_spans_of_tokens_reach_to_the_end_too() -> None:
    assert in_tokens([Span(0, 2, 1.0), Span(3, 4, 0.5)], range(4), None, 6, decode) == ((0, 2, 1.0), (3, 6, 0.5))


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.sampled_from(["a", "bc", "def", "汉", "", "é "]), min_size=1, max_size=12),
    st.data(),
)
def test_the_holder_of_a_character_is_the_token_that_has_it(words: list[str], data: st.DataObject) -> None:
    """Of whole characters it can be looked up in the ends of the tokens."""
    text = "".join(words)
    if not text:
        return
    owner = [index for index, word in enumerate(words) for _ in word]
    borders = sorted(data.draw(st.sets(st.integers(0, len(text)), min_size=2)))
    spans = [Span(start, end, 1.0) for start, end in itertools.pairwise(borders)]
    found = in_tokens(spans, range(len(words)), text, len(words), lambda ids: "".join(words[i] for i in ids))
    for span, of_tokens in zip(spans, found, strict=True):
        last = len(words) if span.end == len(text) else owner[span.end - 1] + 1
        assert (of_tokens.start, of_tokens.end, of_tokens.score) == (owner[span.start], last, 1.0)
