"""The objective of a configuration of verl: loss, engine correction, KL, entropy, advantages."""

from typing import NamedTuple

from groupwise.errors import DataError
from groupwise.importing.record import Draft

_ACTOR = "actor_rollout_ref.actor"
_LOSS = f"{_ACTOR}.policy_loss"
_CORRECTION = "algorithm.rollout_correction"


class Loss(NamedTuple):
    """What one `loss_mode` stands for. reduction: one that verl takes whatever loss_agg_mode says; empty for none."""

    surrogate: str
    ratio: str
    reduction: str = ""
    words: str = ""


LOSSES = {
    "vanilla": Loss("ppo_clip", "token", words="PPO's clip with a dual clip, `clip_ratio_c`, that is always on"),
    "gspo": Loss("ppo_clip", "gspo_token", "sequence_mean_token_mean", "its gradient is GSPO's"),
    "sapo": Loss("sapo", "token", "sequence_mean_token_mean"),
    "geo_mean": Loss("gmpo", "token", "sequence_mean_token_mean", "the clip ratios bound log-ratios"),
    "cispo": Loss("cispo", "token", words="the weight is held within 1 - low and 1 + high"),
    "clip_cov": Loss("ppo_clip", "token", words="without a dual clip"),
    "kl_cov": Loss("reinforce", "token", words="without any clip"),
    "gpg": Loss("reinforce", "none"),
    "dppo_tv": Loss("dppo", "token", words="verl also holds the ratio below `clip_ratio_c`"),
}
# What the two clip ratios bound.
_BOUNDS = {"ppo_clip": "clip", "gmpo": "log_clip", "dppo": "tv"}
REDUCTIONS = {
    "token-mean": "token_mean",
    "seq-mean-token-sum": "sequence_mean_token_sum",
    "seq-mean-token-mean": "sequence_mean_token_mean",
    "seq-mean-token-sum-norm": "constant_length",
}
ESTIMATORS = {
    "kl": "k1",
    "k1": "k1",
    "mse": "k2",
    "k2": "k2",
    "k2+": "k2",
    "low_var_kl": "k3",
    "k3": "k3",
    "k1+": "k2",
    "kl+": "k2",
    "k3+": "k2",
    "low_var_kl+": "k2",
}
_ESTIMATES_OF_ADVANTAGE = {
    "grpo": ("group", "group_mean"),
    "grpo_vectorized": ("group", "group_mean"),
    "rloo": ("group", "leave_one_out"),
    "rloo_vectorized": ("group", "leave_one_out"),
    "gdpo": ("gdpo", "group_mean"),
    "reinforce_plus_plus_baseline": ("group", "group_mean"),
}


def objective(draft: Draft) -> None:
    """Everything that the loss is made of."""
    _advantages(draft)
    _loss(draft)
    _engine(draft)
    _kl(draft)
    if draft[f"{_ACTOR}.entropy_coeff"]:
        draft.set("entropy.bonus.type", "fixed", f"{_ACTOR}.entropy_coeff")
        draft.set("entropy.bonus.coefficient", draft[f"{_ACTOR}.entropy_coeff"], f"{_ACTOR}.entropy_coeff")


def _advantages(draft: Draft) -> None:
    key = "algorithm.adv_estimator"
    name = draft[key]
    if name not in _ESTIMATES_OF_ADVANTAGE:
        reason = "needs a value function" if name == "gae" else "is not among the estimators"
        draft.absent(key, f"{name} {reason}; the nearest, grpo, is taken")
    estimator, baseline = _ESTIMATES_OF_ADVANTAGE.get(name, ("group", "group_mean"))
    scale_key = "algorithm.norm_adv_by_std_in_grpo"
    scale = "group_std" if draft[scale_key] else "none"
    if name.startswith("rloo"):
        scale = "none"
    if name == "reinforce_plus_plus_baseline":
        scale = "batch_std"
        draft.differs(key, "verl whitens over the tokens of the batch; here the deviation is that of its rewards")
    if estimator == "gdpo":
        scale = "none"
        draft.differs(key, "verl whitens over tokens, so that long answers weigh more; here over completions")
    if draft["actor_rollout_ref.rollout.n"] == 1:
        baseline, scale, estimator = "none", "none", "group"
        draft.differs(
            "actor_rollout_ref.rollout.n", "verl takes the reward of a group of one as its advantage: no baseline"
        )
    draft.set("advantage.estimator.type", estimator, key)
    if estimator == "group":
        draft.set("advantage.estimator.baseline", baseline, key)
        draft.set("advantage.estimator.scale", scale, scale_key)
    if scale != "none" or estimator == "gdpo":
        draft.set("advantage.estimator.std_ddof", 1, scale_key)
        draft.set("advantage.estimator.std_epsilon", 1e-6, scale_key)


def _loss(draft: Draft) -> None:
    key = f"{_LOSS}.loss_mode"
    name = str(draft[key]).replace("-", "_")
    if name not in LOSSES:
        draft.absent(key, f"no loss {name}; the nearest, vanilla, is taken")
    loss = LOSSES.get(name, LOSSES["vanilla"])
    draft.set("objective.surrogate.type", loss.surrogate, key)
    draft.set("objective.ratio", loss.ratio, key)
    if loss.words and name in LOSSES:
        draft.differs(key, f"{name}: {loss.words}")
    _reduction(draft, loss)
    low, low_key = _bound(draft, "low")
    high, high_key = _bound(draft, "high")
    if draft.states(f"{_ACTOR}.clip_ratio") and f"{_ACTOR}.clip_ratio" not in (low_key, high_key):
        draft.differs(
            f"{_ACTOR}.clip_ratio", "not read by verl: clip_ratio_low and clip_ratio_high are 0.2 unless set to null"
        )
    if loss.surrogate in _BOUNDS:
        draft.set(f"objective.surrogate.{_BOUNDS[loss.surrogate]}_low", low, low_key)
        draft.set(f"objective.surrogate.{_BOUNDS[loss.surrogate]}_high", high, high_key)
    if loss.surrogate == "cispo":
        draft.set("objective.surrogate.cap", 1 + high, high_key)
        draft.set("objective.surrogate.floor", max(1 - low, 0.0), low_key)
    if loss is LOSSES["vanilla"]:
        draft.set("objective.surrogate.dual_clip", draft[f"{_ACTOR}.clip_ratio_c"], f"{_ACTOR}.clip_ratio_c")
    if loss.surrogate == "sapo":
        draft.set("objective.surrogate.temperature_positive", draft[f"{_ACTOR}.tau_pos"], f"{_ACTOR}.tau_pos")
        draft.set("objective.surrogate.temperature_negative", draft[f"{_ACTOR}.tau_neg"], f"{_ACTOR}.tau_neg")
    if name in ("clip_cov", "kl_cov"):
        draft.set("entropy.covariance.type", name, key)
        draft.set("entropy.covariance.fraction", draft[f"{_LOSS}.{name}_ratio"], f"{_LOSS}.{name}_ratio")
        draft.differs(
            key,
            "covariances are of all tokens of the optimizer step under the policy that sampled; verl's of each "
            "micro-batch under the current one",
        )
    if name == "clip_cov":
        draft.set("entropy.covariance.low", draft[f"{_LOSS}.clip_cov_lb"], f"{_LOSS}.clip_cov_lb")
        draft.set("entropy.covariance.high", draft[f"{_LOSS}.clip_cov_ub"], f"{_LOSS}.clip_cov_ub")
    if name == "kl_cov":
        draft.set("entropy.covariance.coefficient", draft[f"{_LOSS}.ppo_kl_coef"], f"{_LOSS}.ppo_kl_coef")


def _bound(draft: Draft, side: str) -> tuple[float, str]:
    """The clip bound that verl reads, and the key that it stands in."""
    key = f"{_ACTOR}.clip_ratio_{side}"
    key = f"{_ACTOR}.clip_ratio" if draft[key] is None else key
    return draft[key], key


def _reduction(draft: Draft, loss: Loss) -> None:
    key = f"{_ACTOR}.loss_agg_mode"
    mode = draft[key]
    if mode not in REDUCTIONS:
        draft.absent(key, f"no reduction {mode}; token_mean is taken")
    reduction = REDUCTIONS.get(mode, "token_mean")
    if loss.reduction and loss.reduction != reduction:
        if draft.states(key):
            draft.differs(key, f"not read by verl with this loss, which is reduced by {loss.reduction}")
        reduction = loss.reduction
    draft.set("objective.reduction.type", reduction, key)
    if reduction == "constant_length":
        if draft[f"{_ACTOR}.loss_scale_factor"]:
            value = draft[f"{_ACTOR}.loss_scale_factor"]
            draft.set("objective.reduction.tokens", value, f"{_ACTOR}.loss_scale_factor")
        draft.differs(
            key,
            "divided by sequences and constant, as in verl since #5417 (February 2026); before, by the constant alone, "
            "which is a loss larger by the number of sequences",
        )


def _engine(draft: Draft) -> None:
    bypass = draft[f"{_CORRECTION}.bypass_mode"]
    # Without a ratio nothing reads the old log-probabilities, and a pass for them would be for nothing.
    by_trainer = not bypass and draft.get("objective.ratio") != "none"
    draft.set("objective.old_logps", "trainer" if by_trainer else "sampler", f"{_CORRECTION}.bypass_mode")
    level, threshold = draft[f"{_CORRECTION}.rollout_is"] or None, draft[f"{_CORRECTION}.rollout_is_threshold"]
    key = f"{_CORRECTION}.rollout_is"
    old_cap = draft[f"{_ACTOR}.tis_imp_ratio_cap"]
    if level is None and old_cap > 0:
        level, threshold, key = "token", old_cap, f"{_ACTOR}.tis_imp_ratio_cap"
    if level is None:
        return
    if level not in ("token", "sequence"):
        raise DataError(f"{draft.source.place(key)}: {key}: found {level!r}, expected token or sequence")
    low, high = _band(draft, threshold)
    if bypass and draft[f"{_CORRECTION}.loss_type"] == "reinforce":
        _bypassed_reinforce(draft, level, low, high)
        return
    if bypass:
        draft.differs(key, "with bypass_mode verl only measures the weights: the ratio already is to the sampler")
        return
    draft.set("engine_correction.type", "tis" if low is None else "mis", key)
    draft.set("engine_correction.level", "token" if level == "token" else "sequence_product", key)
    bound = "engine_correction.cap" if low is None else "engine_correction.high"
    draft.set(bound, high, f"{_CORRECTION}.rollout_is_threshold")
    if low is not None:
        draft.set("engine_correction.low", low, f"{_CORRECTION}.rollout_is_threshold")


def _bypassed_reinforce(draft: Draft, level: str, low: float | None, high: float) -> None:
    """-min(π_new/π_sampler, cap)·A·log π with the weight detached: what CISPO is."""
    key = f"{_CORRECTION}.loss_type"
    if level != "token" or low is not None:
        draft.absent(key, "only a truncated weight of each token has a counterpart")
        return
    for option in ("clip_low", "clip_high", "dual_clip"):
        draft.drop(f"objective.surrogate.{option}")
    draft.set("objective.surrogate.type", "cispo", key)
    draft.set("objective.ratio", "token", key)
    draft.set("objective.surrogate.cap", high, f"{_CORRECTION}.rollout_is_threshold")


def _band(draft: Draft, threshold: float | str) -> tuple[float | None, float]:
    """Lower and upper bound of `2.0` or `0.5_5.0`."""
    key = f"{_CORRECTION}.rollout_is_threshold"
    low, _, high = str(threshold).rpartition("_")
    try:
        return (float(low) if low else None), float(high)
    except ValueError:
        raise DataError(f"{draft.source.place(key)}: {key}: found {threshold!r}, expected 2.0 or 0.5_5.0") from None


def _kl(draft: Draft) -> None:
    key = f"{_ACTOR}.use_kl_loss"
    in_loss, in_reward = draft[key], draft["algorithm.use_kl_in_reward"]
    if in_loss and draft[f"{_ACTOR}.kl_loss_coef"]:
        name = f"{_ACTOR}.kl_loss_type"
        estimator = ESTIMATORS.get(draft[name])
        if estimator is None:
            draft.absent(name, f"no estimator {draft[name]}; k2 is taken")
        elif str(draft[name]).endswith("+"):
            draft.differs(name, "k2 has its gradient; the value of the KL that is shown is then k2's as well")
        draft.set("kl.coefficient", draft[f"{_ACTOR}.kl_loss_coef"], f"{_ACTOR}.kl_loss_coef")
        draft.set("kl.estimator", estimator or "k2", name)
        draft.set("kl.importance", "none", key)
        if in_reward:
            draft.absent("algorithm.use_kl_in_reward", "one place for the KL: it is in the loss already")
    elif in_reward and draft["algorithm.kl_ctrl.kl_coef"]:
        draft.set("kl.coefficient", draft["algorithm.kl_ctrl.kl_coef"], "algorithm.kl_ctrl.kl_coef")
        draft.set("kl.in_reward", True, "algorithm.use_kl_in_reward")
        draft.differs(
            "algorithm.use_kl_in_reward",
            "verl adds the KL of the whole answer to its reward before the group mean; "
            "here each token bears the KL that follows it, after the group mean",
        )
        if ESTIMATORS.get(draft["algorithm.kl_penalty"]) != "k1":
            draft.absent(
                "algorithm.kl_penalty", f"in the reward the estimate is k1, not {draft['algorithm.kl_penalty']}"
            )
        if draft["algorithm.kl_ctrl.type"] != "fixed":
            draft.absent("algorithm.kl_ctrl.type", "the coefficient stays as it is")
