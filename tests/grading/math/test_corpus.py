"""The corpus: every verdict, each within its time."""

import math
from functools import partial

import pytest

from groupwise.grading.math.math_grader import gold_error, grade
from groupwise.grading.math.math_options import MathOptions
from tests.grading.math.corpus import KINDS, all_cases
from tests.grading.math.corpus.kind import Case
from tests.grading.math.timing import cpu_milliseconds

MOST_MILLISECONDS = 50.0
CASES = all_cases()


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_verdict(case: Case) -> None:
    verdict = grade(case.response, case.gold, case.policy)
    assert verdict.status in case.statuses, verdict
    assert verdict.score == (1.0 if verdict.status == "correct" else 0.0)


def test_every_case_takes_less_than_the_bound() -> None:
    times = {
        case.name: cpu_milliseconds(partial(grade, case.response, case.gold, case.policy), MOST_MILLISECONDS)
        for case in CASES
    }
    assert {name: time for name, time in times.items() if time >= MOST_MILLISECONDS} == {}


def test_names_are_unique() -> None:
    names = [(case.name, case.policy.answer) for case in CASES]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_has_pairs_of_both_verdicts(name: str) -> None:
    kind = KINDS[name]
    assert name == "division by zero" or len(kind.same) + len(kind.same_one_way) >= 8
    assert name == "division by zero" or len(kind.different) + len(kind.different_one_way) >= 8


@pytest.mark.parametrize("name", KINDS)
def test_every_reference_accepts_itself(name: str) -> None:
    for pair in (*KINDS[name].same, *KINDS[name].same_one_way):
        for gold in pair:
            assert gold_error(gold, MathOptions()) == "", gold
            assert grade(rf"\boxed{{{gold}}}", gold).status == "correct", gold


@pytest.mark.parametrize("gold", ["", "   ", r"\boxed{}", "$$"])
def test_an_unusable_reference_is_no_verdict_on_the_response(gold: str) -> None:
    verdict = grade(r"\boxed{7}", gold)
    assert verdict.status == "gold_bad"
    assert math.isnan(verdict.score)
    assert gold_error(gold, MathOptions()) != ""
