"""`python -m tests.battery` runs the cases, all or those of some numbers, and prints points; `page` prints the page;
`figures` measures what the page has besides, see figures.py.
"""

import json
import os
import signal
import sys

import pytest

from tests.battery.every import BLOCKS, CASES
from tests.battery.figures import measure
from tests.battery.score import OUTCOMES, Outcomes, outcome, page, points
from tests.faults.fault import ROOT


class _Kept:
    """The outcome of each test over all its parameters: the worst counts."""

    def __init__(self) -> None:
        self.outcomes: Outcomes = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name, order = report.nodeid.split("[")[0], ["skipped", "passed", "failed"]
        if report.when == "call" or report.outcome != "passed":
            self.outcomes[name] = max(self.outcomes.get(name, "skipped"), report.outcome, key=order.index)


def main(arguments: list[str]) -> int:
    # A shell that runs this in the background has it ignored, and so would all that it starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if arguments == ["page"]:
        sys.stdout.write(page())
        return 0
    if arguments[:1] == ["figures"]:
        measure(arguments[1:])
        return 0
    os.chdir(ROOT)
    known: Outcomes = json.loads(OUTCOMES.read_text(encoding="utf-8")) if OUTCOMES.is_file() else {}
    for name, cases in BLOCKS.items():
        chosen = [case for case in cases if not arguments or str(case.number) in arguments]
        tests = list(dict.fromkeys(test for case in chosen for test in case.tests))
        kept = _Kept()
        if tests:
            pytest.main(["-q", "-m", "not gpu", "-p", "no:cacheprovider", *tests], plugins=[kept])
        known |= kept.outcomes
        named = {test for case in CASES for test in case.tests}
        ordered = {test: known[test] for test in sorted(known.keys() & named)}
        OUTCOMES.write_text(json.dumps(ordered, indent=1) + "\n", encoding="utf-8")
        for case in chosen:
            print(f"{case.number:3} {case.points} {outcome(case, known):10} {name}: {case.situation}", flush=True)
    reached, possible, ran = points(known)
    print(f"{reached} of {possible} points over {ran} cases that ran, {reached} of 100 over all")
    return int(reached < possible)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
