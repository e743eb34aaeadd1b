"""The format reward: which forms are kept, on ids and on text, and what an almost kept one is paid."""

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupwise.grading.components.regex_format import RegexFormat, matches, pattern_error, pattern_warning
from groupwise.grading.components.tagged_format import TAGS, ThinkAnswerFormat, ThinkFormat
from groupwise.grading.records import Response

OPEN, CLOSE, END, ANSWER, ANSWER_END = 1, 2, 3, 11, 12
VOCABULARY = {
    OPEN: "<think>",
    CLOSE: "</think>",
    END: "<|im_end|>",
    ANSWER: "<answer>",
    ANSWER_END: "</answer>",
    4: " ",
    5: "\n",
    6: "a",
    7: " 7",
    8: "<",
    9: "think>",
    10: "</",
    13: "answer>",
}
THINK_IDS = {"<think>": OPEN, "</think>": CLOSE}
ALL_IDS = THINK_IDS | {"<answer>": ANSWER, "</answer>": ANSWER_END}
SPELLED = {ANSWER: (8, 13), ANSWER_END: (10, 13)}

THINK = ThinkFormat()
SOFT_THINK = ThinkFormat(strictness="soft")
THINK_ANSWER = ThinkAnswerFormat()
SOFT_THINK_ANSWER = ThinkAnswerFormat(strictness="soft")
TYPES: dict[str, type[ThinkFormat] | type[ThinkAnswerFormat]] = {
    "think": ThinkFormat, "think_answer": ThinkAnswerFormat
}  # fmt: skip


@dataclass(frozen=True)
class ToyDecoder:
    """Joins the tokens of VOCABULARY."""

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool) -> str:
        special = (OPEN, CLOSE, END, ANSWER, ANSWER_END)
        return "".join(VOCABULARY[i] for i in token_ids if not (skip_special_tokens and i in special))


DECODER = ToyDecoder()


def response_of(ids: Sequence[int], opened: bool = False) -> Response:
    return Response(tuple(ids), DECODER.decode(ids, skip_special_tokens=False), opened=opened)


def text(value: str, opened: bool = False) -> Response:
    return Response((), value, opened=opened)


# A form that is kept or not


@pytest.mark.parametrize(
    ("ids", "opened", "fault"),
    [
        ([OPEN, 6, CLOSE, 7], False, ""),
        ([4, 5, OPEN, 5, 6, CLOSE, 5, 7], False, ""),
        ([6, CLOSE, 7], True, ""),
        ([OPEN, 6, CLOSE, 7], True, "2 times <think>"),
        ([6, CLOSE, 7], False, "no <think>"),
        ([7], False, "no <think>"),
        ([], False, "no <think>"),
        ([OPEN, 6], False, "no </think>"),
        ([6], True, "no </think>"),
        ([OPEN, 6, 7], False, "no </think>"),
        ([OPEN, CLOSE, 7], False, "nothing between <think> and </think>"),
        ([OPEN, 4, 5, CLOSE, 7], False, "nothing between <think> and </think>"),
        ([CLOSE, 7], True, "nothing between <think> and </think>"),
        ([OPEN, END, CLOSE, 7], False, "nothing between <think> and </think>"),
        ([OPEN, 6, CLOSE], False, "no answer after </think>"),
        ([OPEN, 6, CLOSE, 5], False, "no answer after </think>"),
        ([OPEN, 6, CLOSE, END], False, "no answer after </think>"),
        ([6, OPEN, 6, CLOSE, 7], False, "text before <think>"),
        ([CLOSE, 6, OPEN, 7], False, "</think> before <think>"),
        ([OPEN, 6, CLOSE, OPEN, 6, CLOSE, 7], False, "2 times <think>"),
        ([OPEN, OPEN, 6, CLOSE, 7], False, "2 times <think>"),
        ([OPEN, 6, CLOSE, CLOSE, 7], False, "2 times </think>"),
        ([6, CLOSE, 7, CLOSE, 7], True, "2 times </think>"),
    ],
)
def test_think(ids: list[int], opened: bool, fault: str) -> None:
    response = response_of(ids, opened)
    for result in (THINK.score_tags(response, THINK_IDS, DECODER), THINK.score_tags(response, {})):
        assert (result.value, result.status, result.detail) == (0.0 if fault else 1.0, "scored", fault)


@given(ids=st.lists(st.sampled_from([OPEN, CLOSE, END, 4, 5, 6, 7]), max_size=12), opened=st.booleans())
def test_ids_and_text_agree(ids: list[int], opened: bool) -> None:
    response = response_of(ids, opened)
    of_text = THINK.score_tags(response, {})
    assert THINK.score_tags(response, THINK_IDS, DECODER) == of_text
    assert THINK.score_tags(response, {"<think>": OPEN}, DECODER) == of_text, "one id of two is none"


@pytest.mark.parametrize(
    ("value", "opened", "fault"),
    [
        ("<think>a</think><answer>7</answer>", False, ""),
        (" \n<think>a</think>\n\n<answer>\n7\n</answer> \n", False, ""),
        ("a</think><answer>7</answer>", True, ""),
        ("<think>a</think><answer>7</answer><|im_end|>", False, ""),
        ("a</think><answer>7</answer>", False, "no <think>"),
        ("<think>a</think><answer>7</answer>", True, "2 times <think>"),
        ("<think>a</think>7", False, "no <answer>"),
        ("<think>a</think><answer>7", False, "no </answer>"),
        ("<answer>7</answer>", False, "no <think>"),
        ("", False, "no <think>"),
        ("<think> </think><answer>7</answer>", False, "nothing between <think> and </think>"),
        ("<think>a</think><answer> </answer>", False, "nothing between <answer> and </answer>"),
        ("<think>a</think><answer><|im_end|></answer>", False, "nothing between <answer> and </answer>"),
        ("Hm. <think>a</think><answer>7</answer>", False, "text before <think>"),
        ("<think>a</think>So <answer>7</answer>", False, "text between </think> and <answer>"),
        ("<think>a</think><answer>7</answer>.", False, "text behind </answer>"),
        ("<think>a</think><answer>7</answer><answer>8</answer>", False, "2 times <answer>"),
        ("<think>a <answer>7</answer></think><answer>7</answer>", False, "2 times <answer>"),
        ("<think>I use `<answer>` now</think><answer>7</answer>", False, "2 times <answer>"),
        ("<answer>7</answer><think>a</think>", False, "<answer> before </think>"),
        ("<think>a<answer>7</answer></think>", False, "<answer> before </think>"),
        ("<answer><think>a</think></answer>", False, "<answer> before </think>"),
        ("<think>a</think></answer>7<answer>", False, "</answer> before <answer>"),
        ("</think>a<think><answer>7</answer>", False, "</think> before <think>"),
        ("<Think>a</Think><answer>7</answer>", False, "no <think>"),
    ],
)
def test_think_answer(value: str, opened: bool, fault: str) -> None:
    result = THINK_ANSWER.score_tags(text(value, opened), {})
    assert (result.value, result.status, result.detail) == (0.0 if fault else 1.0, "scored", fault)


@given(
    ids=st.lists(st.sampled_from([OPEN, CLOSE, END, ANSWER, ANSWER_END, 4, 6]), max_size=12),
    opened=st.booleans(),
    soft=st.booleans(),
)
def test_ids_and_text_agree_however_the_answer_tags_are_spelled(ids: list[int], opened: bool, soft: bool) -> None:
    options = SOFT_THINK_ANSWER if soft else THINK_ANSWER
    response = response_of(ids, opened)
    of_text = options.score_tags(response, {})
    assert options.score_tags(response, ALL_IDS, DECODER) == of_text
    assert options.score_tags(response, THINK_IDS, DECODER) == of_text, "special tokens that are looked for as text"
    spelled = response_of([part for token in ids for part in SPELLED.get(token, (token,))], opened)
    assert options.score_tags(spelled, THINK_IDS, DECODER) == of_text


def test_a_tag_of_one_token_is_no_tag_when_it_is_spelled_out() -> None:
    ids = [OPEN, 6, 8, 9, 6, CLOSE, 8, 13, 6, 10, 13]
    assert THINK_ANSWER.score_tags(response_of(ids), THINK_IDS, DECODER).value == 1.0
    assert THINK_ANSWER.score_tags(response_of(ids), {}).detail == "2 times <think>"


# Quarters


@pytest.mark.parametrize(
    ("value", "opened", "share"),
    [
        ("<think>a</think>7", False, 1.0),
        ("<think>a</think>", False, 0.75),
        ("b<think>a</think>7", False, 0.75),
        ("b<think>a</think>", False, 0.5),
        ("<think>a", False, 0.5),
        ("a</think>7", False, 0.5),
        ("a</think>", False, 0.25),
        ("b<think>a", False, 0.25),
        ("a", False, 0.0),
        ("", False, 0.0),
        ("a</think>7", True, 1.0),
        ("a</think>", True, 0.75),
        ("</think>7", True, 0.0),
        ("", True, 0.0),
        ("<think></think>7", False, 0.0),
        ("<think> \n</think>7", False, 0.0),
        ("<think><think>a</think>7", False, 0.0),
        ("<think>a</think></think>7", False, 0.0),
        ("a</think>b<think>c", False, 0.0),
        ("<think>", False, 0.0),
        ("</think>", False, 0.0),
    ],
)
def test_quarters_of_think(value: str, opened: bool, share: float) -> None:
    assert SOFT_THINK.score_tags(text(value, opened), {}).value == share


@pytest.mark.parametrize(
    ("value", "opened", "share"),
    [
        ("<think>a</think><answer>7</answer>", False, 1.0),
        ("a</think><answer>7</answer>", True, 1.0),
        ("<think>a</think> so <answer>7</answer>", False, 0.75),
        ("<think>a</think><answer>7</answer> done", False, 0.75),
        ("<answer>7</answer><think>a</think>", False, 0.75),
        ("<answer>7</answer>x<think>a</think>", False, 0.5),
        ("<think>a</think>7", False, 0.25),
        ("<think>a</think><answer>7", False, 0.25),
        ("<answer>7</answer>", False, 0.25),
        ("<think>a<answer>7</answer></think>", False, 0.25),
        ("7", False, 0.0),
        ("<think>a</think><answer></answer>", False, 0.0),
        ("<think></think><answer>7</answer>", False, 0.0),
        ("<think></think><answer></answer>", False, 0.0),
        ("<think>a</think><answer>7</answer><answer>7</answer>", False, 0.0),
        ("<think>a</think></answer>7<answer>", False, 0.0),
    ],
)
def test_quarters_of_think_answer(value: str, opened: bool, share: float) -> None:
    assert SOFT_THINK_ANSWER.score_tags(text(value, opened), {}).value == share


@pytest.mark.parametrize("form", ["think", "think_answer"])
def test_only_the_strict_form_is_ever_paid_in_full(form: str) -> None:
    tags = TAGS["think" if form == "think" else "think_answer"]
    kind = TYPES[form]
    strict, soft = kind(), kind(strictness="soft")
    for length in range(7):
        for parts in itertools.product((*tags, "a"), repeat=length):
            response = text("".join(parts))
            exact, share = strict.score_tags(response, {}).value, soft.score_tags(response, {}).value
            assert (share == 1.0) == (exact == 1.0)
            assert share in (0.0, 0.25, 0.5, 0.75, 1.0)
            if any(parts.count(tag) > 1 for tag in tags) or "a" not in parts:
                assert share == 0.0


# Patterns

R1 = r"<think>.+</think>\s*<answer>.+</answer>"


def test_a_pattern_matches_the_whole_completion() -> None:
    options = RegexFormat(pattern=R1)
    assert options.score_pattern(text("<think>a\nb</think>\n<answer>7</answer>")).value == 1.0
    assert options.score_pattern(text("a</think><answer>7</answer>", opened=True)).value == 1.0
    assert options.score_pattern(text("<think>a</think><answer>7</answer><|im_end|>")).value == 1.0
    result = options.score_pattern(text("So <think>a</think><answer>7</answer>"))
    assert (result.value, result.status, result.detail) == (0.0, "scored", "the pattern does not match")
    assert options.score_pattern(text("<think>a</think>")).value == 0.0


def test_a_slow_pattern_is_stopped_and_does_not_match() -> None:
    options = RegexFormat(pattern="(a|aa)+$", pattern_milliseconds=20)
    assert options.score_pattern(text("a" * 30)).value == 1.0
    started = time.perf_counter()
    result = options.score_pattern(text("a" * 3000 + "b"))
    assert time.perf_counter() - started < 1.0
    assert result.value == 0.0
    assert result.detail == "the pattern took more than 20 ms and counts as not matching"


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("", "empty"),
        ("(", "missing )"),
        ("[z-a]", "bad character range"),
        ("a{99999999999}", "repeat count too big"),
        (r"\L<names>", "undefined named list"),
        (r"\p{Script=Latim}", "unknown property value"),
    ],
)
def test_patterns_that_are_refused(pattern: str, words: str) -> None:
    assert words in pattern_error(pattern)
    if pattern:
        with pytest.raises(ValueError, match="is not a regular expression"):
            matches(pattern, "a", 50)


def test_patterns_that_teach_nothing_are_warned_about() -> None:
    assert "matches any text" in pattern_warning(".*")
    assert "matches any text" in pattern_warning("(?:<think>)?.*")
    assert "matches the empty completion" in pattern_warning("(<think>.*</think>)?")
    assert pattern_error(R1) == pattern_warning(R1) == ""
    assert pattern_warning(".+") == "", "which at least needs an answer"


# Hostile text


@pytest.mark.parametrize("form", ["think", "think_answer"])
@pytest.mark.parametrize(
    "value",
    [
        "<think>" * 30_000,
        "<think" * 30_000,
        "<answer></answer>" * 20_000,
        "<|" * 100_000,
        "<|a|>" * 30_000,
        "a" * 300_000,
    ],
    ids=["opened", "half", "pairs", "bars", "special", "plain"],
)
def test_hostile_text_is_not_slow(form: str, value: str) -> None:
    options = TYPES[form](strictness="soft")
    started = time.process_time()
    assert options.score_tags(text(value), {}).value == 0.0
    assert time.process_time() - started < 1.0
