"""Generated arithmetic: five families of questions, each with the right way to work it out and a tempting wrong way.

A way to work it out is an expression tree of integers; its operations in post-order are the steps on paper. Every
intermediate result of the right way lies in 0..99, so that a very small model can learn the steps. Each problem
follows from (seed, split, index) alone.
"""

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from random import Random
from typing import Literal

from groupwise.problem import Message, Problem

Sign = Literal["+", "-", "*", "/"]
Split = Literal["train", "eval", "demo"]
Family = Literal["chain", "brackets", "legs", "equation", "story"]

LARGEST = 99

# One question in eight belongs to the evaluation and to nothing else, whatever the seed.
EVAL_SHARE = 1 / 8


@dataclass(frozen=True, slots=True)
class Operation:
    """`left sign right`; an operand is a number of the question or an operation worked out before."""

    sign: Sign
    left: "Expression"
    right: "Expression"


Expression = int | Operation


@dataclass(frozen=True, slots=True)
class Exercise:
    """A question with the right way and a wrong one that leads to another number."""

    family: Family
    question: str
    solution: Expression
    misreading: Expression

    @property
    def answer(self) -> int:
        """The exact answer."""
        return evaluate(self.solution)


def apply(sign: Sign, left: int, right: int) -> int:
    """The result of one step. Raises ArithmeticError where a division leaves a remainder."""
    if sign == "+":
        return left + right
    if sign == "-":
        return left - right
    if sign == "*":
        return left * right
    if left % right:
        raise ArithmeticError(f"{left} / {right} leaves a remainder")
    return left // right


def evaluate(expression: Expression) -> int:
    """The value of an expression."""
    if isinstance(expression, int):
        return expression
    return apply(expression.sign, evaluate(expression.left), evaluate(expression.right))


def within_range(expression: Expression) -> bool:
    """Whether the expression and every intermediate result is a whole number in 0..99."""
    if isinstance(expression, int):
        return 0 <= expression <= LARGEST
    if not (within_range(expression.left) and within_range(expression.right)):
        return False
    left, right = evaluate(expression.left), evaluate(expression.right)
    if expression.sign == "/" and (right == 0 or left % right):
        return False
    return 0 <= apply(expression.sign, left, right) <= LARGEST


def draw_exercise(family: Family, random: Random) -> Exercise:
    """An exercise of the family. Draws again until both ways stay within 0..99 and end differently."""
    while True:
        exercise = _FAMILIES[family](random)
        if (
            within_range(exercise.solution)
            and within_range(exercise.misreading)
            and evaluate(exercise.solution) != evaluate(exercise.misreading)
        ):
            return exercise


def _sign(random: Random) -> Sign:
    return "+" if random.random() < 0.5 else "-"


def _other(sign: Sign) -> Sign:
    return "-" if sign == "+" else "+"


def _ask(random: Random, expression: str) -> str:
    return random.choice(("Compute {}.", "What is {}?")).format(expression)


def _chain(random: Random) -> Exercise:
    """`a - b + c`; the wrong way takes the last two numbers first, or the last sign for the other one."""
    a, b, c = random.randint(5, 40), random.randint(1, 20), random.randint(1, 20)
    first, second = _sign(random), _sign(random)
    solution = Operation(second, Operation(first, a, b), c)
    if first == "-" and second == "+":
        misreading = Operation("-", a, Operation("+", b, c))
    else:
        misreading = Operation(_other(second), Operation(first, a, b), c)
    return Exercise("chain", _ask(random, f"{a} {first} {b} {second} {c}"), solution, misreading)


def _brackets(random: Random) -> Exercise:
    """A product with a sum or difference; the wrong way works as if the brackets stood elsewhere."""
    a, b, c = random.randint(2, 5), random.randint(1, 15), random.randint(1, 9)
    sign = _sign(random)
    form = random.randrange(4)
    if form == 0:
        text = f"{a} * ({b} {sign} {c})"
        solution, misreading = Operation("*", a, Operation(sign, b, c)), Operation(sign, Operation("*", a, b), c)
    elif form == 1:
        text = f"({b} {sign} {c}) * {a}"
        solution, misreading = Operation("*", Operation(sign, b, c), a), Operation(sign, b, Operation("*", c, a))
    elif form == 2:
        text = f"{b} {sign} {a} * {c}"
        solution, misreading = Operation(sign, b, Operation("*", a, c)), Operation("*", Operation(sign, b, a), c)
    else:
        text = f"{a} * {c} {sign} {b}"
        solution, misreading = Operation(sign, Operation("*", a, c), b), Operation("*", a, Operation(sign, c, b))
    return Exercise("brackets", _ask(random, text), solution, misreading)


_LEGS = {"cow": 4, "pig": 4, "dog": 4, "hen": 2, "duck": 2, "ant": 6, "bee": 6, "spider": 8}


def _legs(random: Random) -> Exercise:
    """Two kinds of animals; the wrong way gives the second kind as many legs as the first."""
    (first, legs_of_first), (second, legs_of_second) = random.sample(sorted(_LEGS.items()), 2)
    a, b = random.randint(2, 8), random.randint(2, 8)
    text = random.choice(("{} {}s and {} {}s: how many legs?", "How many legs have {} {}s and {} {}s?"))
    return Exercise(
        "legs",
        text.format(a, first, b, second),
        Operation("+", Operation("*", a, legs_of_first), Operation("*", b, legs_of_second)),
        Operation("+", Operation("*", a, legs_of_first), Operation("*", b, legs_of_first)),
    )


def _equation(random: Random) -> Exercise:
    """`x + b = c` or `a * x + b = c`; the wrong way moves b to the other side without changing its sign."""
    a, b, x = random.randint(2, 5), random.randint(1, 20), random.randint(1, 30)
    sign = _sign(random)
    name = random.choice("xyn")
    scaled = random.random() < 0.5
    if scaled:
        x = random.randint(1, 12)
    left = a * x if scaled else x
    c = apply(sign, left, b)
    solution: Expression = Operation(_other(sign), c, b)
    misreading: Expression = Operation(sign, c, b)
    if scaled:
        # The wrong way stops there: its number need not be a multiple of a.
        solution = Operation("/", solution, a)
    term = f"{a} * {name}" if scaled else name
    return Exercise("equation", f"Solve {term} {sign} {b} = {c} for {name}.", solution, misreading)


_NAMES = ("Ann", "Ben", "Eva", "Max", "Tom", "Zoe")
_THINGS = ("apples", "books", "cards", "coins", "nuts", "pens")


def _story(random: Random) -> Exercise:
    """Things come and go; the wrong way takes the last change for its opposite."""
    name, things = random.choice(_NAMES), random.choice(_THINGS)
    a, b, c = random.randint(5, 40), random.randint(1, 20), random.randint(1, 20)
    form = random.randrange(4)
    last: Sign
    if form == 0:
        text = f"{name} has {a} {things}, buys {b} and loses {c}. How many now?"
        start, last = Operation("+", a, b), "-"
    elif form == 1:
        text = f"{name} has {a} {things}, gives away {b} and finds {c}. How many now?"
        start, last = Operation("-", a, b), "+"
    elif form == 2:
        a, b = random.randint(2, 5), random.randint(2, 9)
        text = f"{name} has {a} boxes of {b} {things} and loses {c}. How many now?"
        start, last = Operation("*", a, b), "-"
    else:
        a, b = random.randint(2, 5), random.randint(2, 9)
        text = f"{name} has {a} boxes of {b} {things} and finds {c}. How many now?"
        start, last = Operation("*", a, b), "+"
    return Exercise("story", text, Operation(last, start, c), Operation(_other(last), start, c))


_FAMILIES: dict[Family, Callable[[Random], Exercise]] = {
    "chain": _chain,
    "brackets": _brackets,
    "legs": _legs,
    "equation": _equation,
    "story": _story,
}
FAMILIES: tuple[Family, ...] = tuple(_FAMILIES)


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
