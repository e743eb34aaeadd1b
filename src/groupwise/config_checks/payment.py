"""Checks of how answers are paid and compared: rewards and advantages."""

import math
from collections.abc import Iterator

from groupwise.config import TrainConfig
from groupwise.config_checks.finding import Finding, error, unused, warning
from groupwise.config_facts import paid_components

REWARD_KEYS = {
    "correctness": "rewards.correctness_weight",
    "format": "rewards.format_weight",
    "overlong": "rewards.overlong_buffer_tokens",
}


def rewards(config: TrainConfig) -> Iterator[Finding]:
    """What is paid."""
    options = config.rewards
    if not paid_components(config):
        text = (
            "rewards.correctness_weight=0 and rewards.format_weight=0: nothing is paid, so no group ever has a signal; "
            "give one of them a weight"
        )
        yield error(("rewards.correctness_weight", "rewards.format_weight"), text)
    if options.format_weight == 0:
        remedy = "give the format a weight"
        yield from unused(config, "rewards.format_when", "rewards.format_weight=0", remedy)
    elif options.format_when == "always" and 0 < options.correctness_weight <= options.format_weight:
        text = (
            f"rewards.format_weight={options.format_weight} is not less than rewards.correctness_weight="
            f"{options.correctness_weight}: a wrong answer in the right format is paid as much as a right answer in "
            "the wrong one, or more; lower the weight (0.1 or 0.2), or set rewards.format_when=correct"
        )
        yield warning(("rewards.format_weight", "rewards.correctness_weight"), text)
    if options.overlong_buffer_tokens > config.sampling.max_new_tokens:
        text = (
            f"rewards.overlong_buffer_tokens={options.overlong_buffer_tokens} is more than sampling.max_new_tokens="
            f"{config.sampling.max_new_tokens}: the penalty would begin before the first token and never be 0; take a "
            "buffer at the end, a fifth of the length or so"
        )
        yield error(("rewards.overlong_buffer_tokens", "sampling.max_new_tokens"), text)


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
        for key in ("correctness_weight", "format_weight", "overlong_buffer_tokens"):
            because, remedy = "advantage.estimator=pass_at_k", "pay it with another estimator"
            yield from unused(config, f"rewards.{key}", because, remedy)
    if options.estimator == "max_rl" and config.rewards.overlong_buffer_tokens > 0:
        text = (
            "advantage.estimator=max_rl with rewards.overlong_buffer_tokens: it divides by the mean reward, which the "
            "penalty can make negative; set rewards.overlong_buffer_tokens=0, or take another estimator"
        )
        yield error(("advantage.estimator", "rewards.overlong_buffer_tokens"), text)
    if options.estimator == "gdpo" and len(paid := paid_components(config)) == 1:
        text = (
            f"advantage.estimator=gdpo with {paid[0]} as the only paid reward: there is nothing to normalise apart, "
            "what is left is a group deviation with one more whitening; give a second reward a weight, or set "
            "advantage.estimator=group with advantage.scale=group_std"
        )
        yield warning(("advantage.estimator", REWARD_KEYS[paid[0]]), text)


def _largest_advantage(config: TrainConfig) -> float | None:
    """What no advantage of `group` exceeds; None where that depends on other groups."""
    options, rewards, samples = config.advantage, config.rewards, config.batch.samples_per_prompt
    if options.estimator != "group" or options.scale == "batch_std" or samples == 1:
        return None
    if options.scale == "group_std":
        # One sample against all others that are equal.
        largest = (samples - 1) / math.sqrt(samples) if options.std_ddof == 1 else math.sqrt(samples - 1)
        return largest * (samples / (samples - 1) if options.baseline == "leave_one_out" else 1.0)
    return rewards.correctness_weight + rewards.format_weight + (1.0 if rewards.overlong_buffer_tokens else 0.0)
