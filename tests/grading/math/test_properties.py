"""Properties: spellings of one value are equal, neighbours are not, and no text can break or stall the grader."""

import re
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groupwise.grading.math.math_grader import gold_error, grade
from groupwise.grading.math.math_options import MathOptions
from groupwise.grading.records import Response
from tests.grading.math.spellings import Spelled, every_form
from tests.grading.math.timing import cpu_milliseconds

MOST_MILLISECONDS = 50.0
MARKS = (r"\boxed{", "<think>", "</think>", "<answer>", "</answer>", "####", "\\", r"\text{")
TOKENS = (
    *"0123456789+-*/^_(){}[]|,.;:=<>!%$&~ abcxyzei",
    *(
        r"\frac{",
        "}{",
        r"\frac",
        r"\sqrt{",
        r"\sqrt[3]{",
        r"\left(",
        r"\right)",
        r"\pm",
        r"\cup",
        r"\cap",
        r"\{",
        r"\}",
    ),
    *(r"\pi", r"\infty", r"\cdot", r"\times", r"\binom{", r"\log_", r"\ln", r"\sin", r"^\circ", r"\le", r"\ne", r"\%"),
    *(r"\begin{pmatrix}", r"\end{pmatrix}", r"\\", r"\sum_{k=1}^{", r"\overline{", r"\emptyset", r"\mathbb{R}", r"\in"),
    *("½", "√", "−", "π", "²", "٣", "\u200b", "\x00", "\ud800", "𝟙", " cm", " or ", "and", "''", r"\$", "1,234"),
    *(r"\setminus", "!!", "e9", "_{2}"),
)
texts = st.lists(st.sampled_from((*TOKENS, *MARKS)), max_size=60).map("".join)
expressions = st.lists(st.sampled_from(TOKENS), min_size=1, max_size=25).map(lambda parts: balanced("".join(parts)))
UNRELATED = "918273645546372819"
BOXED = MathOptions(answer="boxed")


def boxed(answer: str) -> str:
    return rf"So it is $\boxed{{{answer}}}$."


def balanced(text: str) -> str:
    """The text with the braces added that it lacks, so that a box around it ends where it should."""
    open_braces = missing = 0
    for token in re.findall(r"\\.|[{}]", text, re.DOTALL):
        if token == "{":
            open_braces += 1
        elif token == "}" and open_braces:
            open_braces -= 1
        elif token == "}":
            missing += 1
    return "{" * missing + text + "}" * open_braces


@given(every_form())
@settings(max_examples=600, deadline=None)
def test_spellings_of_one_value_are_equal(value: Spelled) -> None:
    assert gold_error(value.other, BOXED) == ""
    for answer, gold in ((value.one, value.other), (value.other, value.one), (value.one, value.one)):
        assert grade(boxed(answer), gold).status == "correct", (answer, gold)


@given(every_form())
@settings(max_examples=600, deadline=None)
def test_another_value_is_wrong(value: Spelled) -> None:
    for answer, gold in ((value.wrong, value.other), (value.one, value.wrong)):
        assert grade(boxed(answer), gold).status == "wrong", (answer, gold)


@pytest.mark.parametrize("mode", ["marked", "boxed", "gsm8k", "answer_tag", "last_number", "lenient"])
@given(text=texts, opened=st.booleans(), truncated=st.booleans())
@settings(max_examples=150, deadline=None)
def test_no_text_earns_an_unrelated_number(mode: str, text: str, opened: bool, truncated: bool) -> None:
    policy = MathOptions.model_validate({"answer": mode})
    for written in (text, boxed(text), f"#### {text}", f"<answer>{text}</answer>", f"The answer is {text}"):
        response = Response((), written, truncated, opened)
        took = cpu_milliseconds(partial(grade, response, UNRELATED, policy), MOST_MILLISECONDS)
        assert took < MOST_MILLISECONDS
        assert grade(response, UNRELATED, policy).status in ("wrong", "no_answer", "undecided")


@given(text=expressions)
@settings(max_examples=600, deadline=None)
def test_a_reference_that_is_not_refused_accepts_itself(text: str) -> None:
    fault = gold_error(text, BOXED)
    verdict = grade(boxed(text), text, BOXED)
    assert verdict.status == ("gold_bad" if fault else "correct"), (text, fault, verdict)


@given(text=texts, gold=texts | expressions)
@settings(max_examples=400, deadline=None)
def test_any_pair_has_a_verdict(text: str, gold: str) -> None:
    verdict = grade(boxed(text), gold, BOXED)
    assert (verdict.status == "gold_bad") == bool(gold_error(gold, BOXED))
    assert (verdict.score == 1.0) == (verdict.status == "correct")
    assert verdict.milliseconds >= 0.0


@given(value=every_form())
@settings(max_examples=100, deadline=None)
def test_the_same_pair_has_the_same_verdict_again(value: Spelled) -> None:
    first, again = (grade(boxed(value.one), value.wrong) for _ in range(2))
    assert (first.status, first.method, first.detail) == (again.status, again.method, again.detail)
