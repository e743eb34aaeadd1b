"""What the keys of 0.1.0 are called now."""

from groupwise.config.describe import NAME
from groupwise.config.schema import Place
from groupwise.findings import shown

# The option that chooses a technique, the technique, what the old keys of its options began with, and their names.
_MOVED = (
    ("objective.surrogate", "cispo", "objective.cispo_", "cap floor"),
    ("objective.surrogate", "sapo", "objective.sapo_", "temperature_positive temperature_negative"),
    ("objective.surrogate", "vespo", "objective.vespo_", "k_positive lambda_positive k_negative lambda_negative"),
    ("objective.surrogate", "ppo_clip", "objective.", "dual_clip"),
    ("advantage.estimator", "group", "advantage.", "baseline scale std_ddof std_epsilon"),
    ("entropy.bonus", "fixed", "entropy.", "coefficient"),
    ("entropy.bonus", "target", "entropy.", "target_nats coefficient_step max_coefficient"),
    ("entropy.covariance", "clip_cov", "entropy.clip_cov_", "low high"),
    ("entropy.covariance", "kl_cov", "entropy.kl_cov_", "coefficient"),
)
# Keys of 0.1.0, some with a value, as they are written since 0.2.0.
RENAMED = {
    f"{prefix}{name}": f"{choice}={{type: {technique}, {name}: ...}}"
    for choice, technique, prefix, names in _MOVED
    for name in names.split()
} | {
    "objective.clip_low": "objective.surrogate={type: ppo_clip, clip_low: ...}; dppo: tv_low, gmpo: log_clip_low",
    "objective.clip_high": "objective.surrogate={type: ppo_clip, clip_high: ...}; dppo: tv_high, gmpo: log_clip_high",
    "objective.constant_length_tokens": "objective.reduction={type: constant_length, tokens: ...}",
    "objective.truncated=mask": "objective.mask_truncated=true",
    "objective.truncated=train": "objective.mask_truncated=false",
    "objective.truncated": "objective.mask_truncated",
    "advantage.pass_k": "advantage.estimator={type: pass_at_k, k: ...}",
    "engine_correction.form=truncate": "engine_correction={type: tis, cap: ...}",
    "engine_correction.form=band": "engine_correction={type: mis, low: ..., high: ...}",
    "engine_correction.form": "engine_correction=none, tis or mis",
    "engine_correction.high": "engine_correction={type: tis, cap: ...} or {type: mis, high: ...}",
    "off_policy_mask.against=sampler": "off_policy_mask=sequence",
    "off_policy_mask.against=old": "off_policy_mask={type: sequence, reference: old}",
    "off_policy_mask.against": "off_policy_mask=none or sequence",
    "kl.placement=reward": "kl.in_reward=true",
    "kl.placement=loss": "kl.in_reward=false",
    "kl.placement": "kl.in_reward",
    "entropy.train_top_share": "entropy.tokens={type: top_entropy, fraction: ...}",
    "entropy.covariance_share": "entropy.covariance={type: clip_cov, fraction: ...}",
    "sampling.keep_mask=replay": "sampling.replay_mask=true",
    "sampling.keep_mask=none": "sampling.replay_mask=false",
    "sampling.keep_mask": "sampling.replay_mask",
    "sampling.engine_batch_sequences": "engine.batch_sequences",
    "active_sampling.retire_pass_rate": "active_sampling.retire_accuracy",
    "rewards.correctness.maths": "rewards.correctness.math",
    "rewards.correctness.code.credit=share": "rewards.correctness.code.credit=fraction",
    "rewards.format.form": "rewards.format.type",
    "rewards.format.when=always": "leave it out",
    "rewards.format.when": "rewards.format.requires",
    "rewards.length.form": "rewards.length.type",
    "rewards.repetition.free_share": "rewards.repetition.free_fraction",
    "rewards.functions.NAME.when=always": "leave it out",
    "rewards.functions.NAME.when": "rewards.functions.NAME.requires",
}


def renamed(place: Place, value: object) -> str:
    """How an old key, or an old value of a key, is written now; empty for what never was one.

    `rewards` is also that of a domain.
    """
    parts, prefix, name = [str(part) for part in place.path], "", ""
    if parts[0] == "domains" and len(parts) > 2:
        prefix, parts = f"domains.{parts[1]}.", parts[2:]
    if parts[:2] == ["rewards", "functions"] and len(parts) == 4:
        name, parts[2] = parts[2], NAME
    key = ".".join(parts)
    new = RENAMED.get(f"{key}={shown(value)}") or (RENAMED.get(key, "") if place.info is None else "")
    return new.replace(NAME, name) if " " in new else prefix + new.replace(NAME, name) if new else ""
