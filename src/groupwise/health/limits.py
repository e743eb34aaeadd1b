"""When each rule on limits holds, of the length of an answer and of the ratio, and on numbers that are none."""

from collections.abc import Iterator, Sequence
from statistics import fmean, stdev

from groupwise.health.conditions import Context, Fired, windows
from groupwise.health.steps import StepRow


def pressed(rows: Sequence[StepRow], _: Context) -> Iterator[Fired]:
    """Answers were cut off at the start, and since then nearly all are as long as the longest."""
    cut = next(windows(rows, lambda row: row.truncated, 10), None)
    # Two standard errors of the first ten steps above a tenth.
    if cut is None or len(cut[1]) < 2 or fmean(cut[1]) - 2 * stdev(cut[1]) / len(cut[1]) ** 0.5 < 0.1:
        return
    for step, values in windows(rows, _fill, 10):
        if fmean(values) > 0.9:
            yield (
                step,
                f"{100 * fmean(cut[1]):.0f} % of the answers of the first 10 steps are cut off, and in the last 10 "
                f"an answer has {100 * fmean(values):.0f} % of the tokens of the longest",
            )


def _fill(row: StepRow) -> float | None:
    return row.length / row.longest if row.length is not None and row.longest else None


def one_sided(rows: Sequence[StepRow], _: Context) -> Iterator[Fired]:
    """Nearly all clipped tokens are clipped at the same bound, and they are many."""
    low = dict(windows(rows, lambda row: row.clipped_low, 20))
    for step, high in windows(rows, lambda row: row.clipped_high, 20):
        if step not in low:
            continue
        above, below = fmean(high), fmean(low[step])
        if above + below > 0.05 and max(above, below) > 20 * min(above, below):
            bound, sign = ("upper", "better") if above > below else ("lower", "worse")
            yield (
                step,
                f"{100 * (above + below):.0f} % of the tokens of the last 20 steps are clipped, nearly all of answers "
                f"{sign} than their group's, at the {bound} bound",
            )


def equal_rewards(rows: Sequence[StepRow], _: Context) -> Iterator[Fired]:
    """Hardly a group has different rewards."""
    for step, values in windows(rows, lambda row: row.equal, 20):
        if fmean(values) > 0.9:
            yield step, f"in {100 * fmean(values):.0f} % of the groups of the last 20 steps all rewards are equal"


def not_finite(rows: Sequence[StepRow], _: Context) -> Iterator[Fired]:
    """Loss, gradient or entropy are no numbers."""
    for step, values in windows(rows, lambda row: row.not_finite, 10):
        if fmean(values) >= 0.5:
            yield step, f"in {sum(values):.0f} of the last 10 steps a loss, a gradient or an entropy is not finite"
