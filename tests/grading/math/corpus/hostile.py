"""What a policy could learn to write: answers that are costly to grade, and answers that claim everything."""

from collections.abc import Iterator

from groupwise.grading.records import Status
from tests.grading.math.corpus.kind import Case, boxed, written

BOUNDED: tuple[Status, ...] = ("wrong", "undecided")
CORRECT: tuple[Status, ...] = ("correct",)
REFUSED: tuple[Status, ...] = ("wrong", "no_answer")

BOMBS = (
    "5^{5^{5^{5^5}}}",
    "10^{10^{10}}",
    "2^{2^{2^{2^{2^{2}}}}}",
    "(10^9)!",
    "((((9!)!)!)!)!",
    "9!!!!!!!!!!!!!!!!",
    r"\binom{10^{9}}{5\cdot 10^{8}}",
    r"\binom{99999999999}{44444444444}",
    r"\sum_{k=1}^{10^9} k^2",
    r"\prod_{k=1}^{10^{12}} k",
    r"\sum_{a=1}^{999}\sum_{b=1}^{999}\sum_{c=1}^{999} abc",
    r"\sin(7^{e^{e^{e^{10e}}}})",
    r"\sqrt[10^{10}]{10^{10^{10}}}",
    r"\frac{1}{10^{10^{10}}}",
    r"10^{-10^{10}}",
    r"e^{e^{e^{e^{e}}}}",
    r"\left(1+10^{-9}\right)^{10^{18}}",
    r"1.0000000001^{99999999999999}",
    r"\gcd(10^{10^9},2^{10^9})",
    r"\lfloor 10^{10^{9}}\pi\rfloor",
    r"(x+y+z)^{10^9}",
    r"(x+1)^{9999}(x-1)^{9999}",
    "1e999999999",
    "1e-999999999",
    r"9.9\times10^{99999999999999999999}",
    "9" * 50_000,
    "1/" * 3_000 + "1",
    "1+" * 20_000 + "1",
    "-" * 20_000 + "1",
    "2^" * 3_000 + "2",
    "(" * 600 + "1" + ")" * 600,
    "[" * 5_000,
    r"\{" * 5_000,
    "|" * 5_000,
    r"\frac{" * 3_000 + "1" + "}{2}" * 3_000,
    r"\sqrt{" * 3_000 + "2" + "}" * 3_000,
    r"\sqrt{2+" * 200 + "2" + "}" * 200,
    r"\frac" * 9_000,
    r"\left(" * 3_000,
    r"\pm 1" * 60,
    "1" + r"\pm 1" * 30,
    ",".join(["1"] * 20_000),
    ",".join(f"({k},{k})" for k in range(4_000)),
    r"\begin{pmatrix}" + "1&" * 10_000 + r"1\end{pmatrix}",
    r"\begin{vmatrix}" + r"\\".join("&".join(["1"] * 40) for _ in range(40)) + r"\end{vmatrix}",
    r"\begin{pmatrix}" * 2_000,
    r"(0,1)\cup" * 5_000 + "(0,1)",
    "x=" * 5_000 + "1",
    "1<" * 5_000 + "2",
    r"\text{" * 3_000 + "a" + "}" * 3_000,
    "a" * 60_000,
    " " * 60_000 + "1 2",
    # White space and what becomes white space, in the middle: patterns with two optional gaps try every split.
    r"\$" + " " * 400 + "1 1",
    r"\$" + "\n" * 4_000 + "5=2",
    "-" + "\u00a0" * 4_000 + "1 1",
    "1" + " " * 30_000 + "1",
    "1" + " " * 30_000 + "%",
    "x" + "\t" * 30_000 + "y 1",
    "1" + " " * 9_000 + ":" + " " * 9_000 + "2",
    "a" + " " * 9_000 + "or" + " " * 9_000 + "b",
    "1" + "<|im_end|>" * 4_000 + "!",
    "1 " + r"\ " * 9_000 + "cm",
    "1" + "~" * 30_000 + "1",
    "1" + "{}" * 9_000 + "1",
    "½" * 20_000,
    "²" * 20_000,
    "1_{" * 2_000 + "2" + "}" * 2_000,
    r"0.\overline{" + "123456789" * 2_000 + "}",
    "1,234" * 8_000,
    "abcdefghijklmnopqrstuvwxyz" * 50,
    r"\sin\cos\tan\ln\log" * 500 + "x",
    r"\log_{\log_{\log_{2}3}4}5" * 100,
    "5 \\text{ m}" * 4_000,
    "3 hours " * 4_000,
    ":".join(["1"] * 9_000),
)

UNCLOSED = (
    r"\boxed{" * 3_000,
    r"\boxed" * 20_000,
    r"\boxed{1" * 3_000,
    "<think>" * 9_000,
    "</think>" * 9_000,
    "<answer>" * 9_000,
    "#" * 60_000,
    "####\n" * 9_000,
    r"\fbox{" * 3_000,
    "$" * 60_000,
    "\\" * 60_000,
    "{" * 60_000,
    "}" * 60_000,
    "1" * 200_000,
    "x " * 100_000,
    "The answer is " * 9_000,
    "1,234,567 " * 9_000,
    "The answer is" + " " * 30_000 + "x",
    "<answer>" + "\n" * 30_000,
    "####" + " " * 30_000 + "x",
    r"\boxed" + " " * 60_000 + "{8}",
)

CLAIMS = (
    (r"\boxed{1} \boxed{2} \boxed{3} \boxed{4} \boxed{5} \boxed{6} \boxed{7} \boxed{8}", "7"),
    (r"\boxed{6} or \boxed{7}", "7"),
    (r"\boxed{7 \text{ or } 8 \text{ or } 9}", "7"),
    (r"\boxed{7, 8}", "7"),
    (r"\boxed{7/8}", "7"),
    (r"\boxed{7 \text{ maybe } 8}", "7"),
    (r"\boxed{5 \le x \le 9}", "7"),
    (r"\boxed{[0,10]}", "7"),
    (r"\boxed{\{1,2,3,4,5,6,7\}}", "7"),
    (r"\boxed{x}", "7"),
    (r"\boxed{x = x}", "x = 7"),
    (r"\boxed{x = y}", "x = 7"),
    (r"\boxed{7 = 8}", "7"),
    (r"\boxed{8 = 7}", "7"),
    (r"\boxed{\mathbb{R}}", "7"),
    (r"\boxed{\text{the correct answer}}", "7"),
    (r"\boxed{\text{any number}}", "7"),
    (r"\boxed{\text{not } 7}", "7"),
    (r"\boxed{\neq 7}", "7"),
    (r"\boxed{\ge 7}", "7"),
    (r"\boxed{7 \ldots}", "7"),
    (r"\boxed{7 x}", "7"),
    (r"\boxed{7 \text{ and } 8}", "7"),
    (r"\boxed{\pm 7}", "7"),
    (r"\boxed{77}", "7"),
    (r"\boxed{07, 7 1}", "7"),
    (r"\boxed{\frac{0}{0}}", "7"),
    (r"\boxed{0 \cdot x}", "7"),
    (r"\boxed{\infty}", "7"),
    (r"\boxed{NaN}", "7"),
    (r"\boxed{1 2 3 4 5 6 7}", "7"),
    (r"\boxed{__import__('os').system('true')}", "7"),
    (r"\boxed{().__class__.__bases__[0].__subclasses__()}", "7"),
    (r"\boxed{exec('7')}", "7"),
    (r"\boxed{lambda: 7}", "7"),
    (r"\boxed{\text{A, B, C or D}}", "B"),
    (r"\boxed{A} \boxed{B} \boxed{C} \boxed{D}", "B"),
    (r"\boxed{(x-7)(x-8)=0}", "x=7"),
    (r"\boxed{0=0}", "x+y=1"),
    (r"\boxed{\gamma}", r"\delta"),
)

RESTATEMENTS = (
    (r"\boxed{7 = 7}", "7"),
    (r"\boxed{3+4 = 7}", "7"),
    (r"\boxed{\max(5,6,7)}", "7"),
    (r"\boxed{x = 3+4 = 7}", "7"),
    (r"\boxed{7} \boxed{7} \boxed{7}", "7"),
    (r"\boxed{1+1+1+1+1+1+1}", "7"),
    (r"\boxed{(((((((7)))))))}", "7"),
    (r"\boxed{" + "+".join(["1"] * 500) + "}", "500"),
)


def hostile_cases() -> Iterator[Case]:
    """Bombs against a small number, text without an end, and claims of everything; with honest long forms beside."""
    for number, bomb in enumerate(BOMBS):
        yield Case(f"bomb {number} {bomb[:40]!r} ({len(bomb)})", boxed(bomb), "7", (*BOUNDED, "no_answer"))
    for text in UNCLOSED:
        yield Case(f"unclosed {text[:40]!r} ({len(text)})", written(text), "7", REFUSED)
    for text, gold in CLAIMS:
        yield Case(f"claim {text[:60]!r} for {gold}", written(text), gold, (*BOUNDED, "no_answer"))
    for text, gold in RESTATEMENTS:
        yield Case(f"restatement {text[:60]!r} of {gold}", written(text), gold, CORRECT)
