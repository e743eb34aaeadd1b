"""Answers graded in a second on one core: `python benchmarks/grade_speed.py [--gsm8k FILE] [--math FILE] [--json]`.

GSM8K is read as JSON lines with `answer` (its number behind `####`), MATH as a JSON list or JSON lines with `answer`.
Without a file, reference answers of the same kinds are generated. Every response is about 1 kB of reasoning with a box
at its end; half of the answers are the reference answer in another spelling where that is simple, half are wrong.
math-verify grades the same pairs where it is installed, both sides in a box, in the main thread, as it has to.
Times are CPU seconds of one thread, medians over rounds; the first round, where all reference answers are new, stands
apart.
"""

import argparse
import importlib.util
import json
import random
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from groupwise.grading.math.math_grader import grade
from groupwise.grading.math.math_options import MathOptions

BOXED = MathOptions(answer="boxed")
SENTENCES = (
    "First we write down what is given and what is asked for.",
    r"Since $x + 3 = 7$, it follows that $x = 4$, and so the first part is done.",
    "She buys 12 packs of 24 pens each, which makes 12 * 24 = 288 pens.",
    r"By the quadratic formula, $x = \frac{-b \pm \sqrt{b^2 - 4ac}}{2a}$.",
    "That leaves $1,250 - $400 = $850 for the rest of the month.",
    "Let us check this with a small case: for n = 2 we get 3, as it should be.",
    r"The area of the triangle is \[ \frac{1}{2} \cdot 6 \cdot 8 = 24. \]",
    "We have to be careful with the sign here, because both sides were multiplied by -1.",
    r"Adding the two equations gives $2y = 10$, hence $y = 5$ and $\{x, y\} = \{4, 5\}$.",
)
MATH_LIKE = (
    *(
        "42",
        "-7",
        r"\frac{3}{4}",
        r"\dfrac{11}{2}",
        r"3\sqrt{13}",
        r"\left(3, \frac{\pi}{2}\right)",
        "x^2+2x+1",
        "[2,5)",
    ),
    *(
        r"(-\infty,-1)\cup(1,\infty)",
        r"\{1,2,3\}",
        r"\text{Evelyn}",
        "12,345",
        r"50\%",
        r"90^\circ",
        "2k+1",
        r"\sqrt{51}",
    ),
    *(
        r"\begin{pmatrix} -1 & 0 \\ 0 & -1 \end{pmatrix}",
        "y=2x-3",
        r"\frac{\sqrt{3}}{2}",
        "1,2,3",
        r"\pi",
        "2^{10}",
        "p-q",
    ),
    *(r"6 - 5i", r"\frac{3+\sqrt{5}}{2}", "52_8", r"\text{(C)}", r"10\text{ cm}", "0.25", r"\frac{n(n+1)}{2}", "E"),
)


class Pair(NamedTuple):
    """A response and its reference answer."""

    response: str
    gold: str


class Measured(NamedTuple):
    """One grader on one set: gradings a second, and the share of the pairs that it accepts.

    `first_per_second` is of the first round, when no reference answer had been seen before; `per_second` of the others,
    as for the samples of a group, which share their reference answer.
    """

    data: str
    grader: str
    pairs: int
    per_second: float
    first_per_second: float
    slowest_milliseconds: float
    accepted: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gsm8k", type=Path, help="JSON lines with `answer`")
    parser.add_argument("--math", type=Path, help="a JSON list or JSON lines with `answer`")
    parser.add_argument("--pairs", type=int, default=500, help="at most so many of each")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    dice = random.Random(arguments.seed)
    sets = {
        "GSM8K" if arguments.gsm8k else "like GSM8K": gsm8k_golds(arguments.gsm8k, dice),
        "MATH" if arguments.math else "like MATH": math_golds(arguments.math),
    }
    graders: dict[str, Callable[[Pair], bool]] = {"groupwise": accepted_by_groupwise}
    if importlib.util.find_spec("math_verify"):
        graders["math-verify"] = math_verify_grader()
    results = [
        measure(data, name, grader, pairs, arguments.rounds)
        for data, pairs in ((data, pairs_of(golds[: arguments.pairs], dice)) for data, golds in sets.items())
        for name, grader in graders.items()
    ]
    if arguments.json:
        print(json.dumps([result._asdict() for result in results], indent=2))
        return
    print(f"{'data':<12}{'grader':<14}{'pairs':>6}{'a second':>10}{'at first':>10}{'slowest ms':>12}{'accepted':>10}")
    for result in results:
        print(
            f"{result.data:<12}{result.grader:<14}{result.pairs:>6}{result.per_second:>10.0f}"
            f"{result.first_per_second:>10.0f}{result.slowest_milliseconds:>12.1f}{result.accepted:>10.1%}"
        )


def gsm8k_golds(path: Path | None, dice: random.Random) -> list[str]:
    """Integers, some with thousands separators."""
    if path is None:
        return [f"{dice.choice((dice.randint(1, 99), dice.randint(100, 200_000))):,}" for _ in range(500)]
    return [row["answer"].rsplit("####", 1)[-1].strip() for row in rows_of(path)]


def math_golds(path: Path | None) -> list[str]:
    """Reference answers in LaTeX."""
    return list(MATH_LIKE) * 15 if path is None else [str(row["answer"]) for row in rows_of(path)]


def rows_of(path: Path) -> list[dict[str, str]]:
    """The rows of a JSON list or of JSON lines."""
    text = path.read_text(encoding="utf-8")
    if text.lstrip().startswith("["):
        return list(json.loads(text))
    return [json.loads(line) for line in text.splitlines()]


def pairs_of(golds: Sequence[str], dice: random.Random) -> list[Pair]:
    """A response for each reference answer: the right one, respelled where that is simple, or that of another."""
    pairs = []
    for gold in golds:
        answer = respelled(gold) if dice.random() < 0.5 else dice.choice(golds)
        reasoning = " ".join(dice.choices(SENTENCES, k=15))
        pairs.append(Pair(f"{reasoning}\n\nThe final answer is $\\boxed{{{answer}}}$.", gold))
    return pairs


def respelled(gold: str) -> str:
    """The same value, written a little differently."""
    return (
        gold.replace(r"\frac", r"\dfrac").replace(" ", "").replace(r"\text", r"\text ").replace(r"\text {", r"\text{")
    )


def accepted_by_groupwise(pair: Pair) -> bool:
    """Whether groupwise says correct."""
    return grade(pair.response, pair.gold, BOXED).status == "correct"


def math_verify_grader() -> Callable[[Pair], bool]:
    """math-verify with both sides in boxes, and with its caches as they are."""
    from math_verify import parse, verify

    return lambda pair: bool(verify(parse(f"\\boxed{{{pair.gold}}}"), parse(pair.response)))


def measure(data: str, name: str, grader: Callable[[Pair], bool], pairs: Sequence[Pair], rounds: int) -> Measured:
    """One warm-up on another pair, then one round more than `rounds`."""
    grader(Pair(r"\boxed{\frac{\sqrt{2}}{2}}", r"\frac{1}{\sqrt{2}}"))
    seconds, slowest, accepted = [], 0.0, 0
    for _ in range(rounds + 1):
        total, accepted = 0.0, 0
        for pair in pairs:
            start = time.process_time()
            accepted += grader(pair)
            took = time.process_time() - start
            total += took
            slowest = max(slowest, took)
        seconds.append(total)
    count = len(pairs)
    median_seconds = statistics.median(seconds[1:])
    return Measured(data, name, count, count / median_seconds, count / seconds[0], 1e3 * slowest, accepted / count)


if __name__ == "__main__":
    main()
