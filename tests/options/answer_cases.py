"""Cases of how answers and programs are judged, each with verdicts that follow from what the option says."""

from tests.options.case import ByHand
from tests.options.graded import Task, code_task, component, graded_case, outcomes, task, totals, verdicts

correctness = component("correctness")


def boxed(*answers: str) -> list[str]:
    return [f"\\boxed{{{answer}}}" for answer in answers]


# A power of more digits than the grader writes out; it is the reference answer in another form.
BEYOND = task("4^{20000}", *boxed("2^{40000}", "2^{40001}"))
# Reads a number and prints its double, which is the answer in the box too.
DOUBLED = [("3", "6"), ("5", "10")]
BOTH = code_task(DOUBLED, "print(2 * int(input()))", answer="6")
TOLD = Task(BOTH.problem, (*BOTH.answers, "\\boxed{6}"))
MODES = task(
    "4",
    "\\boxed{4}",
    "#### 4",
    "<answer>4</answer>",
    "The answer is 4.",
    "We had 7, now 4",
    "\\boxed{4} 9",
)

ANSWERS: dict[str, ByHand] = {
    "rewards.correctness.weight": graded_case(
        {"0.5": [0.5, 0.0], "2.0": [2.0, 0.0]}, totals, task("4", *boxed("4", "5"))
    ),
    "rewards.correctness.grader": graded_case(
        {
            "auto": ["correct", "no_answer", "correct"],
            "math": ["no_answer", "correct", "correct"],
            "code": ["correct", "no_answer", "gold_bad"],
            "own": ["1.0", "1.0", "1.0"],
        },
        verdicts,
        TOLD,
        task("6", "\\boxed{6}"),
        base=("problems.train=x.jsonl",),
        beside={"own": ("rewards.functions.own.path={functions}:one",)},
        slow=True,
    ),
    "rewards.correctness.undecided": graded_case(
        {"wrong": ["kept", "kept"], "drop": ["group dropped", "group dropped"]}, outcomes, BEYOND
    ),
    "rewards.correctness.second_grader": graded_case(
        {"none": ["undecided", "undecided"], "math_verify": ["correct", "wrong"]}, verdicts, BEYOND, slow=True
    ),
    "rewards.correctness.math.answer": graded_case(
        {
            "marked": [1, 1, 1, 1, 0, 1],
            "boxed": [1, 0, 0, 0, 0, 1],
            "gsm8k": [0, 1, 0, 0, 0, 0],
            "answer_tag": [0, 0, 1, 0, 0, 0],
            "last_number": [1, 1, 1, 1, 1, 0],
            "lenient": [1, 1, 1, 1, 1, 1],
        },
        correctness,
        MODES,
    ),
    "rewards.correctness.math.percent": graded_case(
        {"equal": [1, 1], "strict": [0, 1]}, correctness, task("50\\%", *boxed("0.5", "50\\%"))
    ),
    "rewards.correctness.math.units": graded_case(
        {"lenient": [1, 1, 0], "strict": [0, 1, 0]}, correctness, task("3 km", *boxed("3", "3 km", "3 kg"))
    ),
    # 3.15 is off by 0.27 %.
    "rewards.correctness.math.relative_tolerance": graded_case(
        {"0.0": [0, 0], "0.01": [1, 0]}, correctness, task("3.14159", *boxed("3.15", "3.2"))
    ),
    "rewards.correctness.math.correct_digits": graded_case(
        {"6": [0, 1], "4": [1, 1], "0": [0, 0]}, correctness, task("1/3", *boxed("0.3333", "0.333333"))
    ),
    "rewards.correctness.math.unevaluated": graded_case(
        {"unless_copied": [0, 1, 1], "equal": [1, 1, 1], "wrong": [0, 0, 1]},
        correctness,
        task("7", *boxed("3+4", "5+2", "7.0"), question="What is 3 + 4?"),
    ),
    "rewards.correctness.math.unreduced": graded_case(
        {"unless_copied": [0, 1, 1], "equal": [1, 1, 1], "wrong": [0, 0, 1]},
        correctness,
        task("1/2", *boxed("2/4", "3/6", "1/2"), question="Simplify 2/4."),
    ),
    "rewards.correctness.math.statement_after_box": graded_case(
        {"counts": [1, 1, 0], "ignored": [0, 1, 1]},
        correctness,
        task("4", "First \\boxed{3}. The answer is 4.", "\\boxed{4}", "\\boxed{4}. The answer is 3."),
    ),
    "rewards.correctness.math.decimal_mark": graded_case(
        {"point": [0, 1, 0], "comma": [1, 1, 0]}, correctness, task("1234.5", *boxed("1.234,5", "1234.5", "1,2345"))
    ),
    "rewards.correctness.math.order": graded_case(
        {"by_gold": [0, 1], "strict": [0, 0], "ignore": [1, 1]},
        correctness,
        task("(1, 2)", *boxed("(2, 1)")),
        task("1, 2", *boxed("2, 1")),
    ),
    "rewards.correctness.math.inequality": graded_case(
        {"by_gold": [1, 0], "equal": [1, 1], "strict": [0, 0]},
        correctness,
        task("x < 3", *boxed("(-\\infty, 3)")),
        task("(-\\infty, 3)", *boxed("x < 3")),
    ),
    # Right for one of two tests.
    "rewards.correctness.code.credit": graded_case(
        {"all": [0, 1], "fraction": [0.5, 1]},
        correctness,
        code_task(DOUBLED, "print(3 + int(input()))", "print(2 * int(input()))"),
        slow=True,
    ),
    # Right for the first of three tests, and for the first two.
    "rewards.correctness.code.max_tests": graded_case(
        {"0": [0, 0], "1": [1, 1], "2": [0, 1]},
        correctness,
        code_task([*DOUBLED, ("4", "8")], "print(3 + int(input()))", "n = int(input()); print(2 * n if n != 4 else 0)"),
        slow=True,
    ),
    "rewards.correctness.code.float_tolerance": graded_case(
        {"0.0": [0], "1e-3": [1]}, correctness, code_task([("", "0.33333333")], "print(0.3333)"), slow=True
    ),
    # Tests of those who provide the usual imports, and tests of others.
    "rewards.correctness.code.forgotten_imports": graded_case(
        {"usual": [1, 0], "all": [1, 1], "none": [0, 0]},
        correctness,
        code_task([("", "3")], "print(math.floor(3.5))", usual=True),
        code_task([("", "3")], "print(math.floor(3.5))"),
        slow=True,
    ),
}
