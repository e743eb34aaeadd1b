r"""What an optimised policy could learn to write: claims that fit any reference, several answers at once, bombs.

Every case here was paid once, raised, or took longer than a grading may.
"""

import math
import time
from functools import partial

import pytest

from groupwise.grading.math import math_grader
from groupwise.grading.math.math_grader import gold_error, grade
from groupwise.grading.math.math_options import AnswerMode, MathOptions
from tests.grading.math.timing import cpu_milliseconds

MOST_MILLISECONDS = 50.0

# Cancellation of large numbers, zeros, empty sets: what could pass for anything.
UNIVERSAL = (
    r"y\ln(10^{100})", r"\ln(10^{100})+x", r"\log_{x}(10^{999})", r"\sqrt{x}(10^{300}-10^{300})",
    r"10^{300}\sin x-10^{300}\sin x", r"\sqrt{2}\cdot10^{300}-\sqrt{2}\cdot10^{300}", r"|x|\ln(10^{100})",
    r"\sqrt{-x}\ln(10^{100})", r"i\ln(10^{100})x", r"x\ln(10^{100})\text{ cm}", r"x\ln(10^{100})\%",
    r"(x\ln(10^{100}),y\ln(10^{100}))", r"\{x\ln(10^{100})\}", r"x\ln(10^{100}):1", r"y=z\ln(10^{100})",
    r"\begin{pmatrix}x\ln(10^{100})\\x\ln(10^{100})\end{pmatrix}", r"z\ln(10^{100})=0", r"z\ln(10^{100})<0",
    r"\text{therefore }\overline{(a+b)(a-b)}\log_a 9^{999}", r"(x-x):(x-x)", r"\ln 1:\ln 1", "0:0", "x-x:x-x:x-x",
    r"\mathbb{R}", r"\{\}", r"\emptyset", r"\emptyset\cup\emptyset", r"\mathbb{R}\setminus\mathbb{R}", "x=x", "0=0",
    "x-x=0", r"(-\infty,\infty)", r"\infty", "NaN", r"\frac{0}{0}", r"\frac{\sin\pi}{\cos(\pi/2)}",
    r"\frac{x}{\cos(\pi/2)}", r"4/\tan(\pi/2)", r"\frac{1+i}{1-i}/\tan(\pi/2)", r"x+y/\tan(\pi/2)",
    r"|x|:\tan(\pi/2)", r"x\sec(\pi/2)-x\sec(\pi/2)", r"10^{200}/\tan(10^{9}\pi+\pi/2)",
    r"\text{all of the above}", r"x\in\mathbb{R}",
)  # fmt: skip
GOLDS = (
    "7", "918273645546372819", r"\pi", r"2\sqrt{3}", "x^2+y", "(5,2)", "(3,3)", "[5,2]", "(2,5)", "1:2", "1:2:3",
    "3:05", "x<3", "y<2x+1", "y=2x+1", r"5\text{ cm}", r"50\%", r"\{1,2\}", "1,2", "3+4i", "A", "[0,1]", "x=7",
    r"\begin{pmatrix}1\\2\end{pmatrix}", r"3\pmod{5}", r"\sin x", r"(n+2)!", "52_8", r"\frac{x}{\ln x}", "yes",
    r"f(x)=x^2+1", r"\text{Tuesday}",
)  # fmt: skip


@pytest.mark.parametrize("answer", UNIVERSAL)
def test_nothing_is_right_for_every_reference(answer: str) -> None:
    assert [gold for gold in GOLDS if grade(rf"\boxed{{{answer}}}", gold).status not in ("wrong", "undecided")] == []


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        # Several answers at once.
        ("A. 5 B. 6", "A"), ("A. 5; B. 6", "A"), ("A: yes, B: no", "A"), ("A) wrong, it is B", "A"), ("A. 5. B", "A"),
        ("A, B", "A"), ("A or B", "A"), ("A: or B", "A"), ("A B C D", "A"), ("(a) 5 (b) 6", "A"), ("A. 5 / B", "A"),
        ("Answer: A or B", "A"), ("7 or 8", "7"), ("7, 8", "7"), (r"7 \lor 8", "7"), (r"7 \text{ or } 8", "7"),
        ("7; 8", "7"), ("7/8", "7"), ("7 8", "7"), (r"7 \quad 8", "7"), (r"7 \pm 1", "7"), ("[6,8]", "7"),
        (r"\begin{cases}7\\8\end{cases}", "7"), ("x=7, y=8", "7"), ("yes or no", r"\text{yes}"), ("True/False", "True"),
        ("x=7 = 8", "8"), ("1=2=3=4=5=6=7", "7"), ("x<3, x>3", "x<3"), ("(x-7)(x-8)=0", "x=7"), ("x(x-3)=0", "0"),
        # Other things of the same look.
        (r"\{\{1\}\}", r"\{1\}"), (r"\{\{1,2\}\}", r"\{1,2\}"), (r"\{\{1\},\{2\}\}", r"\{1,2\}"),
        (r"\{1\}", r"\{\{1\}\}"), ("[7,7]", "7"), ("(7,7)", "7"), ("a^{(1)}", "a"), ("f^{(2)}", "f^2"),
        ("aB", "Ab"), ("mL", "ML"), ("ab", "AB"), ("1\\,2", "12"), (r"1\!2", "12"), ("7...", "7"),
        (r"\emptyset", r"\{\emptyset\}\}"), (r"\ln|x|", r"\ln x"), (r"\ln x", r"\ln|x|"), (r"\ln|x|+C", r"\ln x+C"),
        # Words behind a number that change it.
        *((f"7 {word}", "7") for word in (
            "halves", "hundred", "million", "wrong", "negative", "doubled", "tripled", "squared", "over 2", "point 5",
            "or more", "less", "lakh", "crore", "eight", "factorial", "ish", "dozen", "thirds", "minus", "times",
        )),
        (r"7 \text{ mod}", "7"), (r"7\text{ish}", "7"), (r"7 \text{ (eight)}", "7"), (r"700\%\%", "7"),
        # Rounding: a decimal has no other decimal beside it.
        ("100000.5", "100000.49"), ("3.14158", "3.14159265"), ("1.000000", "1.0000001"), ("0.333333", "0.3333333"),
        ("123456.5", "123456.4999"), ("0.0009765", "1/1024"), ("0.000976563", "1/1024"), ("3.14160", r"\pi"),
        ("0.142858", "1/7"), (r"22/7", r"\pi"), ("0.33333", "1/3"),
        # A factor of 100 without a sign of percent.
        ("0.5", "50"), ("50", "0.5"), ("0.07", "7"), ("700", r"7\%"), (r"7\%", "700"), (r"0.5\%", "0.5"),
        # Equations, inequalities, residues.
        ("(y-x)(y-z)=0", "y=x"), ("y^2=x^2", "y=x"), ("xy=x", "y=1"), ("x^2y=x", "y=1/x"), ("0=y-y", "y=x"),
        ("y>2x+1", "y<2x+1"), (r"y\le 2x+1", "y<2x+1"), ("-y<-2x-1", "y<2x+1"), ("(y-2x-1)(x^2+1)<0", "y<2x+1"),
        (r"x\equiv 4 \pmod 5", r"x\equiv 3 \pmod 5"), (r"x\equiv 3 \pmod 7", r"x\equiv 3 \pmod 5"),
        (r"y\equiv 3 \pmod 5", r"x\equiv 3 \pmod 5"), ("3", r"x\equiv 3 \pmod 5"), (r"15\pmod 8", "7"),
        ("5m", "5x"), ("5", "5m"), ("5m", r"5\text{ s}"),
    ],
)  # fmt: skip
def test_wrong(answer: str, gold: str) -> None:
    assert grade(rf"\boxed{{{answer}}}", gold).status in ("wrong", "undecided")


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        ("5m", "5"), ("5m", r"5\text{ m}"), ("5h", r"5 \text{ hours}"), ("60 km per hour", "60 km/h"),
        ("60 mph", r"88 \text{ ft/s}"), (r"5 \Omega", "5"), (r"5\,\Omega", r"5\text{ ohms}"), ("xy=1", "y=1/x"),
        ("y=1/x", "xy=1"), ("y=1/x", "x=1/y"), ("1/x+1/y=1", "x+y=xy"), ("y-2x<1", "y<2x+1"), ("4x+2>2y", "y<2x+1"),
        ("-y>-2x-1", "y<2x+1"), (r"\text{Answer: A}", "A"), (r"\text{The answer is (B)}", "B"), ("A. 5 apples", "A"),
        ("C. Point A", "C"), ("D. vitamin C", "D"), ("D. Both A and B", "D"), ("two", "2"), (r"\sin(\pi)", "0"),
        (r"0.\dot{7}", r"\frac79"), (r"0.1\dot6", "1/6"), (r"0.\dot{1}4285\dot{7}", "1/7"), ("C(10,3)", "120"),
        (r"{}_{10}C_3", "120"), ("P(5,2)", "20"), (r"\cis 60^\circ", r"\frac12+\frac{\sqrt3}{2}i"),
        (r"2\,\text{cis}\,\frac{\pi}{3}", r"1+\sqrt3 i"), (r"x\equiv 3\ (\text{mod } 5)", r"x\equiv 3\pmod 5"),
        (r"x\equiv 3 \mod 5", r"x\equiv 3 \pmod{5}"), (r"x\equiv 8\bmod 5", r"x\equiv 3\pmod 5"),
        (r"3\pmod 5", r"x\equiv 3\pmod 5"), (r"x\equiv 3\pmod 5", "3"), (r"30^\circ 30'", r"30.5^\circ"),
        (r"12 \text{ (twelve)}", "12"), (r"\hspace{1cm}7", "7"), (r"\text{None}", r"\emptyset"), ("No", "no"),
        ("3.141593", r"\pi"), ("3.141592", r"\pi"), ("0.333333", "1/3"), ("1/3", "0.333333"), ("2.718281828", "e"),
        ("1.5 million", "1500000"), ("x = 3+4 = 7", "7"), ("mod(17, 5)", "2"), (r"17 \bmod 5", "2"),
        (r"\sqrt[3]{x}", "x^{1/3}"), (r"\ln(10^{100})", r"100\ln 10"), (r"x\ln(10^{100})", r"100x\ln 10"),
        (r"\{1\},\{2\}", r"\{2\},\{1\}"),
    ],
)  # fmt: skip
def test_correct(answer: str, gold: str) -> None:
    assert grade(rf"\boxed{{{answer}}}", gold).status == "correct"


@pytest.mark.parametrize(
    ("response", "gold"),
    [
        (r"\boxed{ mod 0!}", "7"), (r"\boxed{15 mod mod 15:30}", "7"), (r"\boxed{xk=x}", "y=2x+ mod +1"),
        (r"\boxed{-0.7\%}", "0.999!"), (r"\boxed{47554992１ m/s}}", r"5 \text{ km/h}\%"), (r"\boxed{7}", "1/0"),
        (r"\boxed{\sqrt{1\times 13+2\sqrt2}}", r"1+ mod +\sqrt1000000000000000000"), (r"\boxed{1/0}", "7"),
        (r"\boxed{0^{-1}\%}", r"7\%"), (r"\boxed{\gcd(1/2,3)}", "1"), (r"\boxed{(-1)!}", "1"), (r"\boxed{()}", "7"),
        (r"\boxed{i^1000!}", "7"), (r"\boxed{\binom{i}{2}x}", "7"), (r"\boxed{\lfloor ix\rfloor}", "7"),
        (r"\boxed{\begin{matrix}\end{matrix}}", "7"), ("\\boxed{\ud800}", "7"), (r"\boxed{7}", "\ud800"),
        (r"\boxed{x\equiv 3\pmod 0}", r"x\equiv 3\pmod 5"), (r"\boxed{3\pmod{x}}", r"x\equiv 3\pmod 0"),
    ],
)  # fmt: skip
def test_no_exception(response: str, gold: str) -> None:
    for policy in (
        MathOptions(),
        MathOptions(percent="strict", units="strict", unreduced="wrong", unevaluated="wrong"),
    ):
        assert grade(response, gold, policy).status in ("wrong", "undecided", "gold_bad")


def test_an_unforeseen_exception_is_an_error_and_says_which(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise KeyError("sine")

    monkeypatch.setattr(math_grader, "extract", fail)
    verdict = grade(r"\boxed{7}", "one more reference")
    assert verdict.status == "error"
    assert math.isnan(verdict.score)
    assert "KeyError" in verdict.detail


BLANKS = (" ", "\t", "\n", "\u00a0", "\u2009", "\u200b ", "~", r"\ ", r"\,", r"\;", r"\quad ", "<|im_end|>", "{}")
OTHER_RUNS = ("111,", "111 ", r"111\,", "1,", "²", "½", "€1 ", "°", "1st ", r"\frac", "(1)", "1:", "a) ", "_", "^")
RAW_RUNS = ("#### 1,", "answer to ", "111,", "1,", "is ", "** ", "$1$ ", r"\boxed 1 ", "<answer>", "-1", "é")


@pytest.mark.parametrize("run", [*BLANKS, *OTHER_RUNS])
@pytest.mark.parametrize("size", [3_900, 64_000])
def test_runs_inside_an_answer_and_a_reference_take_linear_time(run: str, size: int) -> None:
    for start in (r"\$", "-", "1", "x", "A"):
        for end in ("1 1", "%", "y 1", "st", "base 2"):
            text = start + run * (size // len(run)) + end
            for response, gold in ((rf"\boxed{{{text}}}", "May 5"), (rf"\boxed{{{text}}}", "7"), (r"\boxed{8}", text)):
                took = cpu_milliseconds(partial(grade, response, gold), MOST_MILLISECONDS)
                assert took < MOST_MILLISECONDS, (start, run, end)


@pytest.mark.parametrize("mode", ["marked", "lenient", "last_number", "gsm8k", "answer_tag"])
def test_runs_outside_an_answer_take_linear_time(mode: AnswerMode) -> None:
    policy = MathOptions(answer=mode)
    for run in RAW_RUNS:
        for start in ("", "#### 1", "The answer to", "The answer is "):
            for middle in ("", " " * 30_000, "," * 60_000):
                text = start + middle + run * ((64_000 - len(middle)) // len(run)) + "1"
                took = cpu_milliseconds(partial(grade, text, "7", policy), MOST_MILLISECONDS)
                assert took < MOST_MILLISECONDS, (start, middle[:1], run)


@pytest.mark.parametrize("answer", ["x^2999!", "x^{900}!", r"\binom{x^{900}}{2}", "x^{500}!", r"(\sqrt{x}10^{700})!"])
def test_functions_at_high_precision_are_paid_for(answer: str) -> None:
    for gold in ("918273645546372819", r"\sqrt{y}", "n!"):
        start = time.process_time()
        grade(rf"\boxed{{{answer}}}", gold)
        assert 1e3 * (time.process_time() - start) < MOST_MILLISECONDS


@pytest.mark.parametrize(
    "gold", ["-" + "123\\" * 900, "1" * 4_000, "111 " * 900 + "1", "9 " * 1_700, "." + "1" * 3_500]
)
def test_a_long_reference_takes_linear_time(gold: str) -> None:
    for answer in ("ples", "7", "1" * 3_000, "x+1"):
        took = cpu_milliseconds(partial(grade, rf"\boxed{{{answer}}}", gold + " "), MOST_MILLISECONDS)
        assert took < MOST_MILLISECONDS


@pytest.mark.parametrize("gold", ["7}", "{7", "\\", "<|end|>7", r"\boxed{7", "{}", "<think>"])
def test_a_reference_that_no_copy_matches_is_a_fault(gold: str) -> None:
    for mode in ("marked", "boxed"):
        policy = MathOptions(answer=mode)
        copied = grade(rf"\boxed{{{gold}}}", gold, policy).status
        assert (copied == "correct") == (gold_error(gold, policy) == "")


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        (r"7 \cdot 10^0", "7"), (r"1.4 \times 5", "7"), (r"12\times 10^3", "12000"), (r"1.2\times 10^{3+0}", "1200"),
        ("3 ft + 4 in", "40 in"), ("111_2", "7"), ("7_{10}", "111_2"), ("|7|", "7"), ("3(4)", "12"),
        (r"(50+0)\%", "0.5"),
        ("7!/6!", "7"), ("7=3+4", "7"), ("C(7,1)", "7"), (r"\lfloor 7.5\rfloor", "7"), ("7^1", "7"), ("7x/x", "7"),
    ],
)  # fmt: skip
def test_unevaluated_has_no_holes(answer: str, gold: str) -> None:
    assert grade(rf"\boxed{{{answer}}}", gold, MathOptions(unevaluated="wrong")).status == "wrong"


@pytest.mark.parametrize(
    ("answer", "gold"), [("3 ft 4 in", "40 in"), ("52_8", "52_8"), ("seven", "7"), ("1e3", "1000")]
)
def test_unevaluated_lets_written_numbers_pass(answer: str, gold: str) -> None:
    assert grade(rf"\boxed{{{answer}}}", gold, MathOptions(unevaluated="wrong")).status == "correct"
