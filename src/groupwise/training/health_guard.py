"""The health rules, live: what is new since the last look."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from groupwise.errors import DataError
from groupwise.health.conditions import Context
from groupwise.health.finding import HealthFinding
from groupwise.health.logs import read_steps
from groupwise.health.rules import findings
from groupwise.health.steps import StepRow, step_of

EVERY_STEPS = 5
"""How often the rules are asked at first. They look at all steps so far, so that in a long run it is every hundredth of
these, which costs the same share of the time at any length."""


class Health:
    """The steps of a run so far, those before it was resumed too, and what was said of them."""

    def __init__(self, folder: Path, steps_before: int, context: Context) -> None:
        self._context, self._rows, self._due = context, list[StepRow](), steps_before + 1
        if steps_before:
            try:
                self._rows = [row for row in read_steps(folder) if row.step <= steps_before]
            except DataError:
                self._rows = []
        self.found: list[HealthFinding] | None = None
        """All that was found when the rules were asked last; None before."""
        self._said = {one.rule for one in findings(self._rows, context)}

    def after(self, line: Mapping[str, Any]) -> Iterator[HealthFinding]:
        """Take in a step; rules that fire for the first time."""
        row = step_of(line)
        if row is None:
            return
        self._rows.append(row)
        every = max(EVERY_STEPS, row.step // 100)
        if row.step < self._due or row.step % EVERY_STEPS:
            return
        self._due = row.step + every
        self.found = findings(self._rows, self._context)
        for one in self.found:
            if one.rule not in self._said:
                self._said.add(one.rule)
                yield one
