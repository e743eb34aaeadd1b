"""Checks of what stands beside the policy term: engine correction, off-policy mask, KL, entropy."""

from collections.abc import Iterator

from groupwise.config import TrainConfig
from groupwise.config.checks.finding import unused
from groupwise.findings import Finding, error, shown, warning


def engine_correction(config: TrainConfig) -> Iterator[Finding]:
    """The weight π_old/π_sampler."""
    options = config.engine_correction
    if options.form == "none":
        for name in ("level", "low", "high"):
            remedy = "set engine_correction.form to truncate or band"
            yield from unused(config, f"engine_correction.{name}", "engine_correction.form=none", remedy)
        return
    if options.form == "truncate":
        remedy = "set engine_correction.form=band"
        yield from unused(config, "engine_correction.low", "engine_correction.form=truncate", remedy)
    elif options.low >= options.high:
        text = (
            f"engine_correction.low={options.low} is not below engine_correction.high={options.high}: no weight lies "
            "between them, and nothing would be trained; IcePop has 0.5 and 5"
        )
        yield error(("engine_correction.low", "engine_correction.high"), text)
    if config.objective.old_logps == "sampler":
        text = (
            f"engine_correction.form={options.form} with objective.old_logps=sampler: both sides of the weight are the "
            "engine's own numbers, so that it is exactly 1; set objective.old_logps=trainer"
        )
        yield error(("engine_correction.form", "objective.old_logps"), text)
    elif config.engine_is_trainer:
        text = (
            f"engine_correction.form={options.form} with model.compute_dtype=float32: the engine samples with the "
            "trainer's own weights and arithmetic, so that every weight is 1 up to rounding; set "
            "model.compute_dtype=bfloat16, or engine_correction.form=none"
        )
        yield warning(("engine_correction.form", "model.compute_dtype"), text)


def off_policy_mask(config: TrainConfig) -> Iterator[Finding]:
    """The mask of bad answers that the policy has left."""
    options = config.off_policy_mask
    if options.against == "none":
        remedy = "set off_policy_mask.against to sampler or old"
        yield from unused(config, "off_policy_mask.threshold_nats", "off_policy_mask.against=none", remedy)
        return
    restated = options.against == "old" and config.objective.old_logps == "trainer"
    if config.updates_per_step == 1 and (config.engine_is_trainer or restated):
        text = (
            f"off_policy_mask.against={options.against} with one optimizer step on each batch of answers: the policy "
            "that is scored is the one that sampled, so that the mask never masks; raise batch.minibatches_per_step or "
            "batch.epochs_per_step, or set off_policy_mask.against=none"
        )
        yield warning(("off_policy_mask.against", "batch.minibatches_per_step"), text)


def kl(config: TrainConfig) -> Iterator[Finding]:
    """Options of a penalty that is not there, or that is somewhere else."""
    options = config.kl
    if not config.uses_kl:
        for name in ("estimator", "importance", "placement", "reduction", "refresh_reference_every_steps"):
            yield from unused(config, f"kl.{name}", "kl.coefficient=0", "give it a coefficient")
        for name, domain in config.domains.items():
            if domain.kl_coefficient is not None:
                key = f"domains.{name}.kl_coefficient"
                text = (
                    f"{key}=0 with kl.coefficient=0: every coefficient is 0, so that nothing is penalised; give one of "
                    "them a value, or leave this one out"
                )
                yield error((key, "kl.coefficient"), text)
        return
    if options.placement == "reward":
        for name in ("estimator", "importance", "reduction"):
            yield from unused(config, f"kl.{name}", "kl.placement=reward", "set kl.placement=loss")
    trained = config.trained_domains
    if trained and all(config.kl_coefficient_of(name) == 0 for name in trained):
        stated = {name: f"domains.{name}.kl_coefficient" for name in trained if name in config.domains}
        keys = [stated.get(name, "kl.coefficient") for name in trained]
        text = (
            f"{' and '.join(dict.fromkeys(keys))}=0 with problems.train={shown(config.problems.train)}: all of its "
            f"problems are of the domain {' or '.join(trained)}, so that a reference is loaded and penalises nothing; "
            "train on problems of other domains too, or set every coefficient to 0"
        )
        yield warning((*keys, "problems.train"), text)
    if options.refresh_reference_every_steps >= config.run.steps:
        text = (
            f"kl.refresh_reference_every_steps={options.refresh_reference_every_steps} is not less than run.steps="
            f"{config.run.steps}: the reference is never refreshed; run longer, or set it to 0"
        )
        yield warning(("kl.refresh_reference_every_steps", "run.steps"), text)


def kl_estimate(config: TrainConfig) -> Iterator[Finding]:
    """Estimates whose gradient is not that of the KL divergence (see `objective/kl.py` and its tests)."""
    options = config.kl
    if not config.uses_kl or options.placement == "reward":
        return
    keys = ("kl.estimator", "kl.importance")
    if options.estimator == "k1" and options.importance == "none":
        text = (
            "kl.estimator=k1 with kl.importance=none: as a loss its expected gradient is 0 on policy, the reference "
            "drops out of it, and what is left is noise; set kl.importance=token, or kl.placement=reward"
        )
        yield warning(keys, text)
    elif options.estimator == "k2" and options.importance != "none":
        text = (
            f"kl.estimator=k2 with kl.importance={options.importance}: the live weight adds the gradient of its own to "
            "that of the estimate, which alone is the right one already; set kl.importance=none, or kl.estimator=k3"
        )
        yield warning(keys, text)
    elif options.estimator == "k3" and options.importance == "none":
        text = (
            "kl.estimator=k3 with kl.importance=none: as GRPO defines it, but its gradient is that of the reverse, "
            "KL(reference ‖ policy), whose coefficient 1 - π_ref/π has no bound where the policy becomes unlikely "
            "(-19 at 3 nats, -402 at 6); set kl.importance=token, or kl.estimator=k2"
        )
        yield warning(keys, text)
    if options.importance == "sequence_product":
        text = (
            "kl.importance=sequence_product weighs every token by the product of the ratios of up to "
            f"{config.sampling.max_new_tokens} tokens, whose spread grows with the length; set kl.importance=token"
        )
        yield warning(("kl.importance", "sampling.max_new_tokens"), text)


def entropy(config: TrainConfig) -> Iterator[Finding]:
    """The bonus and its target."""
    options = config.entropy
    if options.target_nats == 0:
        for name in ("coefficient_step", "max_coefficient"):
            remedy = "set entropy.target_nats"
            yield from unused(config, f"entropy.{name}", "entropy.target_nats=0", remedy)
    elif options.coefficient > options.max_coefficient:
        text = (
            f"entropy.coefficient={options.coefficient} is above entropy.max_coefficient={options.max_coefficient}: it "
            "would fall to the limit after the first step whatever the entropy is; lower it, or raise the limit"
        )
        yield error(("entropy.coefficient", "entropy.max_coefficient"), text)


COVARIANCE_READERS = {
    "covariance_share": ("clip_cov", "kl_cov"),
    "clip_cov_low": ("clip_cov",),
    "clip_cov_high": ("clip_cov",),
    "kl_cov_coefficient": ("kl_cov",),
}


def covariance(config: TrainConfig) -> Iterator[Finding]:
    """Clip-Cov and KL-Cov."""
    options = config.entropy
    for name, readers in COVARIANCE_READERS.items():
        if options.covariance not in readers:
            because, remedy = f"entropy.covariance={options.covariance}", f"set it to {' or '.join(readers)}"
            yield from unused(config, f"entropy.{name}", because, remedy)
    if options.covariance == "none":
        return
    if options.covariance_share == 0:
        text = (
            f"entropy.covariance_share=0 with entropy.covariance={options.covariance}: at least one token is picked "
            "however small the share; set entropy.covariance=none"
        )
        yield error(("entropy.covariance_share", "entropy.covariance"), text)
    if options.covariance == "clip_cov" and options.clip_cov_low >= options.clip_cov_high:
        text = (
            f"entropy.clip_cov_low={options.clip_cov_low} is not below entropy.clip_cov_high={options.clip_cov_high}: "
            "no covariance lies between them; the paper has 1 and 5"
        )
        yield error(("entropy.clip_cov_low", "entropy.clip_cov_high"), text)
    exact = config.engine_is_trainer or config.objective.old_logps == "trainer"
    if options.covariance == "kl_cov" and config.updates_per_step == 1 and exact:
        text = (
            "entropy.covariance=kl_cov with one optimizer step on each batch of answers: it penalises |log π_new - log "
            "π_old|, whose gradient is 0 where both are the same policy; raise batch.minibatches_per_step or "
            "batch.epochs_per_step, or take clip_cov"
        )
        yield warning(("entropy.covariance", "batch.minibatches_per_step"), text)
