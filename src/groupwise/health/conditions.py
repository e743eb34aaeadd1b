"""When each rule holds: the steps so far in, the steps at which it holds out, with the evidence.

Windows count steps, not rows. Thresholds were chosen on runs with a known end: three public ones with held-out
accuracies, and healthy and broken ones of the bundled model (benchmarks/health_runs.py, docs/health.md).
"""

import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from statistics import fmean, median, pvariance
from typing import TypeVar

from groupwise.health.steps import StepRow

# ln|V| where the vocabulary is not known: that of most models of today.
USUAL_VOCABULARY = 150_000

START = (5, 40)
"""Steps that the start of a run is judged by."""


@dataclass(frozen=True)
class Context:
    """What a rule knows beside the steps. vocabulary: tokens. eval_problems: where the log does not say how many."""

    vocabulary: int = USUAL_VOCABULARY
    eval_problems: int = 500

    @property
    def most_nats(self) -> float:
        """Entropy of the uniform distribution over the vocabulary."""
        return math.log(self.vocabulary)


Value = Callable[[StepRow], float | None]

Fired = tuple[int, str]
"""The step, and the evidence."""


def windows(
    rows: Sequence[StepRow], of: Callable[[StepRow], float | None], size: int
) -> Iterator[tuple[int, list[float]]]:
    """Each step at which `size` steps back from it have numbers, with these; gaps in a log make no window shorter.

    A log of every tenth step has a tenth of the numbers; half of those that its first steps let one expect are enough.
    """
    known = [(row.step, value) for row in rows if (value := of(row)) is not None]
    spacing = spacing_of([step for step, _ in known])
    first = 0
    for at, (step, _) in enumerate(known):
        while known[first][0] <= step - size:
            first += 1
        if step - size + spacing >= known[0][0] and at - first + 1 >= size // (2 * spacing):
            yield step, [value for _, value in known[first : at + 1]]


def spacing_of(steps: Sequence[int]) -> int:
    """Every how many steps a log has a line, by its first ones."""
    return max(1, int(median(later - earlier for earlier, later in pairwise(steps[:20])))) if len(steps) > 2 else 1


T = TypeVar("T")


def earlier(means: Mapping[int, T], step: int) -> T | None:
    """What was there at a step, or at the last one before that the log has, up to 25 back."""
    return next((means[at] for at in range(step, step - 26, -1) if at in means), None)


def start_of(rows: Sequence[StepRow], of: Value) -> float | None:
    """The median of the first steps, which the run is compared with."""
    if not rows:
        return None
    begin = rows[0].step
    early = [value for row in rows if START[0] <= row.step - begin + 1 <= START[1] and (value := of(row)) is not None]
    spacing = spacing_of([row.step for row in rows if of(row) is not None])
    return median(early) if len(early) >= max(2, 10 // spacing) else None


def uniform(rows: Sequence[StepRow], context: Context) -> Iterator[Fired]:
    """The model says anything with equal probability."""
    for step, values in windows(rows, lambda row: row.entropy, 10):
        if median(values) > 0.9 * context.most_nats:
            yield step, f"the entropy is {median(values):.2f} nats, of {context.most_nats:.2f} for equal probabilities"


def explosion(rows: Sequence[StepRow], context: Context) -> Iterator[Fired]:
    """The entropy is far above its start."""
    start = start_of(rows, lambda row: row.entropy)
    for step, values in windows(rows, lambda row: row.entropy, 10) if start is not None else ():
        limit = max(4 * (start or 0.0), 0.08 * context.most_nats)
        if step > rows[0].step + START[0] + 10 and median(values) > limit:
            yield step, f"the entropy rose from {start:.2f} to {median(values):.2f} nats"


def collapse(rows: Sequence[StepRow], _: Context) -> Iterator[Fired]:
    """The entropy is far below its start, and the reward does not rise."""
    start = start_of(rows, lambda row: row.entropy)
    rewards = dict(windows(rows, lambda row: row.correctness, 30))
    for step, values in windows(rows, lambda row: row.entropy, 10) if start is not None else ():
        now, before = earlier(rewards, step), earlier(rewards, step - 50)
        if now is None or before is None or median(values) >= 0.1 * (start or 0.0):
            continue
        if fmean(now) < fmean(before) + 0.02 and fmean(now) < 0.9:
            yield (
                step,
                f"the entropy fell from {start:.3f} to {median(values):.3f} nats and the reward no longer rises",
            )


def nothing_right(rows: Sequence[StepRow], _: Context) -> Iterator[Fired]:
    """No answer is right."""
    had = False
    for step, values in windows(rows, lambda row: row.correctness, 30):
        had = had or max(values) > 0
        if max(values) <= 0:
            yield step, f"no answer was right in the last 30 steps{', some were before' if had else ''}"


def truncated(rows: Sequence[StepRow], _: Context) -> Iterator[Fired]:
    """Nearly all answers are cut off."""
    for step, values in windows(rows, lambda row: row.truncated, 20):
        if fmean(values) >= 0.9:
            yield step, f"{100 * fmean(values):.0f} % of the answers of the last 20 steps have no end"


def often_truncated(rows: Sequence[StepRow], _: Context) -> Iterator[Fired]:
    """Many answers are cut off."""
    for step, values in windows(rows, lambda row: row.truncated, 20):
        if fmean(values) >= 0.3:
            yield step, f"{100 * fmean(values):.0f} % of the answers of the last 20 steps are cut off"


def eval_drop(rows: Sequence[StepRow], context: Context) -> Iterator[Fired]:
    """The held-out accuracy is below its best by more than three standard errors of the difference."""
    best: tuple[float, int, float] | None = None
    for row in rows:
        if row.eval_accuracy is None:
            continue
        count = row.eval_count or context.eval_problems
        now, own_error = row.eval_accuracy, _standard_error(row, count)
        if best is not None and now < best[0]:
            error = math.hypot(best[2], own_error)
            if best[0] - now > 3 * error:
                yield (
                    row.step,
                    (
                        f"held-out accuracy fell from {100 * best[0]:.1f} % at step {best[1]} to {100 * now:.1f} %, "
                        f"{(best[0] - now) / error:.1f} standard errors"
                    ),
                )
        if best is None or now > best[0]:
            best = now, row.step, own_error


def _standard_error(row: StepRow, count: float) -> float:
    """Of an accuracy; one more right and one more wrong answer keep it above 0 where all or none were right."""
    right = ((row.eval_accuracy or 0.0) * count + 1) / (count + 2)
    smallest = math.sqrt(1 / (count + 2) * (1 - 1 / (count + 2)) / count)
    return max(smallest, row.eval_error or math.sqrt(right * (1 - right) / count))


def divergence(rows: Sequence[StepRow], _: Context) -> Iterator[Fired]:
    """Correctness falls while another reward does not."""
    names = sorted({name for row in rows for name in row.components})
    others = {
        name: {step: fmean(values) for step, values in windows(rows, partial(_component, name=name), 30)}
        for name in names
    }
    waiting: deque[tuple[int, float, float]] = deque()
    best: tuple[int, float, float] | None = None
    for step, values in windows(rows, lambda row: row.correctness, 30):
        now = step, fmean(values), pvariance(values) / len(values)
        waiting.append(now)
        while waiting[0][0] <= step - 30:
            earlier = waiting.popleft()
            best = earlier if best is None or earlier[1] > best[1] else best
        # Both means have an error; three of that of their difference at the least.
        if best is None or best[1] - now[1] <= max(0.15, 3 * math.sqrt(best[2] + now[2])):
            continue
        for name, means in others.items():
            if best[0] in means and step in means and means[step] > means[best[0]] - 0.05:
                yield (
                    step,
                    (
                        f"since step {best[0]} correctness fell from {best[1]:.2f} to {now[1]:.2f}, while '{name}' "
                        f"went from {means[best[0]]:.2f} to {means[step]:.2f}"
                    ),
                )


def _component(row: StepRow, name: str) -> float | None:
    return row.components.get(name)


def too_easy(rows: Sequence[StepRow], _: Context) -> Iterator[Fired]:
    """Most groups are all right."""
    for step, values in windows(rows, lambda row: row.all_right, 20):
        if fmean(values) >= 0.75:
            yield step, f"in {100 * fmean(values):.0f} % of the groups of the last 20 steps every answer is right"


def too_hard(rows: Sequence[StepRow], _: Context) -> Iterator[Fired]:
    """Most groups are all wrong."""
    for step, values in windows(rows, lambda row: row.all_wrong, 20):
        if fmean(values) >= 0.75:
            yield step, f"in {100 * fmean(values):.0f} % of the groups of the last 20 steps every answer is wrong"


def drift(rows: Sequence[StepRow], _: Context) -> Iterator[Fired]:
    """The policy moves far within a step."""
    for step, values in windows(rows, lambda row: row.kl_old, 10):
        if median(values) > 0.1:
            yield step, f"the policy moves {median(values):.2f} nats per token within a step"


CLIPPED_NATS = 1.2 - 1 - math.log(1.2)
"""r - 1 - log r of a token at the bound of 1.2: less per clipped token than half of that means that the bounds are
narrow, as GSPO's, and not that the steps are large."""


def clipped(rows: Sequence[StepRow], _: Context) -> Iterator[Fired]:
    """Many tokens are clipped, and the policy moved as far as that says."""
    moved = dict(windows(rows, lambda row: row.kl_old, 10))
    for step, values in windows(rows, lambda row: row.clipped, 10):
        share = median(values)
        if share > 0.2 and (step not in moved or median(moved[step]) > 0.5 * share * CLIPPED_NATS):
            yield step, f"{100 * share:.0f} % of the tokens are clipped"


def engine(rows: Sequence[StepRow], _: Context) -> Iterator[Fired]:
    """Engine and trainer differ."""
    for step, values in windows(rows, lambda row: row.engine_gap, 5):
        if median(values) > 0.05:
            yield step, f"engine and trainer differ by {median(values):.3f} nats per token on average"


def no_gradient(rows: Sequence[StepRow], _: Context) -> Iterator[Fired]:
    """Many steps have no gradient."""
    for step, values in windows(rows, lambda row: row.grad_norm, 20):
        if sum(value == 0 for value in values) >= 0.5 * len(values):
            yield step, "half of the last 20 steps have no gradient"


def spikes(rows: Sequence[StepRow], _: Context) -> Iterator[Fired]:
    """Some gradients are far above the usual."""
    known = {row.step: row.grad_norm for row in rows if row.grad_norm is not None}
    recent: list[int] = []
    for step, values in windows(rows, lambda row: row.grad_norm, 50):
        usual = median(values)
        spread = median([abs(value - usual) for value in values])
        if known[step] > max(5 * usual, usual + 10 * spread) > 0:
            recent = [*(other for other in recent if other > step - 50), step]
            if len(recent) >= 3:
                yield step, f"the gradient of {len(recent)} of the last 50 steps is over 5 times the usual {usual:.3g}"


def biased(rows: Sequence[StepRow], _: Context) -> Iterator[Fired]:
    """Advantages are not centred."""
    scale = {row.step: row.advantage_std for row in rows}
    for step, values in windows(rows, lambda row: row.advantage_mean, 20):
        deviation = scale.get(step) or 0.0
        if deviation > 0 and abs(fmean(values)) > 0.2 * deviation:
            yield step, f"the mean advantage of the last 20 steps is {fmean(values):.3g}, its deviation {deviation:.3g}"
