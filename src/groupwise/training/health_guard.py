"""The health rules, live: what is new since the last look."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from groupwise.errors import DataError
from groupwise.health.conditions import Context
from groupwise.health.finding import HealthFinding
from groupwise.health.rules import findings
from groupwise.health.steps import StepRow, read_steps, step_of

EVERY_STEPS = 5
"""How often the rules are asked; all of them look back over ten steps or more."""


class Health:
    """The steps of a run so far, those before it was resumed too, and what was said of them."""

    def __init__(self, folder: Path, steps_before: int, context: Context) -> None:
        self._context, self._rows = context, list[StepRow]()
        if steps_before:
            try:
                self._rows = [row for row in read_steps(folder) if row.step <= steps_before]
            except DataError:
                self._rows = []
        self._said = {one.rule for one in findings(self._rows, context)}

    def after(self, line: Mapping[str, Any]) -> Iterator[HealthFinding]:
        """Take in a step; rules that fire for the first time."""
        row = step_of(line)
        if row is None:
            return
        self._rows.append(row)
        if row.step % EVERY_STEPS:
            return
        for one in findings(self._rows, self._context):
            if one.rule not in self._said:
                self._said.add(one.rule)
                yield one
