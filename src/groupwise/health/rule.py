"""What a rule is."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from groupwise.health.conditions import Context, Fired, windows
from groupwise.health.finding import Severity
from groupwise.health.steps import StepRow

WORDS = {
    "eval_accuracy": "held-out accuracy", "components": "other reward than correctness", "truncated": "share cut off",
    "all_right": "share of groups all right", "all_wrong": "share of groups all wrong",
    "equal": "share of groups with equal rewards", "kl_old": "KL to the old policy", "clipped": "share clipped",
    "clipped_low": "share clipped at the lower bound", "clipped_high": "share clipped at the upper bound",
    "engine_gap": "distance of engine and trainer", "grad_norm": "norm of the gradient",
    "advantage_mean": "mean advantage", "advantage_std": "deviation of the advantages",
    "shares": "shares of the variance of rewards", "longest": "longest answer", "answers": "count of different answers",
    "ungraded": "share that could not be judged", "agreement": "correlation of advantages and rewards",
    "ends_trained": "share of trained ends", "unknown_ids": "share of unknown ids",
    "first_pass": "ratio before the first update", "not_finite": "loss or gradient",
}  # fmt: skip
"""What a field of `StepRow` is called where a log lacks it, if that is not its name."""


@dataclass(frozen=True)
class Rule:
    """fires: when it holds, for the steps up to any one; the first is reported.

    needs: fields of `StepRow` without which it cannot hold. steps: its longest window.
    """

    name: str
    severity: Severity
    fires: Callable[[Sequence[StepRow], Context], Iterator[Fired]]
    needs: tuple[str, ...]
    steps: int
    meaning: str
    change: tuple[str, ...] = ()

    def missing(self, rows: Sequence[StepRow]) -> str:
        """Why these steps do not let it hold, whatever they measured; empty where they do."""
        counts = {name: sum(_value(row, name) is not None for row in rows) for name in self.needs}
        absent = [WORDS.get(name, name) for name, count in counts.items() if not count]
        if absent:
            return f"no {', no '.join(absent)}"
        is_short = any(next(windows(rows, partial(_value, name=name), self.steps), None) is None for name in self.needs)
        if is_short:
            return f"fewer than {self.steps} steps"
        once = [WORDS.get(name, name) for name, count in counts.items() if count == 1]
        return f"only one {once[0]}" if once else ""


def _value(row: StepRow, name: str) -> float | None:
    value = getattr(row, name)
    return (1.0 if value else None) if isinstance(value, dict) else value
