"""What the tests of the cases said when they were last run, as points and as a page."""

import json
from pathlib import Path

from tests.battery.case import Case
from tests.battery.every import BLOCKS, CASES
from tests.faults.every import FAULTS

OUTCOMES = Path(__file__).parent / "outcomes.json"
CAUGHT = Path(__file__).parents[1] / "faults" / "caught.json"

# By test, without its parameters: `passed`, `failed` or `skipped`.
Outcomes = dict[str, str]

PAGE = """\
# Reliability

Two questions: what happens when something goes wrong, and would the tests notice if the program were wrong.
`python -m tests.battery page > docs/reliability.md` makes this page of the last runs of `python -m tests.battery` and
`python -m tests.faults`.

## Fifty cases

Each is a way in which trainers fail in use. A case has all of its points if every test named has passed, else none.
**{points} of {possible} points over the {ran} cases that ran; {points} of 100 over all.**{missing}

{cases}
## {count} faults put in on purpose

Each is one small, realistic change of the objective, the step, the rollout or the rewards, in a copy of the sources.
The tests of `make test` are then run until one fails; {noticed} of {count} are noticed.

{faults}
"""


def outcome(case: Case, outcomes: Outcomes) -> str:
    """`passed`, `failed`, or `not run`."""
    found = {outcomes.get(test, "not run") for test in case.tests}
    if case.lacks:
        return "not there"
    return "passed" if found == {"passed"} else "failed" if "failed" in found else "not run"


def points(outcomes: Outcomes) -> tuple[int, int, int]:
    """Points, points that the cases that ran could have, and how many ran."""
    results = [(case.points, outcome(case, outcomes)) for case in CASES]
    ran = [points for points, result in results if result in ("passed", "failed")]
    return sum(points for points, result in results if result == "passed"), sum(ran), len(ran)


def page() -> str:
    """The page of the documentation."""
    outcomes: Outcomes = json.loads(OUTCOMES.read_text(encoding="utf-8"))
    caught: dict[str, str] = json.loads(CAUGHT.read_text(encoding="utf-8"))
    reached, possible, ran = points(outcomes)
    missing = [f"- {case.number}: {case.lacks}" for case in CASES if case.lacks]
    missing += [
        f"- {case.number}: {outcome(case, outcomes)}"
        for case in CASES
        if outcome(case, outcomes) in ("failed", "not run")
    ]
    faults = [f"| {fault.what} | `{fault.file}` | `{short(caught.get(fault.what, ''))}` |" for fault in FAULTS]
    return PAGE.format(
        points=reached,
        possible=possible,
        ran=ran,
        missing="\n\nWithout points:\n\n" + "\n".join(missing) if missing else "",
        cases="\n".join(block_table(name, cases, outcomes) for name, cases in BLOCKS.items()),
        count=len(FAULTS),
        noticed=sum(bool(caught.get(fault.what)) for fault in FAULTS),
        faults="\n".join(["| fault | file | noticed by |", "|---|---|---|", *faults]),
    )


def block_table(name: str, cases: tuple[Case, ...], outcomes: Outcomes) -> str:
    """The cases of a block as a table."""
    rows = [
        f"### {name} ({sum(case.points for case in cases)})\n",
        "| # | case | expected | points | tests |",
        "|---|---|---|---|---|",
    ]
    for case in cases:
        result = outcome(case, outcomes)
        reached = case.points if result == "passed" else 0
        tests = "<br>".join(f"`{short(test)}`" for test in case.tests) or case.lacks
        rows.append(f"| {case.number} | {case.situation} | {case.expected} | {reached} of {case.points} | {tests} |")
    return "\n".join(rows) + "\n"


def short(test: str) -> str:
    """A test without the folder of all tests, and without what a table cannot hold."""
    return test.removeprefix("tests/").split("[")[0]
