"""The objective of a configuration of verl: loss, engine correction, KL, entropy, advantages."""

from groupwise.errors import DataError
from groupwise.importing.option_rows import Loss, losses_of
from groupwise.importing.record import Draft

_ACTOR = "actor_rollout_ref.actor"
_LOSS = f"{_ACTOR}.policy_loss"
_CORRECTION = "algorithm.rollout_correction"

# What the two clip ratios bound.
_BOUNDS = {"ppo_clip": "clip", "gmpo": "log_clip", "dppo": "tv", "dppo_kl": "kl"}


def objective(draft: Draft) -> None:
    """Everything that the loss is made of."""
    _advantages(draft)
    _loss(draft)
    _engine(draft)
    _kl(draft)
    if draft[f"{_ACTOR}.entropy_coeff"]:
        draft.set("entropy.bonus.type", "fixed", f"{_ACTOR}.entropy_coeff")


def _advantages(draft: Draft) -> None:
    key = "algorithm.adv_estimator"
    name = draft[key]
    estimator, baseline = draft.choose(key)
    if name == "gae":
        draft.absent(key, "gae needs a value function; the nearest, grpo, is taken")
    scale_key = "algorithm.norm_adv_by_std_in_grpo"
    scale = "group_std" if draft[scale_key] else "none"
    if name.startswith("rloo"):
        scale = "none"
    if estimator == "gdpo":
        scale = "none"
        draft.differs(key, "verl whitens over tokens, so that long answers weigh more; here over completions")
    if draft["actor_rollout_ref.rollout.n"] == 1 and baseline != "none":
        baseline, scale = "none", "none"
        estimator = estimator if estimator == "reinforce_plus_plus" else "group"
        draft.differs("actor_rollout_ref.rollout.n")
    draft.set("advantage.estimator.type", estimator, key)
    if estimator == "reinforce_plus_plus":
        whitened = {"unit": "token", "std_ddof": 1, "epsilon": 1e-8, "epsilon_in": "variance"}
        draft.set_in("advantage.estimator", key, baseline=baseline, **whitened)
    if estimator == "optimal_token_baseline":
        draft.set("advantage.estimator.tail", "return", key)
    if estimator not in ("group", "gdpo"):
        return
    if estimator == "group":
        draft.set("advantage.estimator.baseline", baseline, key)
        draft.set("advantage.estimator.scale", scale, scale_key)
    if scale != "none" or estimator == "gdpo":
        draft.set_in("advantage.estimator", scale_key, std_ddof=1, std_epsilon=1e-6)


def _loss(draft: Draft) -> None:
    key = f"{_LOSS}.loss_mode"
    name = str(draft[key]).replace("-", "_")
    losses = losses_of("verl")
    if name not in losses:
        draft.absent(key, f"no loss {name}; the nearest, vanilla, is taken")
    loss = losses.get(name, losses["vanilla"])
    draft.set("objective.surrogate.type", loss.surrogate, key)
    draft.set("objective.ratio", loss.ratio, key)
    if loss.words and name in losses:
        draft.differs(key, f"{name}: {loss.words}")
    _reduction(draft, loss)
    low, low_key = _bound(draft, "low")
    high, high_key = _bound(draft, "high")
    if draft.states(f"{_ACTOR}.clip_ratio") and f"{_ACTOR}.clip_ratio" not in (low_key, high_key):
        draft.differs(f"{_ACTOR}.clip_ratio")
    if loss.surrogate in _BOUNDS:
        draft.set(f"objective.surrogate.{_BOUNDS[loss.surrogate]}_low", low, low_key)
        draft.set(f"objective.surrogate.{_BOUNDS[loss.surrogate]}_high", high, high_key)
    if loss.surrogate == "cispo":
        draft.set("objective.surrogate.cap", 1 + high, high_key)
        draft.set("objective.surrogate.floor", max(1 - low, 0.0), low_key)
    if loss.surrogate in ("dppo", "dppo_kl"):
        draft.set("objective.surrogate.cap", draft[f"{_ACTOR}.clip_ratio_c"], f"{_ACTOR}.clip_ratio_c")
    if loss.surrogate == "dppo_kl":
        draft.set("objective.surrogate.reference", "old", key)
    if loss is losses["vanilla"]:
        draft.set("objective.surrogate.dual_clip", draft[f"{_ACTOR}.clip_ratio_c"], f"{_ACTOR}.clip_ratio_c")
    if name in ("clip_cov", "kl_cov"):
        draft.set("entropy.covariance.type", name, key)
        draft.differs(key)


def _bound(draft: Draft, side: str) -> tuple[float, str]:
    """The clip bound that verl reads, and the key that it stands in."""
    key = f"{_ACTOR}.clip_ratio_{side}"
    key = f"{_ACTOR}.clip_ratio" if draft[key] is None else key
    return draft[key], key


def _reduction(draft: Draft, loss: Loss) -> None:
    key = f"{_ACTOR}.loss_agg_mode"
    reduction = draft.choose(key)
    if loss.reduction and loss.reduction != reduction:
        if draft.states(key):
            draft.differs(key, f"not read by verl with this loss, which is reduced by {loss.reduction}")
        reduction = loss.reduction
    draft.set("objective.reduction.type", reduction, key)
    if reduction == "constant_length":
        draft.differs(key)


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
    form, bounds = ("tis", {"cap": high}) if low is None else ("mis", {"low": low, "high": high})
    draft.set_in("engine_correction", key, type=form, level="token" if level == "token" else "sequence_product")
    draft.set_in("engine_correction", f"{_CORRECTION}.rollout_is_threshold", **bounds)
    if draft.get("advantage.estimator.type") == "optimal_token_baseline":
        draft.set("advantage.estimator.engine_weights", True, key)


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
        estimator = draft.choose(name)
        if draft[name].endswith("+"):
            draft.differs(name)
        draft.set("kl.coefficient", draft[f"{_ACTOR}.kl_loss_coef"], f"{_ACTOR}.kl_loss_coef")
        draft.set("kl.estimator", estimator, name)
        draft.set("kl.importance", "none", key)
        if in_reward:
            draft.absent("algorithm.use_kl_in_reward", "one place for the KL: it is in the loss already")
    elif in_reward and draft["algorithm.kl_ctrl.kl_coef"]:
        draft.set("kl.coefficient", draft["algorithm.kl_ctrl.kl_coef"], "algorithm.kl_ctrl.kl_coef")
        draft.set("kl.in_reward", True, "algorithm.use_kl_in_reward")
        draft.differs("algorithm.use_kl_in_reward")
        penalty = draft["algorithm.kl_penalty"]
        if penalty not in ("kl", "k1"):
            draft.absent("algorithm.kl_penalty", f"in the reward the estimate is k1, not {penalty}")
        if draft["algorithm.kl_ctrl.type"] != "fixed":
            draft.absent("algorithm.kl_ctrl.type", "the coefficient stays as it is")
