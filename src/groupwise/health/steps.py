"""Steps in the form that the rules read, out of the lines of the logs of groupwise and of other trainers."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from groupwise.errors import DataError
from groupwise.health import names
from groupwise.health.names import ALIASES


@dataclass(frozen=True, slots=True)
class StepRow:
    """What a step measured; None for what a log does not say. Fractions from 0 to 1, nats per token.

    components: mean rewards but for correctness. shares: of each reward in the variance of their sum within groups,
    correctness included. eval_count: problems that it is over. eval_error: standard error. equal: groups whose rewards
    are equal. clipped_low, clipped_high: tokens at either bound that lose their gradient. longest: tokens of an answer.
    repetition: share of an answer that was there before. answers: different ones in a group. ungraded: answers that
    could not be judged. agreement: correlation of advantages and rewards. ends_trained: share of the ends of answers
    that have a weight. unknown_ids: share of sampled ids without a token. first_pass: distance of the ratio to 1 before
    the first update. not_finite: 1 where a loss, a gradient or an entropy is no number, 0 where they are.
    """

    step: int
    correctness: float | None = None
    components: Mapping[str, float] = field(default_factory=dict)
    entropy: float | None = None
    truncated: float | None = None
    eval_accuracy: float | None = None
    eval_count: float | None = None
    eval_error: float | None = None
    all_right: float | None = None
    all_wrong: float | None = None
    equal: float | None = None
    kl_old: float | None = None
    clipped: float | None = None
    clipped_low: float | None = None
    clipped_high: float | None = None
    engine_gap: float | None = None
    grad_norm: float | None = None
    advantage_mean: float | None = None
    advantage_std: float | None = None
    shares: Mapping[str, float] = field(default_factory=dict)
    length: float | None = None
    longest: float | None = None
    repetition: float | None = None
    answers: float | None = None
    ungraded: float | None = None
    agreement: float | None = None
    ends_trained: float | None = None
    unknown_ids: float | None = None
    first_pass: float | None = None
    not_finite: float | None = None


_AS_THEY_ARE = tuple(sorted(set(ALIASES) - {"step", "correctness", "total", "eval_accuracy"}))
_PERCENT = ("eval_accuracy", "truncated", "clipped", "clipped_low", "clipped_high", "equal")


def step_of(row: Mapping[str, Any]) -> StepRow | None:
    """A line of a log, its names as `names.plain` has them; None without a step. Scales are those of the log.

    Correctness is None where no name says which reward that is: `rows_of` asks the whole log.
    """

    def number(kind: str) -> float | None:
        return next((value for name in ALIASES[kind] if (value := number_of(row.get(name))) is not None), None)

    step = number("step")
    if step is None:
        return None
    components: dict[str, float] = {}
    shares: dict[str, float] = {}
    for name, value in row.items():
        short = _component(name)
        if short and (made := number_of(value)) is not None:
            components[short] = made
        part = names.SHARE.fullmatch(name)
        if part and (made := number_of(value)) is not None:
            shares[part[1]] = made
    if "reward/all/mean" in row:
        # Of prime-rl: these are the means of its environments.
        components = {name: value for name, value in components.items() if f"reward/{name}/mean" not in row}
    return StepRow(
        step=int(step),
        correctness=number("correctness"),
        components=components,
        eval_accuracy=_evaluated(row, number("eval_accuracy")),
        clipped=_sum(row, (name for name in row if names.CLIPPED.fullmatch(name))),
        shares=shares,
        not_finite=_not_finite(row),
        **{name: number(name) for name in _AS_THEY_ARE},
    )


def number_of(value: Any) -> float | None:
    """A finite number, as one or as text; None for anything else."""
    made = _float(value)
    return made if made is not None and math.isfinite(made) else None


def _float(value: Any) -> float | None:
    if isinstance(value, bool) or value is None or value == "":
        return None
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _component(name: str) -> str | None:
    found = names.COMPONENT.fullmatch(name)
    short = found and (found["a"] or found["b"] or found["c"] or found["d"])
    return short if short and short not in names.NO_COMPONENT else None


def _sum(row: Mapping[str, Any], of: Iterable[str]) -> float | None:
    known = [value for name in of if (value := number_of(row[name])) is not None]
    return math.fsum(known) if known else None


def _evaluated(row: Mapping[str, Any], named: float | None) -> float | None:
    """The mean over data sets, where each has its own name."""
    for pattern in names.EVALUATED if named is None else ():
        known = [
            value for name, own in row.items() if pattern.fullmatch(name) and (value := number_of(own)) is not None
        ]
        if known:
            return math.fsum(known) / len(known)
    return named


def _not_finite(row: Mapping[str, Any]) -> float | None:
    known = [value for name in names.FINITE if (value := _float(row.get(name))) is not None]
    return float(not all(math.isfinite(value) for value in known)) if known else None


def rows_of(lines: Iterable[Mapping[str, Any]], name: str) -> list[StepRow]:
    """The steps of a log, in order. Where a run was resumed and did steps again, the earlier ones do not count.

    Raises:
        DataError: without a step that has a reward or an accuracy, or with the columns of several runs.
    """
    merged = _merged(lines, name)
    made = [(merged[step], row) for step in sorted(merged) if (row := step_of(merged[step])) is not None]
    rows = _fractions(_with_task(made), [line for line, _ in made])
    if not any(row.correctness is not None or row.eval_accuracy is not None for row in rows):
        known = ", ".join(sorted({key for line in merged.values() for key in line})[:12])
        raise DataError(
            f"'{name}' has no steps with a reward or an accuracy under a name that is known; it has "
            f"{known or 'no steps'}"
        )
    return rows


def _merged(lines: Iterable[Mapping[str, Any]], log: str) -> dict[int, dict[str, Any]]:
    merged: dict[int, dict[str, Any]] = {}
    runs: set[str] = set()
    newest: int | None = None
    read = [_plain(line, runs) for line in lines]
    if len(runs) > 1:
        raise DataError(f"'{log}' has the columns of several runs, {', '.join(sorted(runs)[:4])}: leave those of one")
    stepped = [(step, line) for line in read if (step := _step(line)) is not None]
    if len(stepped) > 2 and all(one > other for (one, _), (other, _) in pairwise(stepped)):
        stepped.reverse()
    for step, line in stepped:
        if _has_reward(line):
            if newest is not None and step < newest:
                merged = {other: own for other, own in merged.items() if other < step}
            newest = step
        merged.setdefault(step, {}).update(line)
    return merged


def _plain(line: Mapping[str, Any], runs: set[str]) -> dict[str, Any]:
    """Without what is empty, and by plain names; whose columns they are is noted."""
    made: dict[str, Any] = {}
    for name, value in line.items():
        # A line that is longer than the head of its table has what is left under no name.
        if not isinstance(name, str) or value is None or value == "" or name.endswith(("__MIN", "__MAX")):
            continue
        run = names.run_of(name)
        if run is not None:
            runs.add(run)
        made.setdefault(names.plain(name), value)
    return made


def _step(line: Mapping[str, Any]) -> int | None:
    known = (number_of(line.get(name)) for name in ALIASES["step"])
    return next((int(step) for step in known if step is not None), None)


def _has_reward(line: Mapping[str, Any]) -> bool:
    return any(name in line for kind in ("correctness", "total") for name in ALIASES[kind])


def _with_task(made: Sequence[tuple[Mapping[str, Any], StepRow]]) -> list[StepRow]:
    """Correctness where no line calls it that: a part of the reward, what the other parts leave of it, or all of it."""
    rows = [row for _, row in made]
    if any(row.correctness is not None for row in rows):
        return rows
    parts = frozenset(name for row in rows for name in row.components)
    task = names.task_of(parts)
    is_sum = any(names.COMPONENT.fullmatch(name) and name.endswith("_reward_avg") for line, _ in made for name in line)
    done = []
    for line, row in made:
        total = next((value for name in ALIASES["total"] if (value := number_of(line.get(name))) is not None), None)
        rest = {name: value for name, value in row.components.items() if name != task}
        if task is not None:
            own = row.components.get(task)
        else:
            own = total - math.fsum(row.components.values()) if is_sum and total is not None else total
        done.append(replace(row, correctness=own, components=rest))
    return done


def _fractions(rows: list[StepRow], lines: Sequence[Mapping[str, Any]]) -> list[StepRow]:
    """Percent as fractions, counts of groups as shares, and a reward on another scale as one from 0 to 1."""
    for name in _PERCENT:
        if max((getattr(row, name) or 0.0 for row in rows), default=0.0) > 1:
            changed: list[dict[str, Any]] = [{name: _times(getattr(row, name), 0.01)} for row in rows]
            rows = [replace(row, **change) for row, change in zip(rows, changed, strict=True)]
    if any((row.all_right or 0.0) > 1 or (row.all_wrong or 0.0) > 1 for row in rows):
        rows = [_shared(row, number_of(line.get("batch/solve_partial"))) for row, line in zip(rows, lines, strict=True)]
    if min((row.eval_accuracy or 0.0 for row in rows), default=0.0) < 0:
        rows = [
            row if row.eval_accuracy is None else replace(row, eval_accuracy=(row.eval_accuracy + 1) / 2)
            for row in rows
        ]
    known = [row.correctness for row in rows if row.correctness is not None]
    lowest = [value for line in lines if (value := number_of(line.get(names.LOWEST))) is not None]
    highest = [value for line in lines if (value := number_of(line.get(names.HIGHEST))) is not None]
    low, high = min([*known, *lowest], default=0.0), max([*known, *highest], default=1.0)
    if low >= 0 and high <= 1:
        return rows
    # Most that are below 0 are -1 for a wrong answer and 1 for a right one.
    low, high = (min(low, -1.0), max(high, 1.0)) if low < 0 else (0.0, high)
    return [
        replace(row, correctness=None if row.correctness is None else (row.correctness - low) / (high - low))
        for row in rows
    ]


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _shared(row: StepRow, partial: float | None) -> StepRow:
    """Without the groups in between, counts say nothing."""
    if partial is None or row.all_right is None or row.all_wrong is None:
        return replace(row, all_right=None, all_wrong=None)
    groups = max(row.all_right + row.all_wrong + partial, 1.0)
    return replace(row, all_right=row.all_right / groups, all_wrong=row.all_wrong / groups)
