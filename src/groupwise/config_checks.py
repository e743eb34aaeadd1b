"""The checks between options: combinations in which an option would do nothing, or could not do what it says."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from groupwise.config import SftConfig, TrainConfig


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong between the options `keys`, why, and what to do. A `warning` can be run, an `error` is refused."""

    level: Literal["error", "warning"]
    keys: tuple[str, ...]
    message: str


def contradictions(config: TrainConfig | SftConfig) -> list[Finding]:
    """All findings at once, in the order of the sections.

    What counts as set is what differs from the default: a file may state a default beside anything.
    """
    if isinstance(config, SftConfig):
        return list(_sft(config))
    checks: tuple[Callable[[TrainConfig], Iterator[Finding]], ...] = (
        _problems,
        _batch,
        _active_sampling,
        _rewards,
        _advantage,
        _objective,
        _optimizer,
    )
    return [finding for check in checks for finding in check(config)]


def _unused(config: TrainConfig | SftConfig, key: str, because: str, remedy: str) -> Iterator[Finding]:
    """An error where `key` was changed although, under the option `because`, nothing reads it."""
    value, default = _value(config, key), _default(config, key)
    if value != default:
        reason_key = because.partition("=")[0]
        text = (
            f"{key}={_shown(value)} has no effect with {because}; {remedy}, or set {key} back to its "
            f"default, {_shown(default)}"
        )
        yield Finding("error", (key, reason_key), text)


def _value(config: TrainConfig | SftConfig, key: str) -> Any:
    value: Any = config
    for name in key.split("."):
        value = getattr(value, name)
    return value


def _default(config: TrainConfig | SftConfig, key: str) -> Any:
    section, _, name = key.rpartition(".")
    owner = type(_value(config, section)) if section else type(config)
    return owner.model_fields[name].default


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "''" if value == "" else str(value)


def _problems(config: TrainConfig) -> Iterator[Finding]:
    problems = config.problems
    sources = [problems.train] + ([problems.eval] if problems.eval_problems else [])
    if all(source in ("arithmetic", "") for source in sources):
        remedy = "name a file in problems.train or problems.eval"
        for name in type(problems.columns).model_fields:
            yield from _unused(config, f"problems.columns.{name}", "problems.train=arithmetic", remedy)
    if problems.eval_problems == 0:
        because, remedy = "problems.eval_problems=0", "measure on some problems"
    elif problems.train != "arithmetic" and not problems.eval:
        because, remedy = "problems.eval=''", "name other problems to measure on"
    else:
        return
    yield from _unused(config, "problems.eval_every_steps", because, remedy)
    # Turning the measurement off for one run is common, and what it would have used is no request for it.
    for key in ("problems.eval", "problems.eval_problems", "problems.eval_samples_per_prompt"):
        for finding in _unused(config, key, because, remedy) if not because.startswith(f"{key}=") else ():
            yield Finding("warning", finding.keys, finding.message)


def _batch(config: TrainConfig) -> Iterator[Finding]:
    batch = config.batch
    if batch.samples_per_prompt == 1 and config.advantage.baseline == "group_mean":
        text = (
            "batch.samples_per_prompt=1 with advantage.baseline=group_mean: a sample that is its own mean has "
            "advantage 0, so nothing is learned; take at least 2 samples"
        )
        yield Finding("error", ("batch.samples_per_prompt", "advantage.baseline"), text)
    if batch.minibatches_per_step > batch.prompts_per_step:
        text = (
            f"batch.minibatches_per_step={batch.minibatches_per_step} is more than batch.prompts_per_step="
            f"{batch.prompts_per_step}: a minibatch needs at least one group; take at most {batch.prompts_per_step}"
        )
        yield Finding("error", ("batch.minibatches_per_step", "batch.prompts_per_step"), text)


def _active_sampling(config: TrainConfig) -> Iterator[Finding]:
    active, budget = config.active_sampling, "active_sampling.max_prompts_per_step_factor"
    rewards = config.rewards
    if not active.refill:
        yield from _unused(config, budget, "active_sampling.refill=false", "set active_sampling.refill=true")
    elif active.filter == "none":
        text = (
            "active_sampling.refill=true with active_sampling.filter=none: no group is ever left out, so nothing is "
            "refilled; name a filter, or set active_sampling.refill=false"
        )
        yield Finding("warning", ("active_sampling.refill", "active_sampling.filter"), text)
        yield from _unused(config, budget, "active_sampling.filter=none", "name a filter")
    elif active.max_prompts_per_step_factor == 1:
        text = (
            f"{budget}=1.0 leaves no problems to refill with; raise it, or set active_sampling.refill=false "
            f"and leave it at its default"
        )
        yield Finding("warning", (budget, "active_sampling.refill"), text)
    if active.filter == "correctness" and rewards.correctness_weight == 0 and rewards.format_when == "always":
        text = (
            "active_sampling.filter=correctness with rewards.correctness_weight=0: groups are chosen for something "
            "that is not paid; set active_sampling.filter=total"
        )
        yield Finding("warning", ("active_sampling.filter", "rewards.correctness_weight"), text)


def _rewards(config: TrainConfig) -> Iterator[Finding]:
    rewards = config.rewards
    if rewards.correctness_weight == 0 and rewards.format_weight == 0:
        text = (
            "rewards.correctness_weight=0 and rewards.format_weight=0: nothing is paid, so no group ever has a signal; "
            "give one of them a weight"
        )
        yield Finding("error", ("rewards.correctness_weight", "rewards.format_weight"), text)
    if rewards.format_weight == 0:
        remedy = "give the format a weight"
        yield from _unused(config, "rewards.format_when", "rewards.format_weight=0", remedy)


def _advantage(config: TrainConfig) -> Iterator[Finding]:
    advantage = config.advantage
    if advantage.scale == "none":
        remedy = "set advantage.scale=group_std"
        yield from _unused(config, "advantage.std_ddof", "advantage.scale=none", remedy)
        yield from _unused(config, "advantage.std_epsilon", "advantage.scale=none", remedy)
    elif advantage.std_ddof == 1 and config.batch.samples_per_prompt == 1:
        text = (
            "advantage.std_ddof=1 with batch.samples_per_prompt=1: the deviation divides by G-1, which is 0; take at "
            "least 2 samples, or set advantage.std_ddof=0"
        )
        yield Finding("error", ("advantage.std_ddof", "batch.samples_per_prompt"), text)


def _objective(config: TrainConfig) -> Iterator[Finding]:
    objective = config.objective
    if objective.reduction != "constant_length":
        because = f"objective.reduction={objective.reduction}"
        remedy = "set objective.reduction=constant_length"
        yield from _unused(config, "objective.constant_length_tokens", because, remedy)
    if objective.clip_low >= 1:
        text = (
            f"objective.clip_low={objective.clip_low} never binds: the ratio is positive, and 1 - clip_low is not; "
            "a usual value is 0.2"
        )
        yield Finding("warning", ("objective.clip_low",), text)


def _optimizer(config: TrainConfig) -> Iterator[Finding]:
    optimizer = config.optimizer
    if optimizer.schedule == "constant":
        remedy = "set optimizer.schedule to linear or cosine"
        yield from _unused(config, "optimizer.final_lr_fraction", "optimizer.schedule=constant", remedy)
    yield from _endless_warmup("optimizer.warmup_steps", optimizer.warmup_steps, "run.steps", config.run.steps)


def _sft(config: SftConfig) -> Iterator[Finding]:
    if config.schedule == "constant":
        remedy = "set schedule to linear or cosine"
        yield from _unused(config, "final_lr_fraction", "schedule=constant", remedy)
    if config.optimizer == "adamw":
        yield from _unused(config, "muon_lr", "optimizer=adamw", "set optimizer=muon")
    yield from _endless_warmup("warmup_steps", config.warmup_steps, "steps", config.steps)


def _endless_warmup(warmup_key: str, warmup_steps: int, steps_key: str, steps: int) -> Iterator[Finding]:
    if warmup_steps >= steps:
        text = (
            f"{warmup_key}={warmup_steps} is not less than {steps_key}={steps}: the learning rate never goes on from "
            "its warm-up; warm up for less, or run longer"
        )
        yield Finding("warning", (warmup_key, steps_key), text)
