"""Cases of what is paid beside correctness: form, length, language, repetition, the gate, domains."""

import re
from collections.abc import Sequence

from tests.options.case import ByHand
from tests.options.graded import Graded, Task, component, graded_case, task, totals

THINK = "<think>It is so.</think>"
# Right in form, right without it, wrong in form, wrong without it.
FOUR = task("4", f"{THINK}\\boxed{{4}}", "\\boxed{4}", f"{THINK}\\boxed{{5}}", "\\boxed{5}")
TAGGED = f"{THINK}<answer>4</answer>"
FORMS = task("4", TAGGED, f"{THINK}4", "Now 4.", "So: <think></think>")
# Repeats its two tokens four times: of 7 bigrams 5 occurred before, of 6 trigrams 4.
ECHO = task("4", [30, 31] * 4)


def lengths(*tokens: int) -> Task:
    """Answers of so many tokens, none of them right."""
    return task("4", *tokens)


def explained(result: Graded) -> list[str]:
    """The bound that stopped each pattern."""
    (group,) = result.groups
    column = group.names_K.index("format")
    return re.findall(r"more than \d+ ms", " ".join(scores[column].detail for scores in group.scores_GK))


def paid(by_hand: dict[str, Sequence[float]], one: Task, *base: str) -> ByHand:
    return graded_case({value: list(numbers) for value, numbers in by_hand.items()}, totals, one, base=base)


TWENTY = "sampling.max_new_tokens=20"
FORMAT = "rewards.format.weight=0.5"
SHORTER = task("4", "\\boxed{4}", "It is \\boxed{4}", "It is not what it was, but \\boxed{5}")
LETTERS = task("4", "ab 汉", "ab cd")

FORM: dict[str, ByHand] = {
    "rewards.format.weight": paid({"0.0": [1, 1, 0, 0], "0.25": [1.25, 1, 0.25, 0]}, FOUR),
    "rewards.format": graded_case(
        {
            "think": [1, 1, 0, 0],
            "think_answer": [1, 0, 0, 0],
            r"{type: regex, pattern: Now \d+\.}": [0, 0, 1, 0],
            "tag_order": [1, 1, 0, 1],
        },
        component("format"),
        FORMS,
    ),
    # <think> with text, nothing before it, text with </think>, an answer behind: three of the four.
    "rewards.format.strictness": graded_case(
        {"strict": [0, 1], "soft": [0.75, 1]}, component("format"), task("4", f"So: {THINK}4", f"{THINK}4")
    ),
    "rewards.format.pattern": graded_case(
        {"a+": [1, 0], "[ab]+": [1, 1]}, component("format"), task("4", "aa", "ab"), base=("rewards.format=regex",)
    ),
    # Backtracks without end.
    "rewards.format.pattern_milliseconds": graded_case(
        {"5": ["more than 5 ms"], "20": ["more than 20 ms"]},
        explained,
        task("4", "a" * 3000 + "b"),
        base=("rewards.format=regex", "rewards.format.pattern=(a|aa)+$"),
    ),
    "rewards.format.requires": paid({"": [1.5, 1, 0.5, 0], "correctness": [1.5, 1, 0, 0]}, FOUR, FORMAT),
}

# Of 20 tokens at most: a buffer of 10 begins at 10, one of 5 at 15.
LENGTH: dict[str, ByHand] = {
    "rewards.overlong.weight": paid(
        {"1.0": [0, -0.5, -1], "0.2": [0, -0.1, -0.2]}, lengths(10, 15, 20), TWENTY, "rewards.overlong.buffer_tokens=10"
    ),
    "rewards.overlong.buffer_tokens": paid(
        {"0": [0, 0, 0], "10": [-0.2, -0.5, -1], "5": [0, 0, -1]}, lengths(12, 15, 20), TWENTY
    ),
    "rewards.length.weight": paid({"0.0": [0, 0, 0], "2.0": [-0.5, -1, -2]}, lengths(5, 10, 20), TWENTY),
    # Right answers of 4, 6 and a wrong one of 15 tokens, where 20 are the most.
    "rewards.length": graded_case(
        {f"{{type: {name}, weight: 1.0}}": name for name in ("linear", "group_relative", "optimal")},
        lambda g: form_of_length(g),
        SHORTER,
        base=(TWENTY,),
    ),
    "rewards.length.free_tokens": paid(
        {"0": [-0.25, -0.5, -1], "10": [0, 0, -1]}, lengths(5, 10, 20), TWENTY, "rewards.length.weight=1.0"
    ),
}


def form_of_length(result: Graded) -> str:
    """The form that the scores of right, right and wrong answers follow."""
    (group,) = result.groups
    tokens = [len(completion.ids) for completion in group.completions]
    shortest, longest = min(tokens), max(tokens)
    assert shortest < tokens[1] < longest == tokens[2]
    scores = component("length")(result)
    relative = [0.5, 0.5 - (tokens[1] - shortest) / (longest - shortest), -0.5]
    optimal = [-(count - shortest) / 20 for count in tokens]
    forms = {"linear": [-count / 20 for count in tokens], "group_relative": relative, "optimal": optimal}
    return next(name for name, numbers in forms.items() if scores == [round(number, 6) for number in numbers])


TEXT: dict[str, ByHand] = {
    # Two of three letters are Latin.
    "rewards.language.weight": paid({"0.0": [0, 0], "0.3": [0.2, 0.3]}, LETTERS),
    "rewards.language.script": paid(
        {"Latin": [0.666667, 1], "Han": [0.333333, 0], "Latin+Han": [1, 1]}, LETTERS, "rewards.language.weight=1.0"
    ),
    "rewards.repetition.weight": paid({"0.35": [-0.25], "0.7": [-0.5]}, ECHO, "rewards.repetition.ngram_tokens=2"),
    "rewards.repetition.ngram_tokens": paid(
        {"2": [-0.714286], "3": [-0.666667]}, ECHO, "rewards.repetition.weight=1.0"
    ),
    # 5/7 of the bigrams are repeated; of the half that is not free (5/7 - 1/2) / (1/2).
    "rewards.repetition.free_fraction": paid(
        {"0.0": [-0.714286], "0.5": [-0.428571]},
        ECHO,
        "rewards.repetition.weight=1.0",
        "rewards.repetition.ngram_tokens=2",
    ),
}

TABLES: dict[str, ByHand] = {
    # Without the gate's component a penalty still counts, and nothing else does.
    "rewards.gate": paid(
        {"": [1.5, 1, 0.5, 0], "correctness": [1.5, 1, 0, 0], "format": [1.5, 0, 0.5, 0]}, FOUR, FORMAT
    ),
    "domains.NAME.rewards": graded_case(
        {
            "{}": [1.5, 0.5, 1.5, 0.5],
            "{format: {weight: 0.0}}": [1.5, 0.5, 1, 0],
            "{correctness: {weight: 0.0}, gate: format}": [1.5, 0.5, 0.5, 0.5],
        },
        totals,
        task("4", f"{THINK}\\boxed{{4}}", f"{THINK}\\boxed{{5}}"),
        task("4", f"{THINK}\\boxed{{4}}", f"{THINK}\\boxed{{5}}", domain="science"),
        base=(FORMAT,),
        name="science",
    ),
}
