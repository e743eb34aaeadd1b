"""The curves of a run: which there are, out of what it measured."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from groupwise.evaluation.estimate import Z95

Rows = Sequence[Mapping[str, Any]]

POINTS = 600
"""Longer curves are shown as means over equal stretches of steps."""

QUANTILES = {"p01": "1 % quantile", "p50": "median", "p99": "99 % quantile"}
CLIPPED = "policy/clip_fraction_"


@dataclass(frozen=True)
class Curve:
    """One line of a chart: its name, the metric that it shows, and its (step, value), with an interval where there is
    one."""

    name: str
    metric: str
    points: tuple[tuple[float, float], ...]
    interval: tuple[tuple[float, float, float], ...] = ()


@dataclass(frozen=True)
class Chart:
    """Curves with one axis. axis: its name with the unit."""

    title: str
    axis: str
    curves: tuple[Curve, ...]

    def to_json(self) -> dict[str, Any]:
        """For the page."""
        curves = [{"name": c.name, "metric": c.metric, "points": c.points, "interval": c.interval} for c in self.curves]
        return {"title": self.title, "axis": self.axis, "curves": curves}


@dataclass(frozen=True)
class _Wanted:
    """metrics: patterns of names, each with the name of its curve, in which {} stands for what is in brackets."""

    title: str
    axis: str
    metrics: tuple[tuple[str, str], ...]
    scale: float = 1.0


PERCENT = 100.0
_WANTED = (
    _Wanted("Reward", "mean reward", ((r"reward/(.+)/mean", "{}"),)),
    _Wanted("Accuracy", "right answers, %", ((r"eval/(.+)/accuracy", "held out, {}"),), PERCENT),
    _Wanted(
        "Entropy",
        "nats per token",
        (
            (r"policy/entropy_at_temperature_1", "of the model"),
            (r"policy/entropy", "at the temperature"),
            (r"completion/neg_logp", "−log p of what was sampled"),
        ),
    ),
    _Wanted(
        "Groups",
        "of the sampled groups, %",
        ((r"groups/all_right", "all right"), (r"groups/all_wrong", "all wrong"), (r"groups/accept_rate", "accepted")),
        PERCENT,
    ),
    _Wanted(
        "Length",
        "tokens of a completion",
        (
            (r"completion/tokens", "mean"),
            (r"completion/tokens_right", "right answers"),
            (r"completion/tokens_wrong", "other answers"),
            (r"completion/tokens_p90", "90 % quantile"),
        ),
    ),
    _Wanted("Answers of a group", "different answers", ((r"groups/unique_answers", "different answers"),)),
    _Wanted("Repetition", "of the runs of four tokens, %", ((r"completion/repetition", "there before"),), PERCENT),
    _Wanted(
        "Endings",
        "of the completions, %",
        (
            (r"completion/truncated_fraction", "truncated"),
            (r"completion/no_answer_fraction", "without an answer"),
            (r"completion/ungraded_fraction", "not judged"),
        ),
        PERCENT,
    ),
    _Wanted("Clipping", "of the trained tokens, %", ((CLIPPED + "(.+)", "{} advantage"),), PERCENT),
    _Wanted(
        "Ratio π_new/π_old",
        "ratio",
        tuple((f"policy/ratio_{name}", label) for name, label in QUANTILES.items()),
    ),
    _Wanted(
        "KL",
        "nats per token",
        ((r"policy/approx_kl_k3", "to the old policy"), (r"policy/kl_ref_k3", "to the reference")),
    ),
    _Wanted("Gradient", "norm before clipping", ((r"optimizer/grad_norm", "gradient"),)),
    _Wanted("Update", "norm of what is added to the weights", ((r"optimizer/update_norm", "update"),)),
    _Wanted("Learning rate", "rate", ((r"optimizer/lr", "learning rate"),)),
    _Wanted(
        "Engine and trainer", "nats", ((r"engine/logp_gap_max", "largest gap"), (r"engine/logp_gap_mean", "mean gap"))
    ),
    _Wanted("Throughput", "tokens per second", ((r"time/tokens_per_second", "sampled"),)),
    _Wanted(
        "Time of a step",
        "seconds",
        ((r"time/sampling_seconds", "sampling and grading"), (r"time/training_seconds", "training")),
    ),
)


def charts_of(rows: Rows, summary: Mapping[str, Any] | None) -> list[Chart]:
    """The charts that there are numbers for; that of the accuracy with before and after, and their 95 % intervals."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    made = []
    for wanted in _WANTED:
        curves = []
        for pattern, label in wanted.metrics:
            for name in names:
                found = re.fullmatch(pattern, name)
                points = _points(rows, name, wanted.scale) if found else []
                if found and points and not (name.startswith(CLIPPED) and all(y == 0 for _, y in points)):
                    words = "".join(found.groups()).replace("_", " bound, ") if CLIPPED in name else found.groups()
                    text = label.format(words if isinstance(words, str) else "".join(words))
                    curves.append(Curve(text, name, tuple(thinned(points)), tuple(_intervals(rows, name))))
        if wanted.title == "Accuracy":
            curves = with_ends(curves, rows, summary)
        if curves:
            made.append(Chart(wanted.title, wanted.axis, tuple(curves)))
    return made


def with_ends(curves: Sequence[Curve], rows: Rows, summary: Mapping[str, Any] | None) -> list[Curve]:
    """The accuracies over steps, with those before and after the run and their intervals."""
    found = {curve.metric: curve for curve in curves}
    last = max((int(row["step"]) for row in rows), default=0)
    for step, when in ((0, "before"), (last, "after")):
        for mode, measured in ((summary or {}).get(when) or {}).items():
            accuracy = {name: PERCENT * measured["accuracy"][name] for name in ("value", "low", "high")}
            if not all(map(math.isfinite, accuracy.values())):
                continue
            metric = f"eval/{mode}/accuracy"
            old = found.get(metric, Curve(f"held out, {mode}", metric, ()))
            points = sorted([*(point for point in old.points if point[0] != step), (float(step), accuracy["value"])])
            own = (one for one in old.interval if one[0] != step)
            interval = (*own, (float(step), accuracy["low"], accuracy["high"]))
            found[metric] = Curve(old.name, metric, tuple(points), interval)
    return list(found.values())


def _intervals(rows: Rows, name: str) -> list[tuple[float, float, float]]:
    """Of an accuracy in the middle of a run: 1.96 standard errors to both sides, in percent; of nothing else."""
    mode, is_accuracy, _ = name.partition("/accuracy")
    found = []
    for row in rows if is_accuracy else ():
        value, error = row.get(name), row.get(f"{mode}/standard_error")
        if isinstance(value, int | float) and isinstance(error, int | float) and math.isfinite(value + error):
            low, high = max(0.0, value - Z95 * error), min(1.0, value + Z95 * error)
            found.append((float(row["step"]), PERCENT * low, PERCENT * high))
    return found


def _points(rows: Rows, name: str, scale: float) -> list[tuple[float, float]]:
    found = []
    for row in rows:
        value = row.get(name)
        if isinstance(value, int | float) and math.isfinite(value):
            found.append((float(row["step"]), scale * float(value)))
    return found


def thinned(points: Sequence[tuple[float, float]], most: int = POINTS) -> list[tuple[float, float]]:
    """At most so many points: each the mean of as many neighbours."""
    if len(points) <= most:
        return list(points)
    size = -(-len(points) // most)
    parts = [points[at : at + size] for at in range(0, len(points), size)]
    mean: Callable[[Sequence[float]], float] = lambda values: math.fsum(values) / len(values)  # noqa: E731
    return [(mean([x for x, _ in part]), mean([y for _, y in part])) for part in parts]
