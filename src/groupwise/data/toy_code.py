"""Generated problems that ask for a one-line function: each one follows from (seed, split, index) alone.

As in `arithmetic`, every exercise has a tempting misreading that gives another function.
"""

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from random import Random
from typing import Literal

from groupwise.data.arithmetic import Split, held_out
from groupwise.problem import CallTest, CodeTests, Message, Problem

Family = Literal["linear", "brackets", "difference", "choice", "distance", "division"]
NAME = "f"
CALLS = 6


@dataclass(frozen=True, slots=True)
class CodeExercise:
    """A question about a function of n, an expression that solves it, a wrong one, and what the right one computes.

    slip: the expression with a number that was copied wrongly.
    """

    family: Family
    question: str
    solution: str
    misreading: str
    slip: str
    function: Callable[[int], int]
    inputs: tuple[int, ...]


def toy_code_exercise(seed: int, split: Split, index: int) -> CodeExercise:
    """The exercise behind `toy_code_problem`. Families take turns over the indices."""
    digest = blake2b(f"toy code/{seed}/{split}/{index}".encode(), digest_size=16).digest()
    random = Random(int.from_bytes(digest, "big"))
    while True:
        exercise = _FAMILIES[FAMILIES[index % len(FAMILIES)]](random)
        if held_out(exercise.question) == (split == "eval"):
            return exercise


def toy_code_problem(seed: int, split: Split, index: int) -> Problem:
    """Problem `index` of a split, with 6 calls. No problem of `eval` has the text of one of `train` or `demo`."""
    exercise = toy_code_exercise(seed, split, index)
    return Problem(
        id=f"toy_code/{split}/{exercise.family}/{index}",
        messages=(Message("user", exercise.question),),
        answer="",
        domain="code",
        source=f"toy_code:{index}",
        tests=toy_code_tests(exercise),
    )


def toy_code_tests(exercise: CodeExercise) -> CodeTests:
    """The calls that a program for the exercise has to answer."""
    calls = tuple(CallTest((n,), exercise.function(n)) for n in exercise.inputs)
    return CodeTests(calls=calls, entry_point=NAME)


def _ask(random: Random, what: str) -> str:
    return random.choice(("Write f(n) that returns {}.", "Let f(n) return {}.")).format(what)


def _inputs(random: Random, *near: int) -> tuple[int, ...]:
    """Numbers on both sides of those that matter, zero, and some at random; all different."""
    chosen = list(dict.fromkeys((*near, 0)))
    while len(chosen) < CALLS:
        n = random.randint(-99, 199)
        if n not in chosen:
            chosen.append(n)
    return tuple(chosen)


def _other(random: Random, number: int, low: int, high: int) -> int:
    """A number near another one, within bounds, as a slip of the pen gives."""
    return random.choice([n for n in (number - 2, number - 1, number + 1, number + 2) if low <= n <= high])


def _linear(random: Random) -> CodeExercise:
    """`a * n + b`; the wrong way exchanges the two numbers."""
    a, b = random.sample(range(2, 60), 2)
    c = _other(random, b, 1, 62)
    if random.random() < 0.5:
        question = random.choice((f"{a} times n plus {b}", f"{b} more than {a} times n"))
        forms, function = "{} * n + {}", lambda n: a * n + b
    else:
        question = random.choice((f"{a} times n minus {b}", f"{b} less than {a} times n"))
        forms, function = "{} * n - {}", lambda n: a * n - b
    texts = forms.format(a, b), forms.format(b, a), forms.format(a, c)
    return CodeExercise("linear", _ask(random, question), *texts, function, _inputs(random, 1))


def _brackets(random: Random) -> CodeExercise:
    """`a * (n + b)`; the wrong way leaves the brackets out."""
    a, b = random.randint(2, 9), random.randint(2, 99)
    c = _other(random, b, 1, 101)
    if random.random() < 0.5:
        question = random.choice((f"{a} times the sum of n and {b}", f"the sum of n and {b}, times {a}"))
        sign, function = "+", lambda n: a * (n + b)
    else:
        question = random.choice((f"{a} times the difference n minus {b}", f"the difference n minus {b}, times {a}"))
        sign, function = "-", lambda n: a * (n - b)
    texts = f"{a} * (n {sign} {b})", f"{a} * n {sign} {b}", f"{a} * (n {sign} {c})"
    return CodeExercise("brackets", _ask(random, question), *texts, function, _inputs(random, b))


def _difference(random: Random) -> CodeExercise:
    """`n - b` or `b - n`; the wrong way takes one for the other."""
    b = random.randint(2, 99)
    c = _other(random, b, 1, 101)
    if random.random() < 0.5:
        question = random.choice((f"n with {b} taken away", f"{b} less than n"))
        texts, function = (f"n - {b}", f"{b} - n", f"n - {c}"), lambda n: n - b
    else:
        question = random.choice((f"{b} with n taken away", f"n less than {b}"))
        texts, function = (f"{b} - n", f"n - {b}", f"{c} - n"), lambda n: b - n
    return CodeExercise("difference", _ask(random, question), *texts, function, _inputs(random, b))


def _choice(random: Random) -> CodeExercise:
    """`max(n, b)` or `min(n, b)`; the wrong way takes one for the other."""
    b = random.randint(1, 99)
    c = _other(random, b, 1, 101)
    if random.random() < 0.5:
        question = random.choice((f"the larger of n and {b}", f"n, but at least {b}"))
        texts, function = (f"max(n, {b})", f"min(n, {b})", f"max(n, {c})"), lambda n: max(n, b)
    else:
        question = random.choice((f"the smaller of n and {b}", f"n, but at most {b}"))
        texts, function = (f"min(n, {b})", f"max(n, {b})", f"min(n, {c})"), lambda n: min(n, b)
    return CodeExercise("choice", _ask(random, question), *texts, function, _inputs(random, b - 1, b, b + 1))


def _distance(random: Random) -> CodeExercise:
    """`abs(n - b)`; the wrong way forgets that a distance is never negative."""
    b = random.randint(1, 99)
    c = _other(random, b, 1, 101)
    question = random.choice((f"the distance of n from {b}", f"how far n is from {b}"))
    texts = f"abs(n - {b})", f"n - {b}", f"abs(n - {c})"
    return CodeExercise("distance", _ask(random, question), *texts, lambda n: abs(n - b), _inputs(random, b - 1, b))


def _division(random: Random) -> CodeExercise:
    """`n % a` or `n // a`, for n from 0; the wrong way takes one for the other."""
    a = random.randint(3, 99)
    c = _other(random, a, 2, 101)
    if random.random() < 0.5:
        question = random.choice((f"what is left when n is divided by {a}", f"the remainder of n by {a}"))
        texts, function = (f"n % {a}", f"n // {a}", f"n % {c}"), lambda n: n % a
    else:
        question = random.choice((f"how many times {a} fits into n", f"n divided by {a}, rounded down"))
        texts, function = (f"n // {a}", f"n % {a}", f"n // {c}"), lambda n: n // a
    return CodeExercise("division", _ask(random, question), *texts, function, (0, 1, a - 1, a, 3 * a + 1, 25 * a - 1))


_FAMILIES: dict[Family, Callable[[Random], CodeExercise]] = {
    "linear": _linear,
    "brackets": _brackets,
    "difference": _difference,
    "choice": _choice,
    "distance": _distance,
    "division": _division,
}
FAMILIES: tuple[Family, ...] = tuple(_FAMILIES)
