"""Where the answer stands in a response, in every mode."""

from collections.abc import Iterator, Mapping

from groupwise.grading.math.math_options import AnswerMode, MathOptions
from groupwise.grading.records import Response, Status
from tests.grading.math.corpus.kind import Case, written

CORRECT: tuple[Status, ...] = ("correct",)
WRONG: tuple[Status, ...] = ("wrong",)
NOTHING: tuple[Status, ...] = ("no_answer",)
NOT_RIGHT: tuple[Status, ...] = ("wrong", "no_answer")
FILLER = "We check the sum of the digits, which is divisible by 3 whenever 3n = 12k. " * 400

Row = tuple[str | Response, str, tuple[Status, ...]]

THINK: tuple[Row, ...] = (
    (r"<think>Maybe \boxed{5}.</think> It is \boxed{7}.", "7", CORRECT),
    (r"2+5=7</think> It is \boxed{7}.", "7", CORRECT),
    (r"<think></think>\boxed{7}", "7", CORRECT),
    (r"<think>a</think> no <think>b</think> \boxed{7}", "7", CORRECT),
    (written(r"2+5=7</think> It is \boxed{7}.", opened=True), "7", CORRECT),
    ("<think>hm</think><answer>7</answer>", "7", CORRECT),
    ("<think>hm</think>So\n#### 7", "7", CORRECT),
    (r"\boxed{7}<|im_end|>", "7", CORRECT),
    (r"<think>It is \boxed{7}.</think>", "7", NOTHING),
    (r"<think>It is \boxed{7}.", "7", NOTHING),
    (written(r"It is \boxed{7}.", opened=True), "7", NOTHING),
    (r"<think>It is \boxed{7}.</think> It is \boxed{5}.", "7", WRONG),
    (r"<think>a</think><think>\boxed{7}</think>", "7", NOTHING),
    (r"<think>\boxed{7}</think> The answer is in my thoughts.", "7", NOT_RIGHT),
    (r"\boxed{7}<think>wait", "7", NOTHING),
    (r"<think>a</think>\boxed{5}<think>b</think>\boxed{7}", "5", WRONG),
)

BOXES: tuple[Row, ...] = (
    (r"\boxed{5}. No, that misses a case; it is \boxed{7}.", "7", CORRECT),
    (r"\boxed{2}, \boxed{3} and \boxed{5}", "2,3,5", CORRECT),
    (r"\boxed{2}, \boxed{3}", r"\{2,3\}", CORRECT),
    (r"$\boxed{1}$ and $\boxed{2}$", "1,2", CORRECT),
    (r"\boxed{\boxed{7}}", "7", CORRECT),
    (r"\boxed{7} \boxed{7}", "7", CORRECT),
    (r"\fbox{12}", "12", CORRECT),
    (r"\boxed 5", "5", CORRECT),
    (r"\boxed {5}", "5", CORRECT),
    (r"\boxed{ 5 }", "5", CORRECT),
    (r"\boxed{\frac{1}{\sqrt{2}}}", r"\frac{\sqrt{2}}{2}", CORRECT),
    (r"\boxed{x = \{1,2\}}", r"\{1,2\}", CORRECT),
    (r"\boxed{\text{The answer is } 5}", "5", CORRECT),
    (r"$$\boxed{[2,5)}$$", "[2,5)", CORRECT),
    (r"\boxed{$12$}", "12", CORRECT),
    (r"\boxed{\textcolor{red}{12}}", "12", CORRECT),
    (r"\boxed{\displaystyle\large 12}", "12", CORRECT),
    (r"\boxed{12}" + FILLER, "12", CORRECT),
    (FILLER + r"\boxed{12}", "12", CORRECT),
    (r"\boxed{5}. No, that misses a case; it is \boxed{7}.", "5", WRONG),
    (r"\boxed{2}, \boxed{3} and \boxed{5}", "5", WRONG),
    (r"\boxed{}", "5", NOTHING),
    (r"\boxed{ }", "5", NOTHING),
    (r"\boxed{42", "42", NOTHING),
    (r"So \boxed{\frac{4}{2}", "2", NOTHING),
    (written(r"Hence \boxed{\frac{12}", truncated=True), "12", NOTHING),
    (r"\boxed{7}, so \boxed{8", "8", NOT_RIGHT),
    ("", "0", NOTHING),
    (" \n\t", "0", NOTHING),
    ("<|im_end|>", "0", NOTHING),
    (r"\boxed{?}", "5", NOT_RIGHT),
)

ONLY_BOXES: tuple[Row, ...] = (
    *BOXES,
    ("The answer is 42.", "42", NOTHING),
    ("boxed{7", "7", NOTHING),
    ("#### 7", "7", NOTHING),
    ("<answer>7</answer>", "7", NOTHING),
)

GSM8K: tuple[Row, ...] = (
    ("2+40=42\n#### 42", "42", CORRECT),
    ("#### 1,234", "1234", CORRECT),
    ("#### $5.00", "5", CORRECT),
    ("####42", "42", CORRECT),
    ("#### -3", "-3", CORRECT),
    # A base model goes on with the next problem of its prompt.
    ("#### 42\n\nQuestion: How many are 3 and 4?\n3+4=7\n#### 7", "42", CORRECT),
    ("#### 42\n" + FILLER, "42", CORRECT),
    (r"\boxed{9}" + "\n#### 42", "42", CORRECT),
    ("#### 42 apples", "42", CORRECT),
    ("#### 43", "42", WRONG),
    ("####", "42", NOTHING),
    ("42", "42", NOTHING),
    ("### 42", "42", NOTHING),
    ("#### -3", "3", WRONG),
    ("#### 421", "42", WRONG),
    ("<think>\n#### 42</think>", "42", NOTHING),
    (r"\boxed{42}", "42", NOTHING),
)

ANSWER_TAG: tuple[Row, ...] = (
    ("<answer>42</answer>", "42", CORRECT),
    ("<think>a</think>\n<answer> 42 </answer>", "42", CORRECT),
    ("<answer>\n42\n</answer>\n", "42", CORRECT),
    (r"<answer>\boxed{42}</answer>", "42", CORRECT),
    (r"<answer>$\frac12$</answer>", "0.5", CORRECT),
    ("<answer>1</answer> no: <answer>2</answer>", "2", CORRECT),
    ("<answer>x=3</answer>", "3", CORRECT),
    ("<answer>C</answer>", "(C)", CORRECT),
    ("<answer>41</answer>", "42", WRONG),
    ("<answer></answer>", "42", NOTHING),
    ("<answer>42", "42", NOTHING),
    ("42</answer>", "42", NOTHING),
    ("<answer>1</answer> no: <answer>2</answer>", "1", WRONG),
    ("<think><answer>42</answer></think>", "42", NOTHING),
    ("42", "42", NOTHING),
    ("<answer>42 or 43</answer>", "42", WRONG),
)

PROSE: tuple[Row, ...] = (
    ("The answer is 42.", "42", CORRECT),
    ("The answer is 1 1/4", "5/4", CORRECT),
    ("Answer: $13$", "13", CORRECT),
    ("Final Answer: **73**", "73", CORRECT),
    ("Final answer: -5", "-5", CORRECT),
    (r"The final answer is $\frac{3}{4}$.", "0.75", CORRECT),
    ("Altogether that makes 72 clips.", "72", CORRECT),
    ("The order costs $29.00.", "29", CORRECT),
    (r"The answer is 5, no: \boxed{7}", "7", CORRECT),
    ("#### 12", "12", CORRECT),
    ("She has 1,250 left.", "1250", CORRECT),
    ("The answer is 2 2/3", "2", WRONG),
    ("<think>42</think>", "42", NOT_RIGHT),
    ("I don't know.", "42", NOT_RIGHT),
    ("The answer is 43.", "42", WRONG),
    ("The answer is -5.", "5", WRONG),
)

HEDGES: tuple[Row, ...] = (
    ("The answer is definitely not 42.", "42", NOT_RIGHT),
    ("The answer could be 40, 41, 42, 43, or 44.", "44", NOT_RIGHT),
    ("1 2 3 4 5 6 7", "7", NOT_RIGHT),
    ("7 " * 300, "7", NOT_RIGHT),
    ("The answer is 7 or 8.", "8", NOT_RIGHT),
    ("It is either 41 or 42.", "42", NOT_RIGHT),
    ("The answer is not 42", "42", NOT_RIGHT),
    ("My guesses are 40, 41 and 42.", "42", NOT_RIGHT),
)

LAST_NUMBER: tuple[Row, ...] = (
    ("3 + 4 = 7", "7", CORRECT),
    ("She pays $1,250.", "1250", CORRECT),
    ("It is -3.", "-3", CORRECT),
    ("so 12.50 dollars", "12.5", CORRECT),
    ("That is 3/4.", "0.75", CORRECT),
    ("We have 2 and then 9 apples!", "9", CORRECT),
    ("The result: 1e3", "1000", CORRECT),
    ("10-3 = 7, so 7", "7", CORRECT),
    ("3 + 4 = 7", "4", WRONG),
    ("It is -3.", "3", WRONG),
    ("She pays $1,250.", "250", WRONG),
    ("no number here", "0", NOTHING),
    ("<think>7</think>", "7", NOTHING),
    (written("It is 12", truncated=True), "12", NOTHING),
    ("That is 3/4.", "4", WRONG),
    ("so 12.50 dollars", "50", WRONG),
)

MARKED: AnswerMode = "marked"
MODES: tuple[tuple[str, AnswerMode, tuple[Row, ...]], ...] = (
    ("think", "marked", THINK),
    ("boxes", "marked", BOXES),
    ("boxes only", "boxed", ONLY_BOXES),
    ("gsm8k", "gsm8k", GSM8K),
    ("answer tag", "answer_tag", ANSWER_TAG),
    ("prose", "marked", PROSE),
    ("hedge", "marked", HEDGES),
    ("lenient", "lenient", PROSE),
    ("last number", "last_number", LAST_NUMBER),
)


def extraction_cases(statements: Mapping[str, tuple[Row, ...]]) -> Iterator[Case]:
    """All of them, each in the mode that it is about."""
    for name, mode, rows in (*MODES, *((name, MARKED, rows) for name, rows in statements.items())):
        for number, (response, gold, statuses) in enumerate(rows):
            given = response if isinstance(response, Response) else written(response)
            yield Case(f"{name} {number}: {given.text[:60]!r} {gold}", given, gold, statuses, MathOptions(answer=mode))
