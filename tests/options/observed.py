"""What cases look at: in a run of a few seconds, the things that options change or must not change."""

from typing import Any

import numpy as np

from tests.options.runs import Floats, Trace, flat


def what_was_sampled(trace: Trace) -> Any:
    """The first step up to its rewards."""
    return trace.sampled_ids(), [row["rewards"] for row in trace.rows()]


def outcome(trace: Trace) -> Floats:
    """The weights at the end."""
    return flat(trace.after)


def first_gradient(trace: Trace) -> Floats:
    """The gradient of the first optimizer step."""
    return flat(trace.gradients[0])


def asked(trace: Trace) -> list[str]:
    """The questions of the first step."""
    return [group.problem.question for group in trace.groups()]


def component(trace: Trace, name: str) -> Floats:
    """One reward of the first step's completions, over P, G."""
    return trace.grid(lambda row: row["rewards"][name])


def totals(trace: Trace) -> Floats:
    """What the first step's completions are paid, over P, G."""
    return trace.grid(lambda row: row["total"])


def token_gradients(trace: Trace) -> Floats:
    """The gradient of the loss by the log-probability of each token, pass after pass."""
    return np.concatenate([one.gradient_N for one in trace.passes])
