"""What the tests of the cases said when they were last run, as points and as a page."""

import json
from pathlib import Path
from typing import Any

from tests.battery.case import Case
from tests.battery.every import BLOCKS, CASES
from tests.battery.figures import FIGURES
from tests.battery.items import ITEMS
from tests.faults.every import FAULTS

OUTCOMES = Path(__file__).parent / "outcomes.json"
CAUGHT = Path(__file__).parents[1] / "faults" / "caught.json"

# By test, without its parameters: `passed`, `failed` or `skipped`.
Outcomes = dict[str, str]
# By part, see `tests.battery.figures.PARTS`.
Figures = dict[str, Any]

PAGE = """\
# Reliability

What happens when something goes wrong, and would the tests notice if the program were wrong?
`python -m tests.battery page > docs/reliability.md` makes this page of the last runs of `python -m tests.battery`,
`python -m tests.battery figures` and `python -m tests.faults all`. What a run promises is in
[A run folder](run-folder.md#what-is-promised), what stops it in [Configuration](configuration.md#guards).

## Fifty cases

Each is a way in which trainers fail in use. A case has all of its points if every test named has passed, else none.
**{points} of {possible} points over the {ran} cases that ran; {points} of 100 over all.**{missing}

{cases}
## Stopped again and again

`python -m tests.battery figures`, on two cores:

{figures}

## What broke in use

Each stands for its kind: training that continues although it is broken (N), stopping and resuming (S), the mathematics
at its edges (M).

{items}

## {count} faults put in on purpose

Each is one small, realistic change of the objective, the step, the rollout or the rewards, in a copy of the sources.
`python -m tests.faults all` runs the tests until one fails; {noticed} of {count} are noticed.

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
    items = [f"| {item.name} | {item.was} | {listed(item.tests)} |" for item in ITEMS]
    return PAGE.format(
        points=reached,
        possible=possible,
        ran=ran,
        missing="\n\nWithout points:\n\n" + "\n".join(missing) if missing else "",
        figures=measured(json.loads(FIGURES.read_text(encoding="utf-8"))),
        items="\n".join(["| | what happened | what would notice it |", "|---|---|---|", *items]),
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
        tests = listed(case.tests) or case.lacks
        rows.append(f"| {case.number} | {case.situation} | {case.expected} | {reached} of {case.points} | {tests} |")
    return "\n".join(rows) + "\n"


def measured(figures: Figures) -> str:
    """What takes too long for a test, in sentences; see `tests.battery.figures`."""
    lines = []
    for name in ("SIGKILL", "SIGTERM"):
        found = figures[name]
        took = "" if name == "SIGKILL" else f" No process took longer to end than {found['longest seconds']} s."
        lines.append(
            f"- {found['signals']} times {name} at a random instant in the life of a run of three steps with "
            f"`run.resume=auto`, its beginning and its end included ({found['before the first step']} of them before "
            f"a step was written), then the same command again: {found['runs']} runs came to their end, each with the "
            f"metrics, completions and weights of an undisturbed one, byte for byte but for `time/…`.{took}"
        )
    sweep, growth = figures["sweep"], figures["growth"]
    lines.append(
        f"- {sweep['operations']} operations on the disk in the life of a run, which was killed before, in and behind "
        f"each of them, and each refused by the system: {sweep['operations'] * sweep['ways']} runs, resumed by the "
        "same command, compared in the same way, and never without a sound checkpoint after the first."
    )
    held = [
        f"{size / 2**20:.1f} MiB, {descriptors} descriptors and {processes} child processes after {step} steps"
        for step, size, descriptors, processes in zip(*growth.values(), strict=True)
    ]
    lines.append(f"- {growth['steps'][-1]} tiny steps, each with an update: {'; '.join(held)}.")
    return "\n".join(lines)


def listed(tests: tuple[str, ...]) -> str:
    """Tests in a cell of a table."""
    return "<br>".join(f"`{short(test)}`" for test in tests)


def short(test: str) -> str:
    """A test without the folder of all tests, and without what a table cannot hold."""
    return test.removeprefix("tests/").split("[")[0]
