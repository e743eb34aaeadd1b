"""When each rule on what a reward pays for, on the answers themselves and on the trainer's own arithmetic holds: as
`conditions`, which has the windows.

Thresholds of `form` were chosen on one public run, see docs/health.md; `agreement`, `ends`, `unknown_ids` and
`first_pass` are faults, whatever the run.
"""

import math
from collections.abc import Iterator, Sequence
from functools import partial
from statistics import fmean, median, pvariance

from groupwise.health.conditions import Context, Fired, earlier, start_of, windows
from groupwise.health.steps import StepRow

FORM_ENTROPY = 4 / 3
"""How many times that of the start the entropy is where a reward for the form takes over."""


def form(rows: Sequence[StepRow], _: Context) -> Iterator[Fired]:
    """The entropy rises and a reward for the form has risen, while correctness stands still."""
    names = sorted({name for row in rows for name in row.components})
    start = start_of(rows, lambda row: row.entropy) if names else None
    if start is None:
        return
    entropy = {step: median(values) for step, values in windows(rows, lambda row: row.entropy, 30)}
    correct = {step: fmean(values) for step, values in windows(rows, lambda row: row.correctness, 30)}
    others = {
        name: {step: fmean(values) for step, values in windows(rows, partial(_component, name=name), 30)}
        for name in names
    }
    for step, now in entropy.items():
        recent, before = earlier(entropy, step - 20), earlier(correct, step - 50)
        if recent is None or before is None or step not in correct:
            continue
        if now < FORM_ENTROPY * start or now < 1.1 * recent or correct[step] > before + 0.05:
            continue
        for name, means in others.items():
            first = means[min(means)] if means else 0.0
            if means.get(step, 0.0) > first + 0.1:
                yield (
                    step,
                    f"'{name}' rose from {first:.2f} to {means[step]:.2f} and the entropy from {start:.2f} to "
                    f"{now:.2f} nats, while correctness is {correct[step]:.2f} and was {before:.2f} 50 steps before",
                )


def dominated(rows: Sequence[StepRow], _: Context) -> Iterator[Fired]:
    """Another reward than correctness decides which answers are better."""
    by_step = {row.step: row for row in rows if row.shares}
    for step, values in windows(rows, lambda row: row.shares.get("correctness"), 20):
        now = by_step[step]
        largest = max(now.shares, key=now.shares.__getitem__)
        # A weight of 0 is no accident: another reward is the task.
        if 0 < fmean(values) < 0.4 and largest != "correctness" and (now.correctness or 0.0) < 0.9:
            yield (
                step,
                f"correctness makes {100 * fmean(values):.0f} % of the variance of the rewards within groups in the "
                f"last 20 steps, '{largest}' {100 * now.shares[largest]:.0f} %",
            )


def reward_drop(rows: Sequence[StepRow], _: Context) -> Iterator[Fired]:
    """Far fewer answers are right than were before."""
    best = 0.0
    for step, values in windows(rows, lambda row: row.correctness, 30):
        now = fmean(values)
        best = max(best, now)
        if best >= 0.1 and now < 0.5 * best:
            yield step, f"correctness, mean of 30 steps, fell from {best:.2f} to {now:.2f}"


def no_progress(rows: Sequence[StepRow], _: Context) -> Iterator[Fired]:
    """No more answers are right than at first, although groups tell answers apart."""
    signal = dict(windows(rows, _signal, 20))
    first: tuple[int, float, float] | None = None
    for step, values in windows(rows, lambda row: row.correctness, 30):
        mean, variance = fmean(values), pvariance(values) / len(values)
        first = first or (step, mean, variance)
        if step < first[0] + 50 or step not in signal or fmean(signal[step]) < 0.25 or mean >= 0.9:
            continue
        if mean < first[1] + 2 * math.sqrt(first[2] + variance):
            yield step, f"correctness is {mean:.2f} over 30 steps, and was {first[1]:.2f} over the first 30"


def _signal(row: StepRow) -> float | None:
    """Share of the groups with right and wrong answers."""
    return None if row.all_right is None or row.all_wrong is None else 1 - row.all_right - row.all_wrong


def repeats(rows: Sequence[StepRow], _: Context) -> Iterator[Fired]:
    """Answers repeat themselves, more than at the start."""
    start = start_of(rows, lambda row: row.repetition)
    for step, values in windows(rows, lambda row: row.repetition, 10):
        if median(values) > 0.3 + (start or 0.0):
            yield step, f"{100 * median(values):.0f} % of an answer was there before, of runs of four tokens"


def one_answer(rows: Sequence[StepRow], _: Context) -> Iterator[Fired]:
    """All answers of a group are the same, and often not right."""
    correct = dict(windows(rows, lambda row: row.correctness, 20))
    for step, values in windows(rows, lambda row: row.answers, 20):
        if fmean(values) < 1.2 and step in correct and fmean(correct[step]) < 0.8:
            yield (
                step,
                f"a group has {fmean(values):.2f} different answers, {100 * fmean(correct[step]):.0f} % are right",
            )


def longer(rows: Sequence[StepRow], _: Context) -> Iterator[Fired]:
    """Answers grow and more of them are cut off, and no more of them are right."""
    start = start_of(rows, lambda row: row.length)
    correct = dict(windows(rows, lambda row: row.correctness, 20))
    cut = dict(windows(rows, lambda row: row.truncated, 20))
    for step, values in windows(rows, lambda row: row.length, 20) if start else ():
        before = earlier(correct, step - 50)
        if step not in cut or step not in correct or before is None:
            continue
        is_no_better = fmean(correct[step]) < fmean(before) + 0.02
        if fmean(values) > 1.5 * (start or 0.0) and fmean(cut[step]) > 0.1 and is_no_better:
            yield (
                step,
                f"answers grew from {start:.0f} to {fmean(values):.0f} tokens, {100 * fmean(cut[step]):.0f} % cut off",
            )


def ungraded(rows: Sequence[StepRow], _: Context) -> Iterator[Fired]:
    """Many answers cannot be judged."""
    for step, values in windows(rows, lambda row: row.ungraded, 5):
        if fmean(values) > 0.2:
            yield step, f"a reward could not judge {100 * fmean(values):.0f} % of the answers of the last 5 steps"


def agreement(rows: Sequence[StepRow], _: Context) -> Iterator[Fired]:
    """Better answers have no larger advantages."""
    for step, values in windows(rows, lambda row: row.agreement, 5):
        if fmean(values) < 0.3:
            yield step, f"advantages and rewards within groups correlate by {fmean(values):.2f} in the last 5 steps"


def ends(rows: Sequence[StepRow], _: Context) -> Iterator[Fired]:
    """The token that ends an answer is not trained."""
    for step, values in windows(rows, lambda row: row.ends_trained, 5):
        if fmean(values) < 0.5:
            yield (
                step,
                f"{100 * (1 - fmean(values)):.0f} % of the stop ids that answers end with have no weight in the loss",
            )


def unknown_ids(rows: Sequence[StepRow], _: Context) -> Iterator[Fired]:
    """The engine samples ids that the tokenizer does not know."""
    for step, values in windows(rows, lambda row: row.unknown_ids, 5):
        if max(values) > 0:
            yield step, f"{100 * max(values):.2g} % of the sampled ids have no token"


def first_pass(rows: Sequence[StepRow], _: Context) -> Iterator[Fired]:
    """The ratio is not 1 before the first update."""
    for step, values in windows(rows, lambda row: row.first_pass, 5):
        if median(values) > 0.1:
            yield step, f"before the first update of a step the ratio of a token is {median(values):.2f} away from 1"


def _component(row: StepRow, name: str) -> float | None:
    return row.components.get(name)
