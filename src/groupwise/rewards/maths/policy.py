"""What counts as the same answer: the questions on which graders differ, as options."""

from typing import Literal

from groupwise.options import NonNegativeFloat, Options

AnswerMode = Literal["marked", "boxed", "gsm8k", "answer_tag", "last_number", "lenient"]


class MathsPolicy(Options):
    """Where the answer of a mathematical problem stands, and what counts as equal."""

    answer: AnswerMode = "marked"
    """Where the answer stands, always after the reasoning: `boxed` in the last \\boxed{}, `gsm8k` behind `####`,
    `answer_tag` in <answer></answer>, `marked` at any of these marks, `last_number` the last number, `lenient` at a
    mark, else behind words like "the answer is", else the last number."""

    percent: Literal["equal", "strict"] = "equal"
    """`equal`: 50 % is also 0.5, and 50 where the reference answer says 50 %."""

    units: Literal["lenient", "strict"] = "lenient"
    """`lenient`: a unit may be left out; a wrong one is wrong, a convertible one is converted. `strict`: it must stand."""

    relative_tolerance: NonNegativeFloat = 0.0
    """Largest relative difference of two numbers that count as equal, where one of them is a decimal."""

    unreduced: Literal["equal", "wrong"] = "equal"
    """Whether 2/4 is 1/2."""

    order: Literal["by_gold", "strict", "ignore"] = "by_gold"
    """Whether the order of several answers counts: `by_gold` in tuples and intervals but not in sets and lists."""
