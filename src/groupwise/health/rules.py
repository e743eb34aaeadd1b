"""The rules asked about the steps of a run.

Each says at which step it first holds, so that a run that is watched live and its log read afterwards give the same.
"""

from collections.abc import Sequence

from groupwise.health.catalogue import RULES
from groupwise.health.conditions import Context
from groupwise.health.finding import HealthFinding, Severity
from groupwise.health.steps import StepRow


def findings(rows: Sequence[StepRow], context: Context) -> list[HealthFinding]:
    """All rules that fire, the most severe first, each once.

    rows: in the order of their steps.
    """
    found = []
    for rule in RULES:
        fired = next(rule.fires(rows, context), None)
        if fired is not None:
            step, evidence = fired
            found.append(
                HealthFinding(rule.name, rule.severity, step, rows[-1].step, evidence, rule.meaning, rule.change)
            )
    order: list[Severity] = ["critical", "warning", "info"]
    return sorted(found, key=lambda one: (order.index(one.severity), one.first_step))


def not_judged(rows: Sequence[StepRow]) -> dict[str, list[str]]:
    """Rules that could not have fired, by what their steps lack."""
    lacking: dict[str, list[str]] = {}
    for rule in RULES:
        missing = rule.missing(rows)
        if missing:
            lacking.setdefault(missing, []).append(rule.name)
    return lacking
