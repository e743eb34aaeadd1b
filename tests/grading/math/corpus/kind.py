"""Pairs of answer and reference answer, with the verdict that mathematicians agree on under the default policy."""

from collections.abc import Iterator
from typing import NamedTuple

from groupwise.grading.math.math_options import MathOptions
from groupwise.grading.records import Response, Status

Pair = tuple[str, str]

DECIDED: tuple[Status, ...] = ("wrong",)
BOUNDED: tuple[Status, ...] = ("wrong", "undecided")


class Kind(NamedTuple):
    """Pairs of one kind: `same` and `different` hold in both directions, the others only as (answer, reference)."""

    same: tuple[Pair, ...] = ()
    different: tuple[Pair, ...] = ()
    same_one_way: tuple[Pair, ...] = ()
    different_one_way: tuple[Pair, ...] = ()
    refusals: tuple[Status, ...] = DECIDED


class Case(NamedTuple):
    """One grading: the whole response, the reference answer, and the statuses that are right."""

    name: str
    response: Response
    gold: str
    statuses: tuple[Status, ...]
    policy: MathOptions = MathOptions()


def boxed(answer: str) -> Response:
    """A response that ends in this answer."""
    return written(f"Therefore the answer is $\\boxed{{{answer}}}$.")


def written(text: str, *, truncated: bool = False, opened: bool = False) -> Response:
    """A completion without its token ids, which no grader reads."""
    return Response((), text, truncated, opened)


def cases_of(name: str, kind: Kind) -> Iterator[Case]:
    """Every pair of a kind, those that hold both ways twice, as responses with a box."""
    right: tuple[Status, ...] = ("correct",)
    both = [(pair, right) for pair in kind.same] + [(pair, kind.refusals) for pair in kind.different]
    one = [(pair, right) for pair in kind.same_one_way] + [(pair, kind.refusals) for pair in kind.different_one_way]
    turned = [((gold, answer), statuses) for (answer, gold), statuses in both if answer != gold]
    for (answer, gold), statuses in [*both, *turned, *one]:
        relation = "is" if statuses == right else "is not"
        yield Case(f"{name}: {answer} {relation} {gold}"[:120], boxed(answer), gold, statuses)
