"""Checks of how answers are compared: the advantages, and what their estimators make of the rewards."""

import math
from collections.abc import Iterator

from groupwise.config import TrainConfig
from groupwise.config.checks.finding import unused
from groupwise.config.checks.table import Table, each_once
from groupwise.findings import Finding, error, shown, warning
from groupwise.grading.reward_options import CORRECTNESS, requires_key, weight_key


def advantage(config: TrainConfig) -> Iterator[Finding]:
    """Options that only some estimators read, and numbers that they give no meaning to."""
    options, samples = config.advantage, config.batch.samples_per_prompt
    estimator = f"advantage.estimator={options.estimator}"
    if options.estimator != "group":
        for key in ("advantage.baseline", "advantage.scale"):
            yield from unused(config, key, estimator, "set advantage.estimator=group")
    elif options.baseline == "none" and options.scale != "none":
        text = (
            f"advantage.scale={options.scale} with advantage.baseline=none: a group of equal rewards would be divided "
            "by 0; take a baseline, or set advantage.scale=none"
        )
        yield error(("advantage.scale", "advantage.baseline"), text)
    scaled = options.estimator == "gdpo" or (options.estimator == "group" and options.scale != "none")
    if not scaled:
        because = "advantage.scale=none" if options.estimator == "group" else estimator
        remedy = "set advantage.scale=group_std" if options.estimator == "group" else "set advantage.estimator=group"
        yield from unused(config, "advantage.std_ddof", because, remedy)
        yield from unused(config, "advantage.std_epsilon", because, remedy)
    elif options.std_ddof == 1 and samples == 1:
        text = (
            "advantage.std_ddof=1 with batch.samples_per_prompt=1: the deviation divides by G-1, which is 0; take at "
            "least 2 samples, or set advantage.std_ddof=0"
        )
        yield error(("advantage.std_ddof", "batch.samples_per_prompt"), text)
    yield from _estimators(config)
    largest = _largest_advantage(config)
    if largest is not None and options.clip > 0 and options.clip >= largest:
        text = (
            f"advantage.clip={options.clip} never binds: with these rewards and {samples} samples no advantage is "
            f"beyond ±{largest:.3g}; lower it, or set advantage.clip=0"
        )
        yield warning(("advantage.clip",), text)


def _estimators(config: TrainConfig) -> Iterator[Finding]:
    options, samples = config.advantage, config.batch.samples_per_prompt
    if options.estimator != "pass_at_k":
        because, remedy = f"advantage.estimator={options.estimator}", "set advantage.estimator=pass_at_k"
        yield from unused(config, "advantage.pass_k", because, remedy)
    else:
        if options.pass_k > samples > 1:
            text = (
                f"advantage.pass_k={options.pass_k} is more than batch.samples_per_prompt={samples}: pass@k of a group "
                f"needs at least k samples; take at most {samples}"
            )
            yield error(("advantage.pass_k", "batch.samples_per_prompt"), text)
        yield from each_once(config, _beside_pass_at_k)
    if options.estimator == "max_rl":
        yield from each_once(config, _beside_max_rl)
    if options.estimator == "gdpo" and len(used := config.rewarded_components) == 1:
        text = (
            f"advantage.estimator=gdpo with {used[0]} as the only reward with a weight: there is nothing to "
            "normalise apart, what is left is a group deviation with one more whitening; give a second reward a "
            "weight, or set advantage.estimator=group with advantage.scale=group_std"
        )
        yield warning(("advantage.estimator", f"rewards.{weight_key(used[0])}"), text)


def _beside_pass_at_k(table: Table) -> Iterator[Finding]:
    """Full answers are counted and nothing else is rewarded."""
    because, remedy = "advantage.estimator=pass_at_k", "reward it with another estimator"
    yield from table.unused("correctness.weight", because, remedy)
    yield from table.unused("correctness.code.credit", because, "an answer is right or wrong to it")
    for name, weight in table.options.weights.items():
        if name != CORRECTNESS and weight != 0:
            text = (
                f"{table.key(weight_key(name))}={shown(weight)} has no effect with {because}, which rewards right "
                f"answers and nothing else; {remedy}, or set it to 0, where it is measured alone"
            )
            yield error((table.key(weight_key(name)), "advantage.estimator"), text)
    for name, needed in table.options.conditions.items():
        yield from table.unused(requires_key(name), because, f"leave {needed} out")
    yield from table.unused("gate", because, "leave the gate out")


def _beside_max_rl(table: Table) -> Iterator[Finding]:
    """What could make the mean reward, by which it divides, negative or something other than a rate of success."""
    options = table.options
    takes = [name for name in options.weights if options.range_of(name)[0] < 0]
    if takes:
        switched = takes[0] in options.components
        key = table.key(f"{takes[0]}.{options.components[takes[0]].switch}" if switched else weight_key(takes[0]))
        text = (
            f"advantage.estimator=max_rl with {key}: it divides by the mean reward, which {' and '.join(takes)} can "
            "make negative; leave it out, or take another estimator"
        )
        yield error(("advantage.estimator", key), text)
    if table.options.correctness.code.credit == "fraction":
        key = table.key("correctness.code.credit")
        text = (
            f"advantage.estimator=max_rl with {key}=fraction: it is derived for rewards of 0 and 1, where the mean is "
            "the rate of success; set it to all"
        )
        yield warning(("advantage.estimator", key), text)


def _largest_advantage(config: TrainConfig) -> float | None:
    """What no advantage of `group` exceeds; None where that depends on other groups, or on what a function returns."""
    options, samples = config.advantage, config.batch.samples_per_prompt
    if options.estimator != "group" or options.scale == "batch_std" or samples == 1:
        return None
    if options.scale == "group_std":
        # One sample against all others that are equal.
        largest = (samples - 1) / math.sqrt(samples) if options.std_ddof == 1 else math.sqrt(samples - 1)
        return largest * (samples / (samples - 1) if options.baseline == "leave_one_out" else 1.0)
    tables = config.reward_tables().values()
    if any(weight != 0 for table in tables for name, weight in table.weights.items() if name in table.functions):
        return None
    ranges = [[table.range_of(name) for name in table.weights] for table in tables]
    return max(sum(most - least for least, most in of_table) for of_table in ranges)
