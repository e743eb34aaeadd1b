"""Checks of the policy term: which options a surrogate reads, and where a bound cannot bind or means something else."""

import math
from collections.abc import Iterator

from groupwise.config import TrainConfig
from groupwise.config.checks.finding import unused
from groupwise.findings import Finding, error, warning

READERS = {
    "clip_low": ("ppo_clip", "dppo", "gmpo"),
    "clip_high": ("ppo_clip", "seed_clip", "dppo", "gmpo"),
    "dual_clip": ("ppo_clip",),
    "cispo_cap": ("cispo",),
    "cispo_floor": ("cispo",),
    "sapo_temperature_positive": ("sapo",),
    "sapo_temperature_negative": ("sapo",),
    "vespo_k_positive": ("vespo",),
    "vespo_lambda_positive": ("vespo",),
    "vespo_k_negative": ("vespo",),
    "vespo_lambda_negative": ("vespo",),
}
"""The surrogates that read each option."""

NEEDED_RATIO = {"gmpo": "token", "vespo": "sequence_product"}

# Bounds of the size that token ratios need; the geometric mean over an answer moves by a hundredth of it.
TOKEN_SCALE = 0.05


def ratio_and_surrogate(config: TrainConfig) -> Iterator[Finding]:
    """Options that the surrogate does not read, bounds that cannot bind, and numbers without a meaning."""
    options = config.objective
    surrogate, ratio = f"objective.surrogate={options.surrogate}", f"objective.ratio={options.ratio}"
    for name, readers in READERS.items():
        remedy = f"set objective.surrogate={' or '.join(readers)}"
        if options.surrogate not in readers:
            yield from unused(config, f"objective.{name}", surrogate, remedy)
        elif options.ratio == "none" and options.surrogate in ("ppo_clip", "seed_clip", "cispo", "sapo"):
            yield from unused(config, f"objective.{name}", ratio, "set objective.ratio=token")
    needed = NEEDED_RATIO.get(options.surrogate)
    if needed and options.ratio != needed:
        text = f"{surrogate} with {ratio}: it is defined on objective.ratio={needed} only; set objective.ratio={needed}"
        yield error(("objective.ratio", "objective.surrogate"), text)
    elif options.ratio == "none" and options.surrogate not in ("reinforce", "dppo"):
        text = (
            f"{surrogate} with objective.ratio=none: the ratio is always 1, which no bound ever cuts, so that this is "
            "objective.surrogate=reinforce; name that, or set objective.ratio=token"
        )
        yield warning(("objective.ratio", "objective.surrogate"), text)
    yield from _bounds(config)
    if options.surrogate == "seed_clip":
        text = (
            "objective.surrogate=seed_clip is for teaching: with max in the place of PPO's min, a bad answer is pushed "
            f"down without end, and one whose ratio is beyond {1 + options.clip_high:g} is never corrected; set "
            "objective.surrogate=ppo_clip"
        )
        yield warning(("objective.surrogate",), text)


def _bounds(config: TrainConfig) -> Iterator[Finding]:
    options = config.objective
    if options.clip_low >= 1 and options.surrogate in ("ppo_clip", "dppo"):
        why = "the ratio is positive, and 1 - clip_low is not"
        if options.surrogate == "dppo":
            why = "no probability falls by 1 or more"
        text = f"objective.clip_low={options.clip_low} never binds: {why}; a usual value is 0.2"
        yield warning(("objective.clip_low",), text)
    if options.clip_high >= 1 and options.surrogate == "dppo":
        text = f"objective.clip_high={options.clip_high} never binds: no probability rises by 1 or more; take 0.2"
        yield warning(("objective.clip_high",), text)
    if options.surrogate == "ppo_clip" and 0 < options.dual_clip <= 1:
        text = (
            f"objective.dual_clip={options.dual_clip} is not above 1: it is an absolute bound of the ratio for "
            "negative advantages, and would cut the policy that sampled; a usual value is 3, and 0 is for none"
        )
        yield error(("objective.dual_clip",), text)
    if options.surrogate == "cispo" and options.cispo_floor >= options.cispo_cap:
        text = (
            f"objective.cispo_floor={options.cispo_floor} is not below objective.cispo_cap={options.cispo_cap}: both "
            "are absolute bounds of one weight; lower the floor, 0 is for none"
        )
        yield error(("objective.cispo_floor", "objective.cispo_cap"), text)


def sequence_ratio(config: TrainConfig) -> Iterator[Finding]:
    """Ratios of whole answers have another scale than those of tokens."""
    options = config.objective
    if options.ratio in ("sequence_geometric_mean", "gspo_token"):
        bound = {
            "ppo_clip": max(options.clip_low, options.clip_high),
            "seed_clip": options.clip_high,
            "cispo": options.cispo_cap - 1,
        }.get(options.surrogate, 0.0)
        if bound > TOKEN_SCALE:
            key = "objective.cispo_cap" if options.surrogate == "cispo" else "objective.clip_high"
            text = (
                f"{key} is at the scale of token ratios with objective.ratio={options.ratio}: the mean over an answer "
                f"hardly moves, and a bound {bound:.3g} away from 1 never binds; GSPO has clip_low=3e-4 and "
                "clip_high=4e-4"
            )
            yield warning((key, "objective.ratio"), text)
        if options.reduction != "sequence_mean_token_mean":
            text = (
                f"objective.reduction={options.reduction} with objective.ratio={options.ratio}: GSPO weighs every "
                "answer alike, whatever its length; set objective.reduction=sequence_mean_token_mean"
            )
            yield warning(("objective.reduction", "objective.ratio"), text)
    if options.ratio == "sequence_product" and options.surrogate != "vespo":
        tokens = config.sampling.max_new_tokens
        drift = math.log1p(max(options.clip_high, 0.01)) / tokens
        text = (
            f"objective.ratio=sequence_product multiplies the ratios of up to {tokens} tokens: a mean drift of "
            f"{drift:.2g} nats a token is beyond 1 + clip_high already, and the spread grows with the length; set "
            "objective.ratio=sequence_geometric_mean, or token"
        )
        yield warning(("objective.ratio", "sampling.max_new_tokens"), text)
    sequence_level = options.ratio in ("sequence_geometric_mean", "sequence_product") or options.surrogate == "gmpo"
    kl = config.kl
    if sequence_level and kl.placement == "reward" and config.uses_kl:
        text = (
            f"kl.placement=reward with objective.ratio={options.ratio}: the penalty differs from token to token, and a "
            "ratio of the whole answer spreads its gradient over all of them; set objective.ratio=gspo_token or token, "
            "or kl.placement=loss"
        )
        yield warning(("kl.placement", "objective.ratio"), text)


def staleness(config: TrainConfig) -> Iterator[Finding]:
    """Several optimizer steps on the same answers, without anything that keeps the policy near them."""
    options, updates = config.objective, config.updates_per_step
    free = options.surrogate == "reinforce" or (options.ratio == "none" and options.surrogate != "dppo")
    if updates > 1 and free:
        keys = ("batch.epochs_per_step", "batch.minibatches_per_step")
        text = (
            f"batch.epochs_per_step={config.batch.epochs_per_step} and batch.minibatches_per_step="
            f"{config.batch.minibatches_per_step} make {updates} optimizer steps on the same answers, and with "
            f"objective.surrogate={options.surrogate} and objective.ratio={options.ratio} nothing keeps the policy "
            "near the one that sampled them; set objective.surrogate=ppo_clip with objective.ratio=token, or both to 1"
        )
        yield warning((*keys, "objective.surrogate"), text)


def reduction(config: TrainConfig) -> Iterator[Finding]:
    """The constant of `constant_length`."""
    options = config.objective
    if options.reduction != "constant_length":
        because = f"objective.reduction={options.reduction}"
        remedy = "set objective.reduction=constant_length"
        yield from unused(config, "objective.constant_length_tokens", because, remedy)


def old_logps(config: TrainConfig) -> Iterator[Finding]:
    """Who states the old log-probabilities."""
    options, uses = config.objective, config.uses_of_old
    if options.old_logps == "sampler" and config.model.compute_dtype == "bfloat16" and uses:
        text = (
            "objective.old_logps=sampler with model.compute_dtype=bfloat16: the engine's bfloat16 copy differs from "
            f"the trainer by about a hundredth of a nat a token, which {uses[0]} takes for a change of the policy; set "
            "objective.old_logps=trainer"
        )
        yield warning(("objective.old_logps", "model.compute_dtype"), text)
    if options.old_logps == "trainer" and not uses:
        text = (
            f"objective.old_logps=trainer with objective.ratio={options.ratio} and objective.surrogate="
            f"{options.surrogate}: nothing compares the policy with the one that sampled; set "
            "objective.old_logps=sampler"
        )
        yield warning(("objective.old_logps", "objective.ratio"), text)
