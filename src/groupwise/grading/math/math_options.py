"""What counts as the same answer: the questions on which graders differ, as options."""

from typing import Literal

from groupwise.options import NonNegativeFloat, NonNegativeInt, Options

AnswerMode = Literal["marked", "boxed", "gsm8k", "answer_tag", "last_number", "lenient"]


class MathOptions(Options):
    """Where the answer of a mathematical problem stands, and what counts as equal."""

    answer: AnswerMode = "marked"
    """Where the answer stands, always after the reasoning: `boxed` in the last \\boxed{}, `gsm8k` behind `####`,
    `answer_tag` in <answer></answer>, `marked` at the last of these marks, else behind words like "the answer is", else
    in a closing sentence that states one number, `last_number` the last number, `lenient` as `marked`, else the last
    number."""

    statement_after_box: Literal["counts", "ignored"] = "counts"
    """Whether "The final answer is 7." behind another box outranks it, in the modes `marked` and `lenient`."""

    decimal_mark: Literal["point", "comma"] = "point"
    """`comma`: 3,14 is a decimal and 1.234 the integer 1234, in answers and reference answers; a list has a blank
    behind its commas. Thin spaces separate digits in any case."""

    percent: Literal["equal", "strict"] = "equal"
    """`equal`: 50 % is also 0.5, and 50 where one side says 50 %. `strict`: both sides say % or neither."""

    units: Literal["lenient", "strict"] = "lenient"
    """`lenient`: a unit may be left out or added; a wrong one is wrong, a convertible one is converted. `strict`: a
    unit stands where the reference answer has one, and nowhere else."""

    relative_tolerance: NonNegativeFloat = 0.0
    """Largest relative difference of two numbers that count as equal, where one of them is a decimal."""

    correct_digits: NonNegativeInt = 6
    """A decimal with at least so many significant digits, all correctly rounded or cut off, is equal to a number that
    has more digits, as 0.333333 to 1/3; 0 to accept exact values alone."""

    unreduced: Literal["unless_copied", "equal", "wrong"] = "unless_copied"
    """Whether 2/4 is 1/2. `unless_copied`: not where 2/4 stands in a question that asks for another form of it."""

    unevaluated: Literal["unless_copied", "equal", "wrong"] = "unless_copied"
    """Whether 3 + 4 is 7. `unless_copied`: not where 3 + 4 stands in the question, nor any expression that does and is
    not in the form of the reference answer. With `equal`, a policy that copies the question into its answer is right.
    `wrong` asks for a written number where the reference answer is one; fractions are a matter of `unreduced`."""

    order: Literal["by_gold", "strict", "ignore"] = "by_gold"
    """Whether the order of several answers counts: `by_gold` in tuples but not in sets and lists, `strict` always,
    `ignore` never, save for the ends of an interval."""

    inequality: Literal["by_gold", "equal", "strict"] = "by_gold"
    """Whether x < 3 is (-oo, 3): `by_gold` accepts an interval for an inequality but not the reverse, `equal` accepts
    both, `strict` none."""
