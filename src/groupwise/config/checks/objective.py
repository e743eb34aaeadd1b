"""Checks of the objective: what the estimators of advantages make of rewards, and where old log-probs come from."""

import math
from collections.abc import Iterator

from groupwise.config import TrainConfig
from groupwise.config.checks.table import Table, each_once
from groupwise.findings import Finding, error, shown, warning
from groupwise.grading.reward_options import CORRECTNESS, requires_key, weight_key
from groupwise.objective.advantages.gdpo import Gdpo
from groupwise.objective.advantages.group import Group
from groupwise.objective.advantages.max_rl import MaxRl
from groupwise.objective.advantages.pass_at_k import PassAtK


def advantage(config: TrainConfig) -> Iterator[Finding]:
    """What an estimator makes of the rewards, and a clip that never binds."""
    options, estimator = config.advantage, config.advantage.estimator
    if isinstance(estimator, PassAtK):
        yield from each_once(config, _beside_pass_at_k)
    if isinstance(estimator, MaxRl):
        yield from each_once(config, _beside_max_rl)
    if isinstance(estimator, Gdpo) and len(used := config.rewarded_components) == 1:
        text = (
            f"advantage.estimator=gdpo with {used[0]} as the only rewarded component: there is nothing to normalise "
            "apart, what is left is a group deviation with one more whitening; give a second component a weight, or "
            "set 'advantage.estimator={type: group, scale: group_std}'"
        )
        yield warning(("advantage.estimator", f"rewards.{weight_key(used[0])}"), text)
    largest = _largest_advantage(config)
    if largest is not None and options.clip > 0 and options.clip >= largest:
        text = (
            f"advantage.clip={options.clip} never binds: with these rewards and {config.batch.samples_per_prompt} "
            f"samples no advantage is beyond ±{largest:.3g}; lower it, or set advantage.clip=0"
        )
        yield warning(("advantage.clip",), text)


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
    options, samples = config.advantage.estimator, config.batch.samples_per_prompt
    if not isinstance(options, Group) or options.scale == "batch_std" or samples == 1:
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


def old_logps(config: TrainConfig) -> Iterator[Finding]:
    """Source of the old log-probabilities."""
    options, uses = config.objective, config.uses_of_old
    counted = options.surrogate.compares_sampler
    if options.old_logps == "sampler" and config.model.computes_in == "bfloat16" and uses and not counted:
        text = (
            "objective.old_logps=sampler with model.compute_dtype=bfloat16: the engine's bfloat16 copy differs from "
            f"the trainer by about a hundredth of a nat a token, which {uses[0]} takes for a change of the policy; set "
            "objective.old_logps=trainer"
        )
        yield warning(("objective.old_logps", "model.compute_dtype"), text)
    if options.old_logps == "trainer" and not uses:
        text = (
            f"objective.old_logps=trainer with objective.ratio={options.ratio.type} and objective.surrogate="
            f"{options.surrogate.type}: nothing compares the policy with the one that sampled; set "
            "objective.old_logps=sampler"
        )
        yield warning(("objective.old_logps", "objective.ratio"), text)
