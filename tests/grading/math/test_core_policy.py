"""Every option of the policy changes a verdict, and says nothing elsewhere."""

import sys
import threading
from fractions import Fraction
from subprocess import run
from typing import Any

import pytest

from groupwise.grading.math.bounds import Budget, OutOfBoundsError
from groupwise.grading.math.exact import PRIME, exact, modular
from groupwise.grading.math.extract import extract
from groupwise.grading.math.math_grader import gold_error, grade, same_answer
from groupwise.grading.math.math_options import MathOptions
from groupwise.grading.math.parser import parse
from groupwise.grading.records import Response


@pytest.mark.parametrize(
    ("option", "answer", "gold", "by_default"),
    [
        ({"percent": "strict"}, "0.5", r"50\%", "correct"),
        ({"percent": "strict"}, "50", r"50\%", "correct"),
        ({"units": "strict"}, r"12\text{ cm}", "12", "correct"),
        ({"units": "strict"}, "12", r"12\text{ cm}", "correct"),
        ({"relative_tolerance": 0.01}, "3.15", r"\pi", "wrong"),
        ({"relative_tolerance": 0.01}, "100.5", "100", "wrong"),
        ({"correct_digits": 0}, "0.333333", r"\frac{1}{3}", "correct"),
        ({"correct_digits": 3}, "0.333", r"\frac{1}{3}", "wrong"),
        ({"unreduced": "wrong"}, r"\frac{2}{4}", r"\frac{1}{2}", "correct"),
        ({"order": "strict"}, "3, 1", "1, 3", "correct"),
        ({"order": "ignore"}, "(3, 1)", "(1, 3)", "wrong"),
        ({"inequality": "equal"}, "x<3", r"(-\infty,3)", "wrong"),
        ({"inequality": "strict"}, r"(-\infty,3)", "x<3", "correct"),
    ],
)
def test_an_option_turns_the_verdict(option: dict[str, Any], answer: str, gold: str, by_default: str) -> None:
    assert same_answer(answer, gold).status == by_default
    turned = same_answer(answer, gold, MathOptions.model_validate(option)).status
    assert turned == ("wrong" if by_default == "correct" else "correct")


@pytest.mark.parametrize(
    ("mode", "answer"),
    [("marked", "4"), ("boxed", "1"), ("gsm8k", "2"), ("answer_tag", "4"), ("last_number", "9"), ("lenient", "4")],
)
def test_where_the_answer_stands(mode: Any, answer: str) -> None:
    text = "so \\boxed{1}\n#### 2\nThe answer is 3.\n<answer>4</answer> of 9"
    assert extract(Response((), text), mode).answer == answer


@pytest.mark.parametrize(
    ("answer", "gold", "method"),
    [
        ("12", "12", "integer"),
        ("1.50", "1.5", "decimal"),
        ("3/4", "0.75", "rational"),
        ("0.333333", "1/3", "rounded"),
        (r"\sqrt{8}", r"2\sqrt{2}", "real"),
        (r"e^{i\pi}", "-1", "real"),
        (r"e^{i\pi/2}", "i", "complex"),
        (r"\pi\cdot 2", r"2\pi", "closed_form"),
        ("(x+1)^2", "x^2+2x+1", "polynomial"),
        (r"\sin 2x", r"2\sin x\cos x", "expression"),
        ("(1, 2)", r"(1,\frac{4}{2})", "tuple"),
        ("2, 1", "1, 2", "list"),
        (r"\{2, 1\}", r"\{1, 2\}", "set"),
        ("2y = 2x", "y = x", "equation"),
        ("Paris", r"\text{paris}", "text"),
    ],
)
def test_the_method_says_how(answer: str, gold: str, method: str) -> None:
    judged = same_answer(answer, gold)
    assert (judged.status, judged.method) == ("correct", method)


def test_values_beyond_the_bounds_are_undecided_and_the_same_text_is_correct() -> None:
    assert same_answer("10^{10^{10}}", "7").status == "undecided"
    assert same_answer("10^{10^{10}}", "10^{10^{10}}").status == "correct"
    assert same_answer(r"\frac{", r"\frac{1}{2}").status == "wrong", "what cannot be read is wrong, not undecided"
    with pytest.raises(OutOfBoundsError):
        exact(parse("2^{40000}"), Budget())


def test_exact_arithmetic() -> None:
    assert exact(parse(r"\frac{1}{3}+2^{-2}"), Budget()) == Fraction(7, 12)
    assert exact(parse(r"\binom{5}{2} + 4!! - \sqrt{16}"), Budget()) == 10 + 8 - 4
    assert exact(parse("x"), Budget()) is None
    assert modular(parse("i^2"), 0, Budget()) == PRIME - 1
    assert modular(parse(r"\frac{1}{3}"), 0, Budget()) == pow(3, -1, PRIME)


def test_a_heading_beside_a_box_is_no_mark() -> None:
    assert grade("\\boxed{7}\n#### 3. Check of the result", "7").status == "correct"
    assert grade("\\boxed{7}\n#### 8", "8").status == "correct"
    assert grade("#### 8. This follows from the sum above.", "8").status == "correct"


def test_a_choice_among_values_is_flagged() -> None:
    assert grade(r"\boxed{\max(5,6,7)}", "7").flags == ("unevaluated",)
    assert grade(r"\boxed{5} no, \boxed{7}", "7").flags == ("multiple_boxes",)


def test_a_reference_answer_is_usable_if_it_can_be_matched() -> None:
    assert "empty" in gold_error("$ $", MathOptions())
    assert gold_error(r"\undefined{thing}", MathOptions()) == ""
    assert grade(r"\boxed{\undefined{thing}}", r"\undefined{thing}").status == "correct"
    assert grade(r"\boxed{5}", " ").status == "gold_bad"


def test_threads_keep_their_precision_apart() -> None:
    wrong: list[str] = []

    def work(n: int) -> None:
        wrong.extend(
            f"{i} {n}"
            for i in range(2, 30)
            if same_answer(rf"\sqrt{{{i * n * n}}}", rf"{n}\sqrt{{{i}}}").status != "correct"
        )

    threads = [threading.Thread(target=work, args=(n,)) for n in (3, 5, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_the_grader_imports_nothing_heavy() -> None:
    code = (
        "import sys, groupwise.grading.math.math_grader as g;"
        "print([m for m in ('torch', 'transformers', 'sympy', 'numpy', 'math_verify') if m in sys.modules])"
    )
    done = run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
