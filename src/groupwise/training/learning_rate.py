"""The learning rate over the steps of a run."""

import math
from typing import Literal

Schedule = Literal["constant", "linear", "cosine"]


def lr_factor(step: int, steps: int, warmup_steps: int, schedule: Schedule, final_lr_fraction: float) -> float:
    """The share of the peak learning rate that step `step` (the first is 0) of `steps` uses.

    It rises linearly over the first `warmup_steps`, the last of which has the peak, and then falls so that the last
    step of the run has `final_lr_fraction`. A fall to 0 reaches it one step later, as in transformers: no step samples
    for nothing. Steps beyond `steps` have the rate of the last one.
    """
    if step < warmup_steps:
        return (step + 1) / warmup_steps
    if schedule == "constant":
        return 1.0
    peak = max(warmup_steps, 1) - 1
    end = steps - 1 if final_lr_fraction > 0 else steps
    after_peak = min(step, steps - 1) - peak
    progress = after_peak / (end - peak) if after_peak > 0 else 0.0
    remaining = 1.0 - progress if schedule == "linear" else 0.5 * (1.0 + math.cos(math.pi * progress))
    return final_lr_fraction + (1.0 - final_lr_fraction) * remaining
