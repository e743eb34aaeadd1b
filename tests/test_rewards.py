"""Rewards: what is extracted, what is equal, what keeps the format, and what is paid."""

import json
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupwise.config import RewardOptions
from groupwise.rewards.answer import (
    AnswerMode,
    extract_answer,
    gold_fault,
    integer_of,
    last_boxed,
    same_answer,
    score_answer,
)
from groupwise.rewards.combine import combine, payments
from groupwise.rewards.think_format import score_think_ids, score_think_text
from groupwise.rewards.types import Response
from groupwise.tasks.files import read_problems

SHARED = Path(__file__).parents[2] / "shared"
needs_shared = pytest.mark.skipif(not SHARED.exists(), reason="the data folder is not there")


def score(text: str, gold: str, mode: AnswerMode = "boxed", opened: bool = False, truncated: bool = False) -> float:
    return score_answer(Response((), text, truncated, opened), gold, mode).value


def extracted(text: str, mode: AnswerMode = "boxed", opened: bool = False, truncated: bool = False) -> str:
    return extract_answer(Response((), text, truncated, opened), mode)[0]


# The answer after the reasoning


@pytest.mark.parametrize(
    ("text", "opened", "status", "value"),
    [
        (r"\boxed{7}", False, "scored", 1.0),
        (r"<think>2+5</think>\boxed{7}", False, "scored", 1.0),
        (r"2+5</think>\boxed{7}", True, "scored", 1.0),
        (r"2+5</think>\boxed{7}", False, "scored", 1.0),
        (r"<think>a</think><think>b</think>\boxed{7}", False, "scored", 1.0),
        (r"<think>\boxed{7}</think>", False, "no_answer", 0.0),
        (r"<think>\boxed{7}</think> It is seven.", False, "no_answer", 0.0),
        (r"\boxed{7}</think>", True, "no_answer", 0.0),
        (r"<think>\boxed{7}", False, "no_answer", 0.0),
        (r"\boxed{7}", True, "no_answer", 0.0),
        (r"\boxed{7}<think>hm", False, "no_answer", 0.0),
        (r"<think>\boxed{7}</think>\boxed{8}", False, "scored", 0.0),
        (r"</think><think></think>\boxed{7}", False, "scored", 1.0),
        (r"\boxed{}", False, "no_answer", 0.0),
        (r"\boxed{ }", False, "no_answer", 0.0),
        ("", False, "no_answer", 0.0),
        ("7", False, "no_answer", 0.0),
    ],
)
def test_only_what_stands_after_the_reasoning_counts(text: str, opened: bool, status: str, value: float) -> None:
    result = score_answer(Response((), text, opened=opened), "7", "boxed")
    assert (result.status, result.value) == (status, value)
    assert result.detail, "every outcome says why"


@pytest.mark.parametrize(
    ("text", "content"),
    [
        (r"\boxed{42}", "42"),
        (r"\boxed {42}", "42"),
        (r"\boxed{42} Wait, \boxed{43}.", "43"),
        (r"\boxed{42} then \boxed{43", "42"),
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed{\boxed{5}}", "5"),
        (r"\boxed{\{1,2\}}", r"\{1,2\}"),
        (r"\boxed{\{1}", r"\{1"),
        (r"}}} \boxed{5} {{{", "5"),
        (r"{ \boxed{5}", "5"),
        (r"\boxed{5\}", None),
        (r"\boxed 5", None),
        (r"\\boxed{5}", None),
        (r"boxed{5}", None),
        (r"\boxed", None),
        ("\\", None),
    ],
)
def test_last_boxed(text: str, content: str | None) -> None:
    assert last_boxed(text) == content


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("It is 5.", "5"),
        ("5 + 3 = 8", "8"),
        ("so -7", "-7"),
        ("so \u22127", "-7"),
        ("10-5", "5"),
        ("(3)-5", "5"),
        ("1,234.", "1,234"),
        ("1,2345", "2345"),
        ("$1,234,567", "1,234,567"),
        ("3.14", "3.14"),
        (".5", ".5"),
        ("... 5", "5"),
        ("...5", "5"),
        ("1/2", "1/2"),
        ("1e5", "1e5"),
        ("12cm", "12"),
        ("x2 H2O", ""),
        ("nothing", ""),
        ("5<|reserved_9|>", "5"),
        ("1 234", "234"),
        ("1{,}234", "1{,}234"),
        ("50%", "50"),
    ],
)
def test_last_number(text: str, number: str) -> None:
    assert extracted(text, "last_number") == number


def test_a_number_cut_off_is_no_answer() -> None:
    assert score("It is 12", "12", "last_number") == 1.0
    result = score_answer(Response((), "It is 12", truncated=True), "12", "last_number")
    assert (result.value, result.status) == (0.0, "no_answer")
    assert "cut off" in result.detail
    assert extracted("It is 12.", "last_number", truncated=True) == "", "12.5 may have followed"
    assert extracted("It is 12 ap", "last_number", truncated=True) == "12"
    assert extracted(r"\boxed{12} and", truncated=True) == "12", "a closed box is whole"


# What is equal


@pytest.mark.parametrize(
    "text",
    [
        "1234",
        "+1234",
        " 1234 ",
        "01234",
        "1,234",
        "1 234",
        "1\u00a0234",
        "1\u2009234",
        "1{,}234",
        r"1\,234",
        r"1,\!234",
        "1234.",
        "1234.0",
        "1234.000",
        "$1234$",
        "$$1234$$",
        r"\(1,234\)",
        r"\[1234\]",
        "$1,234",
        r"\$1,234",
        r"$\$1{,}234$",
    ],
)
def test_spellings_of_an_integer(text: str) -> None:
    assert integer_of(text) == "1234"
    assert same_answer(text, "1234")
    assert same_answer("1234", text)


@pytest.mark.parametrize(
    "text",
    [
        "", "-", "1,23", "12,34", "1,2345", "1,234 567", "1,,234", "1.5", "1.01", "12 34", "1,234,", "--5", "5-3",
        "5=5", "5 apples", r"\text{5}", "1e3", "0x10", "five", "5%", "٣", "²", "7, 8", "$", "$$", "5!",
        "__import__('os')",
    ],
)  # fmt: skip
def test_not_an_integer(text: str) -> None:
    assert integer_of(text) is None


@pytest.mark.parametrize(
    ("text", "integer"),
    [
        ("-5", "-5"),
        ("\u22125", "-5"),
        ("- 5", "-5"),
        ("-0", "0"),
        ("000", "0"),
        ("-007", "-7"),
        ("9007199254740993", "9007199254740993"),
    ],
)
def test_signs_and_zeros(text: str, integer: str) -> None:
    assert integer_of(text) == integer


def test_integers_are_exact() -> None:
    assert not same_answer("9007199254740993", "9007199254740992"), "equal as floats"
    assert not same_answer("1000000008", "1000000007"), "equal to a relative 1e-8"
    assert same_answer("9" * 5000, "9" * 5000), "int() refuses so many digits"
    assert not same_answer("5", "-5")


def test_anything_else_is_compared_as_text() -> None:
    assert same_answer(r"\frac{1} {2}", r"\frac{1}{2}")
    assert same_answer("$\\left( 3, \\frac{\\pi}{2} \\right)$", r"\left(3,\frac{\pi}{2}\right)")
    assert same_answer(r"\pi  x", "\\pi\nx")
    assert not same_answer(r"\pix", r"\pi x")
    assert not same_answer("12", "1 2"), "a list or a mixed number, whatever it is, is not 12"
    assert not same_answer("0.5", r"\frac{1}{2}")
    assert not same_answer("1/2", r"\frac{1}{2}")


def test_a_solution_as_reference_answer_means_its_box() -> None:
    assert score(r"\boxed{24}", r"Then $x - 17 = 7$, so $\boxed{24}$.") == 1.0
    assert score(r"\boxed{17}", r"Then $x - 17 = 7$, so $\boxed{24}$.") == 0.0


def test_an_unusable_reference_answer_is_an_error_and_never_a_zero() -> None:
    for gold, mode in (("", "boxed"), (" ", "boxed"), (r"\boxed{}", "boxed"), (r"\frac{1}{2}", "last_number")):
        result = score_answer(Response((), r"\boxed{1}"), gold, "boxed" if mode == "boxed" else "last_number")
        assert result.status == "error"
        assert math.isnan(result.value)
        assert "reference answer" in result.detail
    assert gold_fault("1/2", "last_number") == ""
    assert gold_fault("1 234", "last_number") == ""
    assert gold_fault(r"\frac{1}{2}", "boxed") == ""
    assert "rewards.answer=last_number" in gold_fault("x+1", "last_number")


# Hostile text


HOSTILE = {
    "digits": r"\boxed{" + "7" * 100_000 + "}",
    "digits without a box": "7" * 100_000,
    "unclosed boxes": r"\boxed{" * 30_000,
    "closed boxes": r"\boxed{" * 20_000 + "}" * 20_000,
    "boxes and spaces": (r"\boxed" + " " * 50) * 4_000,
    "closers": "}" * 200_000,
    "backslashes": "\\" * 200_001,
    "think": "<think>" * 30_000,
    "half tags": "<think" * 30_000,
    "groups": r"\boxed{" + "1" + ",234" * 50_000 + "5}",
    "minus": "-" * 200_000,
    "dots": "." * 200_000,
    "spaces": r"\boxed{" + " " * 200_000 + "7 }",
    "words and digits": "a1" * 100_000,
    "bars": "<|" * 100_000,
    "exponents": "1e" * 100_000,
    "slashes": "1/" * 100_000,
}


@pytest.mark.parametrize("mode", ["boxed", "last_number"])
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_text_is_wrong_and_not_slow(text: str, mode: AnswerMode) -> None:
    started = time.process_time()
    assert score(text, "12", mode) == 0.0
    assert score(text, r"\frac{1}{2}", "boxed") == 0.0
    score_think_text(Response((), text))
    assert time.process_time() - started < 1.0


PIECES = [
    "<think>", "</think>", r"\boxed{", "}", "{", "\\", "12", "1,234", "-", ",", ".", " ", "\n", "$", "x", "#", "é", "/",
    "e", "\u2212",
]  # fmt: skip


@given(
    text=st.lists(st.sampled_from(PIECES), max_size=40).map("".join) | st.text(max_size=200),
    gold=st.text(min_size=1, max_size=20),
    opened=st.booleans(),
    truncated=st.booleans(),
    mode=st.sampled_from(["boxed", "last_number"]),
)
def test_no_text_raises(text: str, gold: str, opened: bool, truncated: bool, mode: AnswerMode) -> None:
    result = score_answer(Response((), text, truncated, opened), gold, mode)
    assert result.status == "error" or result.value in (0.0, 1.0)
    assert (result.status == "error") == math.isnan(result.value)
    assert result.status != "no_answer" or result.value == 0.0


@given(value=st.integers(), filler=st.text(st.characters(exclude_characters="<"), max_size=50))
def test_every_integer_is_found_again(value: int, filler: str) -> None:
    assert score(f"{filler} \\boxed{{{value:,}}}", str(value)) == 1.0 or filler.endswith("\\")
    assert score(f"{filler} {value}", str(value), "last_number") == 1.0
    assert score(f"{filler} {value + 1}", str(value), "last_number") == 0.0


@needs_shared
@pytest.mark.parametrize("name", ["gsm8k/train.jsonl", "gsm8k/test.jsonl", "math/math500_test.json"])
def test_every_reference_answer_accepts_itself(name: str) -> None:
    for problem in read_problems(SHARED / "data" / name).problems:
        assert score(rf"Thus \boxed{{{problem.answer}}}.", problem.answer) == 1.0
        if not gold_fault(problem.answer, "last_number"):
            assert score(f"Thus it is {problem.answer}.", problem.answer, "last_number") == 1.0


@needs_shared
def test_no_wrong_answer_of_the_grader_cases_is_paid() -> None:
    cases = [json.loads(line) for line in (SHARED / "grader_cases.jsonl").read_text().splitlines()]
    paid = [case["id"] for case in cases if not case["expected"] and score(case["response"], case["gold"]) != 0.0]
    assert paid == []
    assert len(cases) > 150


# The format

OPEN, CLOSE, END = 1, 2, 3
VOCABULARY = {
    OPEN: "<think>",
    CLOSE: "</think>",
    END: "<|im_end|>",
    4: " ",
    5: "\n",
    6: "a",
    7: " 7",
    8: "<",
    9: "think",
    10: "</",
}


@dataclass(frozen=True)
class ToyDecoder:
    """Joins the tokens of VOCABULARY."""

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool) -> str:
        return "".join(VOCABULARY[i] for i in token_ids if not (skip_special_tokens and i in (OPEN, CLOSE, END)))


def response_of(ids: list[int], opened: bool = False) -> Response:
    return Response(tuple(ids), ToyDecoder().decode(ids, skip_special_tokens=False), opened=opened)


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
        ([OPEN, CLOSE, 7], False, "nothing between"),
        ([OPEN, 4, 5, CLOSE, 7], False, "nothing between"),
        ([CLOSE, 7], True, "nothing between"),
        ([OPEN, END, CLOSE, 7], False, "nothing between"),
        ([OPEN, 6, CLOSE], False, "no answer"),
        ([OPEN, 6, CLOSE, 5], False, "no answer"),
        ([OPEN, 6, CLOSE, END], False, "no answer"),
        ([6, OPEN, 6, CLOSE, 7], False, "text before <think>"),
        ([CLOSE, 6, OPEN, 7], False, "</think> before <think>"),
        ([OPEN, 6, CLOSE, OPEN, 6, CLOSE, 7], False, "2 times <think>"),
        ([OPEN, OPEN, 6, CLOSE, 7], False, "2 times <think>"),
        ([OPEN, 6, CLOSE, CLOSE, 7], False, "2 times </think>"),
        ([6, CLOSE, 7, CLOSE, 7], True, "2 times </think>"),
    ],
)
def test_format(ids: list[int], opened: bool, fault: str) -> None:
    response = response_of(ids, opened)
    for result in (score_think_ids(response, OPEN, CLOSE, ToyDecoder()), score_think_text(response)):
        assert (result.value, result.status) == (0.0 if fault else 1.0, "scored")
        assert fault in result.detail
        assert bool(result.detail) == bool(fault)


@given(ids=st.lists(st.sampled_from([OPEN, CLOSE, END, 4, 5, 6, 7]), max_size=12), opened=st.booleans())
def test_ids_and_text_agree(ids: list[int], opened: bool) -> None:
    response = response_of(ids, opened)
    assert score_think_ids(response, OPEN, CLOSE, ToyDecoder()) == score_think_text(response)


def test_a_tag_spelled_out_is_only_seen_in_the_text() -> None:
    response = response_of([OPEN, 6, CLOSE, 8, 9, 7])
    assert score_think_ids(response, OPEN, CLOSE, ToyDecoder()).value == 1.0
    spelled = Response((), "<think>a</think>7</think>")
    assert score_think_text(spelled).value == 0.0


# The total


@pytest.mark.parametrize(
    ("format_when", "totals"),
    [("always", [1.25, 1.0, 0.25, 0.0]), ("correct", [1.25, 1.0, 0.0, 0.0])],
)
def test_combine(format_when: Literal["always", "correct"], totals: list[float]) -> None:
    rewards_BK = np.array([[1.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    options = RewardOptions(format_weight=0.25, format_when=format_when)
    totals_B = combine(rewards_BK, options)
    assert totals_B.dtype == np.float64
    assert totals_B.tolist() == totals
    paid_BK = payments(rewards_BK, options)
    assert paid_BK[:, 0].tolist() == [1.0, 1.0, 0.0, 0.0]
    assert paid_BK[:, 1].tolist() == [totals[0] - 1.0, 0.0, totals[2], 0.0]
    assert rewards_BK[2, 1] == 1.0, "the components stay as they were judged"


def test_the_length_penalty_has_weight_one() -> None:
    rewards_BK = np.array([[1.0, 1.0, -0.25], [0.0, 0.0, -1.0]])
    options = RewardOptions(correctness_weight=2.0, format_weight=0.5)
    assert payments(rewards_BK, options).tolist() == [[2.0, 0.5, -0.25], [0.0, 0.0, -1.0]]
    assert combine(rewards_BK, options).tolist() == [2.25, -1.0]


def test_equal_rewards_have_equal_totals_to_the_last_bit() -> None:
    options = RewardOptions(correctness_weight=0.1, format_weight=0.7)
    totals_B = combine(np.array([[1.0, 1.0, 0.0]] * 64, dtype=np.float32).astype(np.float64), options)
    assert totals_B.max() == totals_B.min() == 0.1 + 0.7


def test_an_error_is_never_a_zero_in_the_total() -> None:
    rewards_BK = np.array([[math.nan, 1.0, 0.0], [1.0, math.nan, 0.0], [1.0, 1.0, 0.0]])
    for options in (RewardOptions(), RewardOptions(format_weight=0.5, format_when="correct")):
        assert np.isnan(combine(rewards_BK, options)).tolist() == [True, True, False]


def test_the_shape_is_checked() -> None:
    with pytest.raises(ValueError, match="correctness, format, overlong"):
        combine(np.ones((3, 2)), RewardOptions())
