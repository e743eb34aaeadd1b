"""The learning rate over the steps of a run."""

import math
from typing import Literal

Schedule = Literal["constant", "linear", "cosine"]


def lr_factor(step: int, steps: int, warmup_steps: int, schedule: Schedule, final_lr_fraction: float) -> float:
    """The share of the peak learning rate that step `step` (the first is 0) of `steps` uses.

    It rises linearly over the first `warmup_steps`, the last of which has the peak, and then falls so that the last
    step of the run has `final_lr_fraction`. Steps beyond `steps` keep that value.
    """
    if step < warmup_steps:
        return (step + 1) / warmup_steps
    if schedule == "constant":
        return 1.0
    steps_of_fall = steps - max(warmup_steps, 1)
    progress = min(1.0, (step - max(warmup_steps, 1) + 1) / steps_of_fall) if steps_of_fall > 0 else 0.0
    remaining = 1.0 - progress if schedule == "linear" else 0.5 * (1.0 + math.cos(math.pi * progress))
    return final_lr_fraction + (1.0 - final_lr_fraction) * remaining
