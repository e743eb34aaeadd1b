"""The objective of a GRPOConfig of TRL 1.16: loss, engine correction, KL, entropy, advantages, rewards."""

import math

from groupwise.errors import DataError
from groupwise.importing.option_rows import losses_of
from groupwise.importing.record import Draft

# More than e^20, where groupwise stops: an upper bound that never binds.
_NO_BOUND = 1e9


def objective(draft: Draft, updates: int) -> None:
    """Everything that the loss is made of; `updates` are the optimizer steps of one step."""
    _loss(draft)
    _engine(draft)
    _kl(draft, updates)
    _entropy(draft)
    _advantages(draft)
    _rewards(draft)


def _loss(draft: Draft) -> None:
    loss, level = draft.choose("loss_type", losses_of("trl")), draft.choose("importance_sampling_level")
    if loss.words:
        draft.differs("loss_type", f"{draft['loss_type']}: {loss.words}")
    draft.set("objective.surrogate.type", loss.surrogate, "loss_type")
    draft.set("objective.reduction.type", loss.reduction, "loss_type")
    ratio = "sequence_product" if loss.surrogate == "vespo" else level
    draft.set("objective.ratio", ratio, "importance_sampling_level")
    if draft["loss_type"] == "luspo" and level == "token":
        draft.differs("importance_sampling_level")
    draft.set("objective.old_logps", "trainer", "loss_type")
    low, high = draft["epsilon"], draft["epsilon_high"]
    high_key = "epsilon" if high is None else "epsilon_high"
    high = low if high is None else high
    if loss.surrogate == "cispo":
        draft.set("objective.surrogate.cap", high, high_key)
        text = f"the absolute cap of CISPO's weight, {high}, not a distance from 1"
        if high <= 1:
            text += f": every token of the policy that sampled is weighted {high}; usual is 5"
        draft.differs(high_key, text)
    unread = {"cispo": ("delta",) if high_key == "epsilon" else ("delta", "epsilon"), "ppo_clip": ()}
    for key in unread.get(loss.surrogate, ("delta", "epsilon", "epsilon_high")):
        if draft.states(key):
            draft.differs(key, f"not read by TRL with loss_type {draft['loss_type']}")
    if loss.surrogate == "ppo_clip":
        draft.set("objective.surrogate.clip_high", high, high_key)
        _two_sided(draft, high)
    if draft["mask_truncated_completions"] and loss.reduction != "token_mean":
        draft.differs("mask_truncated_completions")


def _two_sided(draft: Draft, clip_high: float) -> None:
    """delta bounds the ratio of the first of PPO's two terms, for both signs of the advantage."""
    delta = draft["delta"]
    if delta is None:
        return
    if delta >= 1 + clip_high and delta > 1:
        draft.set("objective.surrogate.dual_clip", delta, "delta")
        draft.differs("delta", "bounds the ratio of both signs; from 1 + epsilon_high on that is dual_clip exactly")
    elif delta >= 1 and clip_high > 0:
        draft.set_in("objective.surrogate", "delta", clip_high=delta - 1, dual_clip=1 + clip_high)
        draft.differs(
            "delta",
            "below 1 + epsilon_high it bounds good answers, and epsilon_high the bad ones: clip_high is "
            "delta - 1 and dual_clip is 1 + epsilon_high, which is the same exactly",
        )
    else:
        draft.absent("delta", delta=delta)


def _engine(draft: Draft) -> None:
    """The weight π_old/π_sampler, and the mask by the policy that sampled."""
    corrected = draft["use_vllm"] and draft["vllm_importance_sampling_correction"]
    form, level = draft.choose("vllm_importance_sampling_mode")
    low, high = draft["vllm_importance_sampling_clip_min"], draft["vllm_importance_sampling_clip_max"]
    high = draft["vllm_importance_sampling_cap"] or high
    keys = ("vllm_importance_sampling_mode", "vllm_importance_sampling_clip_max", "vllm_importance_sampling_clip_min")
    if corrected:
        draft.set_in("engine_correction", keys[0], type=form, level=level)
        bound = "engine_correction.cap" if form == "tis" else "engine_correction.high"
        draft.set(bound, _NO_BOUND if high is None else high, keys[1])
        if form == "mis":
            draft.set("engine_correction.low", 0.0 if low is None else low, keys[2])
        elif low is not None:
            draft.absent(keys[2], low=low)
        if level == "sequence_product":
            draft.differs(keys[0], "the product over the sequence, which others call geometric mean or just sequence")
        if draft.get("objective.surrogate.type") == "vespo":
            draft.differs(keys[0], "TRL puts the weight inside VESPO's own; here it multiplies the loss")
    else:
        for key in draft.source.values:
            if key.startswith("vllm_importance_sampling"):
                draft.differs(key, "acts in TRL only with use_vllm and correction on, which they are not: left out")
    threshold = draft["off_policy_mask_threshold"]
    if threshold is not None:
        mask = {"type": "sequence", "threshold_nats": threshold, "reference": "sampler" if draft["use_vllm"] else "old"}
        draft.set_in("off_policy_mask", "off_policy_mask_threshold", **mask)


def _kl(draft: Draft, updates: int) -> None:
    if not draft["beta"]:
        return
    draft.set("kl.estimator", "k3", "beta")
    draft.set("kl.importance", "token" if draft["use_bias_correction_kl"] else "none", "use_bias_correction_kl")
    if not draft.states("use_bias_correction_kl"):
        draft.differs("beta")
    if draft["use_bias_correction_kl"] and draft["importance_sampling_level"] == "sequence":
        draft.differs("use_bias_correction_kl")
    if draft["sync_ref_model"]:
        every = math.ceil(draft["ref_model_sync_steps"] / updates)
        draft.set("kl.refresh_reference_every_steps", every, "ref_model_sync_steps")
        if draft["ref_model_mixup_alpha"] != 1.0:
            draft.differs("ref_model_mixup_alpha", mixed=draft["ref_model_mixup_alpha"])


def _entropy(draft: Draft) -> None:
    if draft["top_entropy_quantile"] != 1.0:
        draft.set("entropy.tokens.type", "top_entropy", "top_entropy_quantile")
        draft.differs("top_entropy_quantile")
    if not (draft["entropy_coef"] or draft["use_adaptive_entropy"]):
        return
    draft.set("entropy.bonus.type", "target" if draft["use_adaptive_entropy"] else "fixed", "entropy_coef")
    over_tokens = draft.get("objective.reduction.type") == "token_mean"
    weighted = "a mean over the tokens of the optimizer step" if over_tokens else "weighted as the policy loss"
    draft.differs("entropy_coef", weighted=f"the bonus is {weighted}")
    if draft["use_adaptive_entropy"]:
        draft.differs("use_adaptive_entropy")


def _advantages(draft: Draft) -> None:
    draft.set_in("active_sampling", "loss_type", filter="none", refill=False)
    draft.note("TRL trains on every group, also those without signal: active_sampling.filter is none")
    scale, estimator = draft.choose("scale_rewards"), draft.choose("multi_objective_aggregation")
    draft.set("advantage.estimator.type", estimator, "multi_objective_aggregation")
    if estimator == "group":
        draft.set("advantage.estimator.scale", scale, "scale_rewards")
    elif draft.states("scale_rewards"):
        draft.differs("scale_rewards")
    if estimator == "gdpo" or scale != "none":
        draft.set_in("advantage.estimator", "scale_rewards", std_ddof=1, std_epsilon=1e-4)


def _rewards(draft: Draft) -> None:
    """Reward functions by their names in TRL's command line; a GRPOConfig alone does not name them."""
    names = draft["reward_funcs"]
    if names is None:
        draft.note("the file does not name its reward functions: set rewards.* (correctness alone is the default)")
        if draft["reward_weights"] is not None:
            draft.absent("reward_weights")
        return
    given = draft["reward_weights"] or [1.0] * len(names)
    if len(given) != len(names):
        place = draft.source.place("reward_weights")
        raise DataError(f"{place}: {len(given)} reward_weights for {len(names)} reward_funcs")
    weights = dict(zip(map(str, names), given, strict=True))
    correct = weights.pop("accuracy_reward", None)
    correct = weights.pop("reasoning_accuracy_reward", 0.0) if correct is None else correct
    draft.set("rewards.correctness.weight", correct, "reward_funcs")
    if "think_format_reward" in weights:
        draft.set("rewards.format.weight", weights.pop("think_format_reward"), "reward_funcs")
        draft.differs("reward_funcs", "think_format_reward also rewards an empty <think></think>; groupwise does not")
    overlong = weights.pop("get_soft_overlong_punishment", None)
    if overlong is not None:
        draft.set_in("rewards.overlong", "reward_funcs", buffer_tokens=256, weight=overlong)
        draft.differs("reward_funcs", "the overlong penalty ends at sampling.max_new_tokens, TRL's at 1280 tokens")
    for name in weights:
        draft.absent("reward_funcs", name=name)
