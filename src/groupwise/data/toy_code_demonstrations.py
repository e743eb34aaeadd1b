"""Demonstrations of one-line functions by a careless pupil, for `groupwise sft`.

The pupil often writes without thinking. It misreads some questions, and now and then copies a number wrongly.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from groupwise.data.toy_code import NAME, CodeExercise, toy_code_exercise


@dataclass(frozen=True, slots=True)
class CodeHabits:
    """How often the pupil does what; every number is a probability."""

    guess: float
    """Writes the function at once, without thinking."""

    wrong_guess: float
    """Of the guesses: the wrong way, or a number copied wrongly."""

    misread: float
    """Where it thinks: takes the wrong way."""

    slip: float
    """Where it thinks and reads well: copies a number wrongly."""


CARELESS = CodeHabits(guess=0.6, wrong_guess=0.75, misread=0.3, slip=0.1)


def toy_code_demonstration(exercise: CodeExercise, habits: CodeHabits, random: Random) -> str:
    """A completion for the exercise: at most an expression in `<think>…</think>`, then a block of code."""
    if random.random() < habits.guess:
        wrong = random.random() < habits.wrong_guess
        return toy_code_answer(random.choice((exercise.misreading, exercise.slip)) if wrong else exercise.solution)
    expression = exercise.solution
    if random.random() < habits.misread:
        expression = exercise.misreading
    elif random.random() < habits.slip:
        expression = exercise.slip
    return f"<think>{expression}</think>{toy_code_answer(expression)}"


def toy_code_answer(expression: str) -> str:
    """The block of code that gives an expression as the function."""
    return f"```python\ndef {NAME}(n): return {expression}\n```"


def toy_code_demonstrations(seed: int, count: int, habits: CodeHabits) -> Iterator[tuple[str, str]]:
    """`count` pairs of question and completion, on the exercises of the split `demo`; a function of the arguments."""
    random = Random(f"toy code demonstrations/{seed}")
    for index in range(count):
        exercise = toy_code_exercise(seed, "demo", index)
        yield exercise.question, toy_code_demonstration(exercise, habits, random)
