"""Generated arithmetic problems: each one follows from (seed, split, index) alone."""

from hashlib import blake2b
from random import Random
from typing import Literal

from groupwise.data.exercises import FAMILIES, Exercise, draw_exercise
from groupwise.problem import Message, Problem

Split = Literal["train", "eval", "demo"]

# One question in eight belongs to the evaluation and to nothing else, whatever the seed.
EVAL_SHARE = 1 / 8


def held_out(question: str) -> bool:
    """Whether a question belongs to the evaluation; a property of its text alone."""
    digest = blake2b(question.encode(), digest_size=8, person=b"held out").digest()
    return int.from_bytes(digest, "big") < EVAL_SHARE * 2**64


def arithmetic_exercise(seed: int, split: Split, index: int) -> Exercise:
    """The exercise behind `arithmetic_problem`, with the ways to work it out. Families take turns over the indices."""
    digest = blake2b(f"arithmetic/{seed}/{split}/{index}".encode(), digest_size=16).digest()
    random = Random(int.from_bytes(digest, "big"))
    family = FAMILIES[index % len(FAMILIES)]
    while True:
        exercise = draw_exercise(family, random)
        if held_out(exercise.question) == (split == "eval"):
            return exercise


def arithmetic_problem(seed: int, split: Split, index: int) -> Problem:
    """Problem `index` of a split. No problem of `eval` has the text of one of `train` or `demo`, for any two seeds."""
    exercise = arithmetic_exercise(seed, split, index)
    return Problem(
        id=f"arithmetic/{split}/{exercise.family}/{index}",
        messages=(Message("user", exercise.question),),
        answer=str(exercise.answer),
        source=f"arithmetic:{index}",
        # A copied question, and `56 / 8` for a division, is no answer.
        grader="number",
    )
