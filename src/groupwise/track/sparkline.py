"""A curve in one line of text."""

from collections.abc import Iterable, Sequence

import numpy as np

_BARS = "▁▂▃▄▅▆▇█"
CURVES = {"reward": "reward/total/mean", "entropy": "policy/entropy", "tokens": "completion/tokens"}
"""What the panel draws, by its label."""


def sparkline(values: Iterable[object], width: int = 40) -> str:
    """At most `width` bars from the lowest to the highest of the finite values, each a mean over neighbours."""
    numbers = np.array([value for value in values if isinstance(value, int | float)], dtype=np.float64)
    numbers = numbers[np.isfinite(numbers)]
    if not numbers.size:
        return ""
    means = np.array([part.mean() for part in np.array_split(numbers, min(width, numbers.size))])
    low, span = means.min(), np.ptp(means)
    heights = np.zeros(means.size) if span == 0 else (means - low) / span * (len(_BARS) - 1)
    return "".join(_BARS[round(height)] for height in heights)


def curves(lines: Sequence[dict[str, object]]) -> list[tuple[str, str]]:
    """The curves of a run by their labels, with the first and the last value; those that were measured."""
    shown = []
    for label, key in CURVES.items():
        values = [value for line in lines if isinstance(value := line.get(key), int | float)]
        if values:
            shown.append((label, f"{values[0]:<7.3g} {sparkline(values)} {values[-1]:.3g}"))
    return shown
