"""The grader works where a trainer calls it: in threads, deep in a stack, in any order, with any integer limit."""

import signal
import sys
import tracemalloc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from groupwise.grading.math.math_grader import grade
from groupwise.grading.records import Status
from tests.grading.math.corpus import all_cases
from tests.grading.math.corpus.kind import Case

CASES = all_cases()


def statuses(cases: list[Case]) -> list[Status]:
    return [grade(case.response, case.gold, case.policy).status for case in cases]


def test_threads_and_order_change_no_verdict() -> None:
    expected = statuses(CASES)
    with ThreadPoolExecutor(4) as pool:
        threaded = list(pool.map(lambda case: statuses([case])[0], CASES))
    assert threaded == expected
    assert statuses(CASES[::-1])[::-1] == expected


def test_deep_in_a_stack() -> None:
    def at_depth(frames: int, call: Callable[[], list[Status]]) -> list[Status]:
        return call() if frames == 0 else at_depth(frames - 1, call)

    assert at_depth(sys.getrecursionlimit() // 3, lambda: statuses(CASES)) == statuses(CASES)


def test_settings_of_the_process_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signal, "signal", lambda *_: pytest.fail("a signal handler was set"))
    monkeypatch.setattr(signal, "setitimer", lambda *_: pytest.fail("a timer was set"))
    before = (sys.getrecursionlimit(), sys.get_int_max_str_digits())
    statuses(CASES)
    assert (sys.getrecursionlimit(), sys.get_int_max_str_digits()) == before


def test_a_low_limit_of_integer_digits_changes_no_verdict() -> None:
    expected = statuses(CASES)
    before = sys.get_int_max_str_digits()
    try:
        sys.set_int_max_str_digits(640)
        assert statuses(CASES) == expected
    finally:
        sys.set_int_max_str_digits(before)


@pytest.mark.slow
def test_no_memory_is_kept() -> None:
    statuses(CASES)
    tracemalloc.start()
    try:
        statuses(CASES)
        first = tracemalloc.get_traced_memory()[0]
        for round_number in range(3):
            for case in CASES:
                grade(case.response, f"{case.gold}{' ' * round_number}", case.policy)
        kept = tracemalloc.get_traced_memory()[0] - first
    finally:
        tracemalloc.stop()
    assert kept < 8_000_000
