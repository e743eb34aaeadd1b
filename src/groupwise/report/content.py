"""What a report says in words and tables: the verdict, before and after, the completions worth a look."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from groupwise.track.rollouts import Row

MODES = ("sampled", "greedy")
SHOWN = 3
"""How many of the best, the worst and the most changed there are."""


@dataclass(frozen=True)
class Verdict:
    """kind: `better`, `worse`, `open` or `none`. text: in a sentence."""

    kind: str
    text: str


def verdict_of(rows: Sequence[Mapping[str, Any]], steps: int, summary: Mapping[str, Any] | None) -> Verdict:
    """What came of the run. A change counts where the 95 % intervals before and after do not overlap."""
    done = int(rows[-1]["step"]) if rows else 0
    if summary is None:
        return Verdict("open", f"Not finished: step {done} of {steps}. The model is not measured yet.")
    before, after = summary.get("before") or {}, summary.get("after") or {}
    mode = next((mode for mode in MODES if mode in before and mode in after), None)
    if mode is None:
        return Verdict("none", f"Finished after {done} steps. Nothing was measured on held-out problems.")
    old, new = before[mode]["accuracy"], after[mode]["accuracy"]
    words = (
        f"on {new['n']} held-out problems, {mode}: {percent(old)} before and {percent(new)} after {done} steps "
        "(95 % intervals)"
    )
    if new["low"] > old["high"]:
        return Verdict("better", f"Better {words}.")
    if new["high"] < old["low"]:
        return Verdict("worse", f"Worse {words}.")
    return Verdict("open", f"No clear change {words}: the intervals overlap.")


def percent(fraction: Mapping[str, Any]) -> str:
    """A fraction with its interval."""
    value, low, high = (100 * float(fraction[name]) for name in ("value", "low", "high"))
    return f"{value:.1f} % [{low:.1f}, {high:.1f}]" if math.isfinite(value) else "unknown"


def before_and_after(summary: Mapping[str, Any] | None) -> list[tuple[str, str, str]]:
    """A row for each measurement: its name, before, after."""
    before, after = ((summary or {}).get(when) or {} for when in ("before", "after"))
    made = []
    for mode, measured in after.items():
        old = before.get(mode)
        rows: list[tuple[str, Any, Any]] = [
            (f"accuracy, {mode}", old and old["accuracy"], measured["accuracy"]),
            *(
                (f"pass@{k}, {mode}", old and old["pass_at"].get(k), value)
                for k, value in measured.get("pass_at", {}).items()
            ),
            (f"format kept, {mode}", old and old["format_rate"], measured["format_rate"]),
            (f"truncated, {mode}", old and old["truncated"], measured["truncated"]),
        ]
        made += [(name, percent(was) if was else "", percent(now)) for name, was, now in rows]
        made.append((f"tokens, {mode}", f"{old['mean_tokens']:.1f}" if old else "", f"{measured['mean_tokens']:.1f}"))
    return made


def picked(first: Sequence[Row], last: Sequence[Row]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Completions of the first and last steps with rollouts: the best and worst of the last ones, and the problems
    whose mean reward changed most between them."""
    graded = [row for row in last if isinstance(row.get("total"), int | float)]
    by_total = sorted(graded, key=lambda row: -float(row["total"]))
    if by_total:
        yield "Best of the last steps", [_shown(row) for row in _of_each_problem(by_total)]
        yield "Worst of the last steps", [_shown(row) for row in _of_each_problem(by_total[::-1])]
    changed = _changed(first, graded)
    if changed:
        yield "Most changed problems: an answer of the first steps and one of the last", changed


def _of_each_problem(rows: Sequence[Row]) -> list[Row]:
    """The first few, of a problem only one."""
    first: dict[str, Row] = {}
    for row in rows:
        first.setdefault(str(row.get("question", "")), row)
    return list(first.values())[:SHOWN]


def _shown(row: Row) -> dict[str, Any]:
    rewards = {name: value for name, value in (row.get("rewards") or {}).items() if isinstance(value, int | float)}
    return {
        "question": str(row.get("question", "")),
        "gold": str(row.get("answer", "")),
        "completion": str(row.get("completion", "")),
        "step": int(row.get("step", 0)),
        "total": float(row["total"]),
        "rewards": rewards,
    }


def _changed(first: Sequence[Row], last: Sequence[Row]) -> list[dict[str, Any]]:
    def by_problem(rows: Sequence[Row]) -> dict[str, list[Row]]:
        made: dict[str, list[Row]] = {}
        for row in rows:
            if isinstance(row.get("total"), int | float):
                made.setdefault(str(row.get("question", "")), []).append(row)
        return made

    old, new = by_problem(first), by_problem(last)

    def mean(rows: Sequence[Row]) -> float:
        return math.fsum(float(row["total"]) for row in rows) / len(rows)

    both = sorted(old.keys() & new.keys(), key=lambda question: -abs(mean(new[question]) - mean(old[question])))
    return [_shown(rows[0]) for question in both[:SHOWN] for rows in (old[question], new[question])]
