"""The loss of one micro-batch: one plain weighted sum over tokens, and the measurements of the same pass."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from groupwise.objective.corrections.correction import EngineCorrection, NoCorrection
from groupwise.objective.kl.k3 import K3
from groupwise.objective.kl.kl_estimator import Importance, KlEstimator
from groupwise.objective.masks.off_policy import NoOffPolicyMask
from groupwise.objective.masks.policy_mask import MaskInputs, PolicyMask
from groupwise.objective.measurement import TokenMeasure, clip_metrics, engine_metrics, ratio_metrics, reference_metrics
from groupwise.objective.metric import Metric
from groupwise.objective.ratios.no_ratio import NoRatio
from groupwise.objective.ratios.ratio import RatioLevel, clamp_log_ratio
from groupwise.objective.ratios.token import TokenRatio
from groupwise.objective.segments import segment_index
from groupwise.objective.surrogates.ppo_clip import PpoClip
from groupwise.objective.surrogates.surrogate import Surrogate, SurrogateInputs

ROUNDING_NATS = 1e-4
"""Log-probabilities this close are of one policy. There too |log π_new - log π_old| has the slope ±1, by the sign of
what two float32 passes round differently: noise as large as the policy gradient."""


@dataclass(frozen=True)
class Objective:
    """The policy loss as independent axes. The defaults are DAPO's (2503.14476): token ratio, PPO clip 0.2 / 0.28."""

    ratio: RatioLevel = field(default_factory=TokenRatio)
    surrogate: Surrogate = field(default_factory=PpoClip)
    correction: NoCorrection | EngineCorrection = field(default_factory=NoCorrection)
    off_policy_mask: NoOffPolicyMask | PolicyMask = field(default_factory=NoOffPolicyMask)
    kl_estimator: KlEstimator = field(default_factory=K3)
    kl_importance: Importance = "token"


@dataclass(frozen=True)
class LossInputs:
    """What the loss of one micro-batch is computed from. Log-probabilities are of the sampled tokens, over N.

    Episodes must be whole where a level of whole answers is in use. Only `new_logps_N` and `entropy_N` carry gradient.

    Attributes:
        new_logps_N, old_logps_N, ref_logps_N, sampler_logps_N: the four streams. The reference is needed with a
            KL coefficient, the sampler with a correction or its off-policy mask.
        lengths_E: sampled tokens of each episode.
        advantages_N: of each token, before any KL in the reward. The off-policy mask takes an episode's mean.
        kl_cost_N: what a KL penalty in the reward takes off the advantage of each token in the policy term.
        weights_N: of `reduction.token_weights`. Tokens of weight 0 are neither trained nor measured.
        policy_mask_N: bool; False leaves the policy term, and only that, with the denominator as it is (top-entropy
            tokens, Clip-Cov).
        kl_coefficient_E: one per episode, so that domains may differ. None: no KL term.
        referenced_E: bool, which episodes the reference has scored; what it says of others is not measured. None: all.
        kl_weights_N: weights of the KL term, where its reduction is not that of the policy term.
        entropy_N: entropy of the policy in nats, with gradient if the bonus is to act.
        entropy_coefficient: of the bonus -coefficient · Σ weights_N · entropy_N.
        drift_coefficient_N: of a penalty |log π_new - log π_old| on single tokens (KL-Cov), 0 within ROUNDING_NATS.
            None: no penalty.
        surrogate_step_N, mask_step_N: what surrogate and mask computed from the whole optimizer step; None for those
            that compute nothing from it.
    """

    new_logps_N: Tensor
    old_logps_N: Tensor
    lengths_E: Tensor
    advantages_N: Tensor
    weights_N: Tensor
    entropy_N: Tensor | None = None
    ref_logps_N: Tensor | None = None
    sampler_logps_N: Tensor | None = None
    kl_cost_N: Tensor | None = None
    policy_mask_N: Tensor | None = None
    kl_coefficient_E: Tensor | None = None
    referenced_E: Tensor | None = None
    kl_weights_N: Tensor | None = None
    entropy_coefficient: float = 0.0
    drift_coefficient_N: Tensor | None = None
    surrogate_step_N: Tensor | None = None
    mask_step_N: Tensor | None = None


@dataclass(frozen=True)
class LossOutputs:
    """The loss, to be added up over micro-batches and ranks without any division, and what was measured."""

    loss: Tensor
    metrics: dict[str, Metric]


def policy_loss(objective: Objective, inputs: LossInputs) -> LossOutputs:
    """Σ weights_N · (policy + KL) - entropy bonus of one micro-batch.

    Raises:
        ValueError: the lengths do not fit the token axis, or a stream is missing that the objective needs.
    """
    new_N, old_N, lengths_E = inputs.new_logps_N, inputs.old_logps_N, inputs.lengths_E
    weights_N = inputs.weights_N.to(new_N.dtype)
    episode_N = segment_index(lengths_E, new_N.numel())
    advantages_N = inputs.advantages_N if inputs.kl_cost_N is None else inputs.advantages_N - inputs.kl_cost_N
    advantages_N = advantages_N.to(new_N.dtype)
    measure = TokenMeasure(weights_N != 0)

    log_ratio_N = objective.ratio.log_ratio(new_N, old_N, lengths_E)
    surrogate = objective.surrogate.loss(
        SurrogateInputs(
            log_ratio_N, new_N, old_N, advantages_N, lengths_E, inputs.sampler_logps_N, inputs.surrogate_step_N
        )
    )
    factor_N, metrics = _policy_factor(objective, inputs, measure)
    terms = {"policy_loss": (weights_N * factor_N * surrogate.loss_N).sum()}

    if inputs.kl_coefficient_E is not None:
        ref_N = _required(inputs.ref_logps_N, "ref_logps_N", "a KL term")
        kl_N = objective.kl_estimator.per_token(new_N, old_N, ref_N, lengths_E, objective.kl_importance)
        kl_weights_N = weights_N if inputs.kl_weights_N is None else inputs.kl_weights_N.to(new_N.dtype)
        terms["kl_loss"] = (kl_weights_N * inputs.kl_coefficient_E.to(new_N.dtype)[episode_N] * kl_N).sum()
    if inputs.entropy_coefficient != 0:
        entropy_N = _required(inputs.entropy_N, "entropy_N", "an entropy bonus")
        terms["entropy_loss"] = -inputs.entropy_coefficient * (weights_N * entropy_N).sum()
    if inputs.drift_coefficient_N is not None:
        moved_N = (new_N - old_N).abs()
        drift_N = inputs.drift_coefficient_N.to(new_N.dtype) * moved_N.masked_fill(moved_N < ROUNDING_NATS, 0.0)
        terms["drift_loss"] = (weights_N * drift_N).sum()
    loss = torch.stack(list(terms.values())).sum()

    metrics["policy/loss"] = Metric(loss.detach(), "sum")
    # A single term is the loss.
    for name, term in terms.items() if len(terms) > 1 else ():
        metrics[f"policy/{name}"] = Metric(term.detach(), "sum")
    metrics |= clip_metrics(measure, surrogate.low_N, surrogate.high_N, advantages_N)
    metrics |= {f"policy/own/{name}": measure.mean(values_N) for name, values_N in surrogate.measures.items()}
    token_log_ratio_N = (new_N - old_N).detach()
    # With ratio `none` the objective's own ratio is 1 by construction; what the policy did since shows per token.
    shown_N = clamp_log_ratio(token_log_ratio_N) if isinstance(objective.ratio, NoRatio) else log_ratio_N.detach()
    metrics |= ratio_metrics(measure, shown_N, token_log_ratio_N)
    if inputs.entropy_N is not None:
        metrics["policy/entropy"] = measure.mean(inputs.entropy_N)
    if inputs.ref_logps_N is not None:
        known = inputs.referenced_E
        of_known = measure if known is None else TokenMeasure(measure.trained_N & known[episode_N])
        metrics |= reference_metrics(of_known, new_N, inputs.ref_logps_N)
    return LossOutputs(loss, metrics)


def _policy_factor(objective: Objective, inputs: LossInputs, measure: TokenMeasure) -> tuple[Tensor, dict[str, Metric]]:
    """What multiplies the policy term of each token, detached: engine weight and masks. With their metrics."""
    old_N = inputs.old_logps_N.detach()
    factor_N = torch.ones_like(old_N)
    metrics: dict[str, Metric] = {}
    correction, mask, lengths_E = objective.correction, objective.off_policy_mask, inputs.lengths_E
    if isinstance(correction, EngineCorrection):
        _required(inputs.sampler_logps_N, "sampler_logps_N", "an engine correction")
    if inputs.sampler_logps_N is not None:
        weight_N = correction.weights(old_N, inputs.sampler_logps_N, lengths_E)
        limited_N = correction.limited(weight_N)
        factor_N = factor_N * limited_N
        metrics |= engine_metrics(measure, weight_N)
        if isinstance(correction, EngineCorrection):
            metrics["engine/weight_limited_fraction"] = measure.mean(limited_N != weight_N)
    if isinstance(mask, PolicyMask):
        new_N, sampler_N = inputs.new_logps_N.detach(), inputs.sampler_logps_N
        kept_N = mask.kept(MaskInputs(new_N, old_N, sampler_N, inputs.advantages_N, lengths_E, inputs.mask_step_N))
        factor_N = factor_N * kept_N
        metrics["policy/off_policy_masked_fraction"] = measure.mean(~kept_N)
    if inputs.policy_mask_N is not None:
        factor_N = factor_N * inputs.policy_mask_N
    return factor_N, metrics


def _required(stream_N: Tensor | None, name: str, use: str) -> Tensor:
    if stream_N is None:
        raise ValueError(f"{use} needs {name}")
    return stream_N
