"""Checks of the optimizer and its schedule, and of supervised training."""

from collections.abc import Iterator

from groupwise.config import SftConfig, TrainConfig
from groupwise.findings import Finding, error, unused_option, warning


def run(config: TrainConfig) -> Iterator[Finding]:
    """What a run that is to be resumed by itself needs."""
    if config.run.resume == "auto" and not config.run.output:
        text = "run.resume=auto has no effect without run.output: a run without a name has a new one each time; set it"
        yield error(("run.resume", "run.output"), text)


def optimizer(config: TrainConfig) -> Iterator[Finding]:
    """Options of the schedule that do nothing under others."""
    options = config.optimizer
    if options.schedule == "constant":
        remedy = "set optimizer.schedule to linear or cosine"
        yield from unused_option(config, "optimizer.final_lr_fraction", "optimizer.schedule=constant", remedy)
    if options.weight_decay == 0:
        yield from unused_option(config, "optimizer.decay_exempt", "optimizer.weight_decay=0.0", "set a weight decay")
    yield from _endless_warmup("optimizer.warmup_steps", options.warmup_steps, "run.steps", config.run.steps)


def supervised(config: SftConfig) -> Iterator[Finding]:
    """All checks of `groupwise sft`."""
    if config.schedule == "constant":
        remedy = "set schedule to linear or cosine"
        yield from unused_option(config, "final_lr_fraction", "schedule=constant", remedy)
    if config.optimizer == "adamw":
        yield from unused_option(config, "muon_lr", "optimizer=adamw", "set optimizer=muon")
    yield from _endless_warmup("warmup_steps", config.warmup_steps, "steps", config.steps)


def _endless_warmup(warmup_key: str, warmup_steps: int, steps_key: str, steps: int) -> Iterator[Finding]:
    if warmup_steps >= steps:
        text = (
            f"{warmup_key}={warmup_steps} is not less than {steps_key}={steps}: the warm-up of the learning rate "
            "lasts for the whole run; lower the former, or raise the latter"
        )
        yield warning((warmup_key, steps_key), text)
