"""The question is no answer to itself, and what only looks like it is judged as ever."""

import json
import re
from pathlib import Path

import pytest

from groupwise.grading.math.math_grader import grade
from groupwise.grading.math.math_options import MathOptions

MATH_500 = Path(__file__).parents[4] / "shared" / "data" / "math" / "math500_test.json"
FORMULA = re.compile(r"\$\$(.+?)\$\$|(?<![\\$])\$([^$]+)\$|\\\((.+?)\\\)|\\\[(.+?)\\\]", re.DOTALL)

COPIED = [
    ("What is 3 + 4?", "3+4", "7"),
    ("What is 3 + 4?", "4+3", "7"),
    ("What is 3 + 4?", "(3)+(4)+0", "7"),
    (r"Compute $\dbinom{31}{28}$.", r"\dbinom{31}{28}", "4495"),
    (r"Compute $\dbinom{31}{28}$.", r"\binom{31}{28} \cdot 1", "4495"),
    (r"Let $441+2(21)(19)+361=x$. Solve for $x$.", "441+2(21)(19)+361", "1600"),
    (r"Let $441+2(21)(19)+361=x$. Solve for $x$.", "x=441+2(21)(19)+361", "1600"),
    (r"Simplify $\frac{\sec x}{\sin x} - \frac{\sin x}{\cos x}.$",
     r"\frac{\sec x}{\sin x}-\frac{\sin x}{\cos x}", r"\cot x"),
    ("Write 0.5 as a fraction.", "0.5", r"\frac12"),
    ("Convert 3 km to meters.", "3 km", r"3000\text{ m}"),
    (r"Simplify $\frac{24}{36}$.", r"\frac{24}{36}", r"\frac23"),
    (r"Factor $x^2-9$.", "x^2-9", "(x-3)(x+3)"),
    (r"Expand $(x-3)(x+3)$.", "(x+3)(x-3)", "x^2-9"),
    (r"Express $0.\overline{5}$ as a common fraction.", r"0.\overline{5}", r"\frac59"),
    (r"Write $4x+2y=8$ as $y=mx+b$.", "4x+2y=8", "y=-2x+4"),
    (r"Convert $50\%$ to a fraction.", r"50\%", r"\frac12"),
    (r"Evaluate $\lfloor 3.7\rfloor + |{-2}|$.", r"\lfloor 3.7\rfloor+|{-2}|", "5"),
    (r"Find $\cos 60^\circ$.", r"\cos 60^\circ", r"\frac12"),
    (r"Rationalize $\frac{1}{\sqrt2}$.", r"\frac{1}{\sqrt{2}}", r"\frac{\sqrt2}{2}"),
]  # fmt: skip

NOT_COPIED = [
    ("What is 3 + 4?", "7", "7"),
    ("What is 3 + 4?", "3+4=7", "7"),
    (r"Is $\frac12$ or $\frac13$ larger?", r"\frac12", "0.5"),
    (r"Which is larger, $\sqrt{53}$ or 7?", r"\sqrt{53}", r"\sqrt{53}"),
    (r"A coin shows heads with probability 0.5. What are the odds of tails?", "0.5", r"\frac12"),
    (r"Solve $x^2=9$ for positive $x$.", "x=3", "3"),
    (r"Factor $x^2-9$.", "(x+3)(x-3)", "(x-3)(x+3)"),
    (r"Simplify $\frac{24}{36}$.", r"\frac23", r"\frac23"),
    (r"Compute $\dbinom{31}{28}$.", r"\frac{31\cdot 30\cdot 29}{6}", "4495"),
    ("How many ways are there to choose 3 of 10?", r"\binom{10}{3}", "120"),
    (r"Let $a = 5$ km. How long is $a$?", r"5\text{ km}", "5"),
    (r"Let $f(x)=x+1$. Find $f(x)$.", "x+1", "x+1"),
    (r"Write the set of $x$ in order: $\{3,1,2\}$.", r"\{1,2,3\}", r"\{1,2,3\}"),
    (r"What is $2^{10}$?", "1024", "2^{10}"),
    ("Of 100 people 50 came. Express this as a percentage.", "50", r"50\%"),
]


@pytest.mark.parametrize(("question", "answer", "gold"), COPIED)
def test_an_expression_of_the_question_is_no_answer(question: str, answer: str, gold: str) -> None:
    verdict = grade(rf"\boxed{{{answer}}}", gold, question=question)
    assert (verdict.status, verdict.method) == ("wrong", "copied")
    lenient = MathOptions(unevaluated="equal", unreduced="equal")
    assert grade(rf"\boxed{{{answer}}}", gold, lenient, question).status == "correct"
    assert grade(rf"\boxed{{{answer}}}", gold).status == "correct", "without the question nobody can tell"


@pytest.mark.parametrize(("question", "answer", "gold"), NOT_COPIED)
def test_an_answer_is_judged_as_without_the_question(question: str, answer: str, gold: str) -> None:
    assert grade(rf"\boxed{{{answer}}}", gold, question=question).status == "correct"


def test_the_two_options_are_of_numbers_as_written_and_of_the_rest() -> None:
    fraction, total = r"Simplify $\frac{24}{36}$.", "What is 3 + 4?"
    assert grade(r"\boxed{\frac{24}{36}}", r"\frac23", MathOptions(unreduced="equal"), fraction).status == "correct"
    assert grade(r"\boxed{\frac{24}{36}}", r"\frac23", MathOptions(unevaluated="equal"), fraction).status == "wrong"
    assert grade(r"\boxed{3+4}", "7", MathOptions(unevaluated="equal"), total).status == "correct"
    assert grade(r"\boxed{3+4}", "7", MathOptions(unreduced="equal"), total).status == "wrong"


@pytest.mark.skipif(not MATH_500.exists(), reason="needs MATH-500")
def test_no_question_of_math_500_answers_itself() -> None:
    accepted = []
    for row in json.loads(MATH_500.read_text(encoding="utf-8")):
        question, gold = row["problem"], row["answer"]
        assert grade(rf"\boxed{{{gold}}}", gold, question=question).status == "correct"
        spans = [next(filter(None, match.groups())) for match in FORMULA.finditer(question)]
        for answer in {*spans, question, ", ".join(spans)}:
            responses = (rf"\boxed{{{answer}}}", f"The answer is: ${answer}$") if answer.strip() else ()
            verdicts = [grade(response, gold, question=question).status for response in responses]
            accepted += [(answer, gold)] * verdicts.count("correct")
    # What is left are reference answers that the question names, and a statement of one.
    assert [pair for pair in accepted if pair[0].split("=")[-1].strip(" .") != pair[1].strip()] == []
