"""Checks of the optimizer and its schedule, of the guards, and of supervised training."""

from collections.abc import Iterator

from groupwise.config import SftConfig, TrainConfig
from groupwise.findings import Finding, error, unused_option, warning


def run(config: TrainConfig) -> Iterator[Finding]:
    """What a run that is to be resumed by itself needs."""
    if config.run.resume == "auto" and not config.run.output:
        text = "run.resume=auto has no effect without run.output: a run without a name has a new one each time; set it"
        yield error(("run.resume", "run.output"), text)


def optimizer(config: TrainConfig) -> Iterator[Finding]:
    """Options of the optimizer and its schedule that do nothing under others, or do not go together."""
    options = config.optimizer
    if options.schedule == "constant":
        remedy = "set optimizer.schedule to linear or cosine"
        yield from unused_option(config, "optimizer.final_lr_fraction", "optimizer.schedule=constant", remedy)
    if options.type == "adamw":
        yield from unused_option(config, "optimizer.momentum", "optimizer.type=adamw", "set optimizer.type=muon")
    if options.type == "muon" and config.model.shard == "full":
        text = (
            "optimizer.type=muon with model.shard=full: Muon makes whole matrices orthogonal, and a rank has some rows "
            "of them alone; set optimizer.type=adamw or model.shard=none"
        )
        yield error(("optimizer.type", "model.shard"), text)
    if options.weight_decay == 0:
        yield from unused_option(config, "optimizer.decay_exempt", "optimizer.weight_decay=0.0", "set a weight decay")
    yield from _endless_warmup("optimizer.warmup_steps", options.warmup_steps, "run.steps", config.run.steps)


def guards(config: TrainConfig) -> Iterator[Finding]:
    """Guards that have nothing to watch."""
    if config.filters_tokens and not config.sampling.replay_mask:
        # The engine's log-probabilities are then of another distribution than the trainer's.
        remedy = "set sampling.replay_mask=true"
        for key in ("guards.engine_gap", "guards.engine_gap_factor"):
            yield from unused_option(config, key, "sampling.replay_mask=false", remedy)
    elif config.engine_is_trainer:
        remedy = "set model.compute_dtype=bfloat16"
        yield from unused_option(config, "guards.engine_gap_factor", "model.compute_dtype=float32", remedy)
    if not config.any_table(lambda table: bool(table.functions)):
        remedy = "name a function in rewards.functions"
        yield from unused_option(config, "guards.constant_reward", "rewards.functions={}", remedy)


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
