"""A question that is copied into the box is no answer to it, where the policy says so."""

import pytest

from groupwise.grading.math.math_grader import grade
from groupwise.grading.math.math_options import MathOptions

STRICT = MathOptions(unevaluated="wrong")


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        ("3+4", "7"), ("10 - 3", "7"), (r"2 \cdot 6", "12"), ("2*6", "12"), ("2 × 6", "12"), ("2^{10}", "1024"),
        (r"\sqrt{16}", "4"), ("3!", "6"), (r"\binom{5}{2}", "10"), ("39 - 3 - 18", "18"), ("-(3+4)", "-7"),
        (r"\frac{3+4}{2}", r"\frac{7}{2}"), ("3 + 1/2", "3.5"), (r"\max(5,7)", "7"), (r"x = 3+4", "7"),
        ("3, 2+2", "3, 4"), ("1+2 \\text{ cm}", "3"), ("3 \\cdot 2^{3}", "24"), ("7 + 0", "7"), ("7 \\cdot 1", "7"),
    ],
)  # fmt: skip
def test_a_computation_is_no_number(answer: str, gold: str) -> None:
    verdict = grade(rf"\boxed{{{answer}}}", gold, STRICT)
    assert (verdict.status, verdict.method) == ("wrong", "unevaluated")
    assert grade(rf"\boxed{{{answer}}}", gold).status == "correct"


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        ("7", "7"), ("7.0", "7"), ("+7", "7"), ("-7", "-7"), (r"\frac{7}{2}", "3.5"), ("7/2", r"\frac{7}{2}"),
        (r"3\frac{1}{2}", "3.5"), ("3 1/2", "3.5"), (r"1.2 \times 10^{3}", "1200"), ("1.2e3", "1200"),
        ("10^6", "1000000"),
        (r"50\%", "0.5"), (r"7 \text{ cm}", "7"), ("x = 7", "7"), ("39 - 3 - 18 = 18", "18"), (r"\$1,234", "1234"),
        ("52_8", "52_8"), (r"7^\circ", "7"), ("3, 4", "3, 4"), (r"5 \cdot 10^{-3}", "0.005"), ("((7))", "7"),
        # The reference answer is itself no plain number.
        ("3+4x", "4x+3"), (r"2\sqrt{3}", r"\sqrt{12}"), ("2^{10}", "2^{10}"), (r"\pi", r"\pi"), ("x+1", "1+x"),
    ],
)  # fmt: skip
def test_a_written_number_is_judged_as_ever(answer: str, gold: str) -> None:
    assert grade(rf"\boxed{{{answer}}}", gold, STRICT).status == "correct"


def test_fractions_are_a_matter_of_their_own_option() -> None:
    assert grade(r"\boxed{14/2}", "7", STRICT).status == "correct"
    both = MathOptions(unevaluated="wrong", unreduced="wrong")
    assert grade(r"\boxed{14/2}", "7", both).status == "wrong"
    assert grade(r"\boxed{56 \div 8}", "7", both).status == "wrong"
    assert grade(r"\boxed{7/2}", "7/2", both).status == "correct"
