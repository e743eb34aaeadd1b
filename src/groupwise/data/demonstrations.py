"""Demonstrations by a careless pupil, whose habits the bundled model learns and reinforcement learning has to fix.

The pupil often guesses without thinking. Where it thinks, it may take the wrong way, forget a carry or a borrow, or
stop half way. What follows a slip is worked out from the wrong number, as a pupil would.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

from groupwise.data.arithmetic import Exercise, Expression, Family, Sign, apply, arithmetic_exercise, evaluate


@dataclass(frozen=True, slots=True)
class Habits:
    """How often the pupil does what; every number is a probability."""

    guess: float
    """Writes an answer at once, without thinking."""

    wrong_guess: float
    """Of the guesses: one that is not the answer."""

    misread: dict[Family, float]
    """Takes the wrong way, by family."""

    slip: dict[Sign, float]
    """A slip in a step that is hard: a sum with a carry, a difference with a borrow, a product or quotient above 5."""

    slip_easy: float
    """A slip in any other step."""

    unfinished: float
    """Stops thinking before the last step and takes the number reached so far."""


def demonstration(exercise: Exercise, habits: Habits, random: Random) -> str:
    """A completion for the exercise: a guess, or `<think>12 + 7 = 19; 19 - 5 = 14</think>` and the answer."""
    if random.random() < habits.guess:
        return _boxed(_guess(exercise, habits, random))
    misread = random.random() < habits.misread[exercise.family]
    steps: list[tuple[str, int]] = []
    value = _work(exercise.misreading if misread else exercise.solution, habits, random, steps)
    if len(steps) > 1 and random.random() < habits.unfinished:
        del steps[-1]
        value = steps[-1][1]
    return f"<think>{'; '.join(text for text, _ in steps)}</think>{_boxed(value)}"


def write_demonstrations(path: Path, pairs: Iterable[tuple[str, str]]) -> None:
    """Writes pairs of question and completion as JSONL of `prompt` and `completion`."""
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for question, completion in pairs:
            file.write(json.dumps({"prompt": question, "completion": completion}, ensure_ascii=False) + "\n")


def demonstrations(seed: int, count: int, habits: Habits) -> Iterator[tuple[str, str]]:
    """`count` pairs of question and completion, on the exercises of the split `demo`; a function of the arguments."""
    random = Random(f"demonstrations/{seed}")
    for index in range(count):
        exercise = arithmetic_exercise(seed, "demo", index)
        yield exercise.question, demonstration(exercise, habits, random)


def _boxed(value: int) -> str:
    return f"The answer is \\boxed{{{value}}}."


def _guess(exercise: Exercise, habits: Habits, random: Random) -> int:
    if random.random() >= habits.wrong_guess:
        return exercise.answer
    return random.choice((evaluate(exercise.misreading), exercise.answer + random.choice((-10, -2, -1, 1, 2, 10))))


def _work(expression: Expression, habits: Habits, random: Random, steps: list[tuple[str, int]]) -> int:
    """Appends the steps of the expression, in order, each with its number; the last number is returned."""
    if isinstance(expression, int):
        return expression
    left = _work(expression.left, habits, random, steps)
    right = _work(expression.right, habits, random, steps)
    result = _step(expression.sign, left, right, habits, random)
    steps.append((f"{left} {expression.sign} {right} = {result}", result))
    return result


def _step(sign: Sign, left: int, right: int, habits: Habits, random: Random) -> int:
    """The result that the pupil writes down. A quotient of what a slip left behind is rounded down."""
    exact = left // right if sign == "/" else apply(sign, left, right)
    hard = {
        "+": left % 10 + right % 10 >= 10,
        "-": left % 10 < right % 10,
        "*": min(left, right) > 1 and exact > 5,
        "/": exact > 5,
    }[sign]
    if random.random() >= (habits.slip[sign] if hard else habits.slip_easy):
        return exact
    if not hard or sign == "/":
        return max(0, exact + random.choice((-1, 1)))
    # The carry or the borrow forgotten; in a product, one time too few.
    return {"+": exact - 10, "-": exact + 10, "*": exact - min(left, right)}[sign]
