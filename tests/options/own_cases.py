"""Code of the user's own that cases train with, and the same by hand."""

import numpy as np

from groupwise.config import TrainConfig
from groupwise.own_code import Origin
from tests.options.runs import Floats

OWN_FILE = """
import groupwise


@groupwise.surrogate(formula="min(r, {cap})", bounds_ratio=True, bounds_stop_gradient=False)
def capped(inputs, cap: float = 1.1):
    return -inputs.ratio_N.detach().clamp(max=cap) * inputs.advantages_N * inputs.new_logps_N


def doubled(inputs, cap: float = 1.1):
    return 2 * capped(inputs, cap)


def centred(rewards_PG, times: float = 1.0):
    return times * (rewards_PG - rewards_PG.mean(-1, keepdim=True))


def scaled(rewards_PG, moments, times: float = 1.0):
    return times * (rewards_PG - rewards_PG.mean(-1, keepdim=True)) / (moments.std(1) + 0.1)


def near(inputs, nats: float = 0.05):
    return (inputs.new_logps_N - inputs.old_logps_N).abs() <= nats


def falling(inputs, nats: float = 0.0):
    return inputs.new_logps_N - inputs.old_logps_N <= nats
"""


def name_of(origin: Origin | None) -> str:
    assert origin is not None
    return origin.name


def surrogate_gradient(config: TrainConfig, ratio_N: Floats, advantage_N: Floats) -> Floats:
    """Of -log π times the weight, by log π."""
    surrogate = config.objective.surrogate
    times = {"capped": 1.0, "doubled": 2.0}[name_of(surrogate.origin)]
    return np.asarray(-times * advantage_N * np.minimum(ratio_N, surrogate.model_dump()["options"]["cap"]))


def kept(config: TrainConfig, difference_N: Floats) -> Floats:
    nats = config.off_policy_mask.model_dump()["options"]["nats"]
    is_near = name_of(config.off_policy_mask.origin) == "near"
    return np.where((np.abs(difference_N) if is_near else difference_N) <= nats, 1.0, 0.0)


def advantages(config: TrainConfig, total_PG: Floats) -> Floats:
    estimator = config.advantage.estimator
    times = estimator.model_dump()["options"]["times"]
    divisor = {"centred": 1.0, "scaled": total_PG.std(ddof=1) + 0.1}[name_of(estimator.origin)]
    return np.asarray(times * (total_PG - total_PG.mean(axis=1, keepdims=True)) / divisor)
