"""Where the answer stands, and that no text of a model makes the grader slow, raise, or pay."""

import math
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groupwise.grading.math.extract import extract
from groupwise.grading.math.math_grader import gold_error, grade
from groupwise.grading.math.math_options import AnswerMode, MathOptions
from groupwise.grading.records import Response, Verdict


def verdict(text: str, gold: str, mode: AnswerMode = "boxed", opened: bool = False, truncated: bool = False) -> Verdict:
    return grade(Response((), text, truncated, opened), gold, MathOptions(answer=mode))


def extracted(text: str, mode: AnswerMode = "boxed", opened: bool = False, truncated: bool = False) -> str:
    return extract(Response((), text, truncated, opened), mode).answer


@pytest.mark.parametrize(
    ("text", "opened", "status", "value"),
    [
        (r"\boxed{7}", False, "correct", 1.0),
        (r"<think>2+5</think>\boxed{7}", False, "correct", 1.0),
        (r"2+5</think>\boxed{7}", True, "correct", 1.0),
        (r"2+5</think>\boxed{7}", False, "correct", 1.0),
        (r"<think>a</think><think>b</think>\boxed{7}", False, "correct", 1.0),
        (r"<think>\boxed{7}</think>", False, "no_answer", 0.0),
        (r"<think>\boxed{7}</think> It is seven.", False, "no_answer", 0.0),
        (r"\boxed{7}</think>", True, "no_answer", 0.0),
        (r"<think>\boxed{7}", False, "no_answer", 0.0),
        (r"\boxed{7}", True, "no_answer", 0.0),
        (r"\boxed{7}<think>hm", False, "no_answer", 0.0),
        (r"<think>\boxed{7}</think>\boxed{8}", False, "wrong", 0.0),
        (r"</think><think></think>\boxed{7}", False, "correct", 1.0),
        (r"\boxed{}", False, "no_answer", 0.0),
        (r"\boxed{ }", False, "no_answer", 0.0),
        ("", False, "no_answer", 0.0),
        ("7", False, "no_answer", 0.0),
    ],
)
def test_only_what_stands_after_the_reasoning_counts(text: str, opened: bool, status: str, value: float) -> None:
    result = verdict(text, "7", opened=opened)
    assert (result.status, result.score) == (status, value)
    assert result.method or result.detail, "every outcome says why"


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
        (r"\boxed 5", "5"),
        (r"\\boxed{5}", None),
        (r"boxed{5}", None),
        (r"\boxed", None),
        ("\\", None),
    ],
)
def test_last_boxed(text: str, content: str | None) -> None:
    assert extracted(text) == (content or "")


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
    assert verdict("It is 12", "12", "last_number").score == 1.0
    result = verdict("It is 12", "12", "last_number", truncated=True)
    assert (result.score, result.status) == (0.0, "no_answer")
    assert "cut off" in result.detail
    assert extracted("It is 12.", "last_number", truncated=True) == "", "12.5 may have followed"
    assert extracted("It is 12 ap", "last_number", truncated=True) == "12"
    assert extracted(r"\boxed{12} and", truncated=True) == "12", "a closed box is whole"


def test_integers_are_exact() -> None:
    assert verdict(r"\boxed{9007199254740993}", "9007199254740992").status == "wrong", "equal as floats"
    assert verdict(r"\boxed{1000000008}", "1000000007").status == "wrong", "equal to a relative 1e-8"
    assert verdict(r"\boxed{" + "9" * 5000 + "}", "9" * 5000).status == "correct", "int() refuses so many digits"
    assert verdict(r"\boxed{5}", "-5").status == "wrong"


@pytest.mark.parametrize(
    ("gold", "mode"), [("", "boxed"), (" ", "boxed"), (r"\boxed{}", "boxed"), ("x+1", "last_number")]
)
def test_an_unusable_reference_answer_says_so_and_pays_nothing(gold: str, mode: Any) -> None:
    result = verdict(r"\boxed{1}", gold, mode)
    assert result.status == "gold_bad"
    assert math.isnan(result.score)
    assert gold_error(gold, MathOptions(answer=mode))


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


@pytest.mark.parametrize("mode", ["boxed", "last_number", "marked", "lenient"])
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_text_is_wrong_and_not_slow(text: str, mode: AnswerMode) -> None:
    started = time.process_time()
    assert verdict(text, "12", mode).score == 0.0
    assert verdict(text, r"\frac{1}{2}").score == 0.0
    assert time.process_time() - started < 1.0


PIECES = [
    "<think>", "</think>", r"\boxed{", "}", "{", "\\", "12", "1,234", "-", ",", ".", " ", "\n", "$", "x", "#", "é", "/",
    "e", "\u2212", "####", "<answer>", "</answer>",
]  # fmt: skip


@given(
    text=st.lists(st.sampled_from(PIECES), max_size=40).map("".join) | st.text(max_size=200),
    gold=st.text(min_size=1, max_size=20),
    opened=st.booleans(),
    truncated=st.booleans(),
    mode=st.sampled_from(["boxed", "gsm8k", "answer_tag", "marked", "last_number", "lenient"]),
)
@settings(deadline=None)
def test_no_text_raises(text: str, gold: str, opened: bool, truncated: bool, mode: AnswerMode) -> None:
    result = verdict(text, gold, mode, opened, truncated)
    assert result.status != "error"
    assert math.isnan(result.score) == (result.status == "gold_bad")
    assert (result.score == 1.0) == (result.status == "correct")


# Several boxes are a list, so that another one is no filler. Hypothesis draws it from the constants of the source.
FILLER = st.text(st.characters(exclude_characters="<"), max_size=50).filter(lambda text: "boxed" not in text)


@given(value=st.integers(), filler=FILLER)
@settings(deadline=None)
def test_every_integer_is_found_again(value: int, filler: str) -> None:
    assert verdict(f"{filler} \\boxed{{{value:,}}}", str(value)).score == 1.0 or filler.endswith("\\")
    assert verdict(f"{filler} {value}", str(value), "last_number").score == 1.0
    assert verdict(f"{filler} {value + 1}", str(value), "last_number").score == 0.0
