"""Cases of reward functions, and of how the work of grading is done."""

from typing import Any

from tests.options.answer_cases import BEYOND
from tests.options.case import ByHand
from tests.options.graded import Graded, component, graded_case, outcomes, task, totals, verdicts

FUNCTIONS_FILE = '''
import os
import time
from pathlib import Path

TRIES = Path(__file__).with_name("tries")


def one(text):
    return 1.0


def half(text):
    return 0.5


def odd(text):
    return float(len(text) % 2)


def half_odd(text):
    return float(len(text) // 2 % 2)


def rest(text):
    return 1.0 - odd(text) - half_odd(text)


def size(text):
    """How many completions it is given at once."""
    return [float(len(text))] * len(text) if isinstance(text, list) else 1.0


def first_two(text):
    return [(0, 2, 1.0)]


def pieces(text):
    """Pieces of four characters, each scored by its share of digits."""
    return [
        (start, min(start + 4, len(text)), sum(c.isdigit() for c in text[start : start + 4]) / 4)
        for start in range(0, len(text), 4)
    ]


def fails_on_five(text):
    return 1.0 / (5 - int(text[-2]))


def second_try(text):
    """Fails whenever it is called for the first, third, fifth time."""
    count = int(TRIES.read_text()) if TRIES.exists() else 0
    TRIES.write_text(str(count + 1))
    if count % 2 == 0:
        raise RuntimeError("not yet")
    return 1.0


def slow(text):
    time.sleep(1.0)
    return 1.0


def hungry(text):
    return float(len(bytearray(300 * 2**20)) > 0)


def process(text):
    time.sleep(0.3)
    return float(os.getpid())
'''

FOUR_AND_FIVE = task("4", "\\boxed{4}", "\\boxed{5}")
OWN = component("own")


def own(
    by_hand: dict[str, Any], number: Any = OWN, function: str = "one", answers: Any = FOUR_AND_FIVE, *base: str
) -> ByHand:
    path = f"rewards.functions.own.path={{functions}}:{function}"
    return graded_case(by_hand, number, answers, base=(path, *base), name="own", slow=True)


def kept_or_not(result: Graded) -> list[bool]:
    return [outcome == "kept" for outcome in outcomes(result)]


def spans(result: Graded) -> list[Any]:
    """The spans of every answer in tokens, or that it failed."""
    scores = [row[group.names_K.index("own")] for group in result.groups for row in group.scores_GK]
    return ["failed" if score.status == "error" else [tuple(span) for span in score.spans] for score in scores]


def processes(result: Graded) -> int:
    """How many processes the answers were judged in."""
    return len(set(OWN(result)))


FUNCTIONS: dict[str, ByHand] = {
    "rewards.functions.NAME.path": ByHand(
        {"{functions}:one": [1.0, 1.0], "{functions}:half": [0.5, 0.5]},
        own({}).observe,
        name="own",
        slow=True,
    ),
    "rewards.functions.NAME.weight": own({"0.5": [1.5, 0.5], "-0.25": [0.75, -0.25]}, totals),
    "rewards.functions.NAME.requires": own({"": [2.0, 1.0], "correctness": [2.0, 0.0]}, totals),
    "rewards.functions.NAME.call": own({"sample": [1.0, 1.0], "batch": [2.0, 2.0]}, OWN, "size"),
    # The first of the tokens has five characters, of which the span ends at the second.
    "rewards.functions.NAME.returns": own(
        {
            "number": ["failed"] * 2,
            "character_spans": [[(0, 1, 1.0)]] * 2,
            "token_spans": [[(0, 2, 1.0)]] * 2,
        },
        spans,
        "first_two",
    ),
    "rewards.functions.NAME.timeout_seconds": own({"0.2": [False, False], "20.0": [True, True]}, kept_or_not, "slow"),
    # One process, so that the calls come one after the other.
    "rewards.functions.NAME.retries": own(
        {"0": [False, False], "1": [True, True]}, kept_or_not, "second_try", FOUR_AND_FIVE, "grading.workers=1"
    ),
    "rewards.functions.NAME.on_error": own(
        {
            "drop_sample": ["kept", "kept", "dropped"],
            "drop_group": ["group dropped"] * 3,
            "stop": ["stopped"],
        },
        outcomes,
        "fails_on_five",
        task("4", "\\boxed{4}", "\\boxed{3}", "\\boxed{5}"),
    ),
    "rewards.functions.NAME.memory_mb": own({"100": [False, False], "1000": [True, True]}, kept_or_not, "hungry"),
}

GRADING: dict[str, ByHand] = {
    "grading.workers": own({"1": 1, "2": 2}, processes, "process", task("4", "a", "b", "c", "d")),
    # A reference answer that no answer could match.
    "grading.on_error": graded_case(
        {
            "drop_sample": ["group dropped"] * 2 + ["kept"] * 2 + ["dropped"],
            "drop_group": ["group dropped"] * 2 + ["group dropped"] * 3,
            "stop": ["stopped"],
        },
        outcomes,
        task("", "\\boxed{4}", "\\boxed{5}"),
        task("4^{20000}", "\\boxed{1x}", "\\boxed{2y}", "\\boxed{2^{40000}}"),
        base=("rewards.correctness.undecided=drop",),
    ),
    "grading.second_grader_seconds": graded_case(
        {"0.001": ["timeout", "timeout"], "60.0": ["correct", "wrong"]},
        verdicts,
        BEYOND,
        base=("rewards.correctness.second_grader=math_verify",),
        slow=True,
    ),
}
