"""The loss of one micro-batch: one plain weighted sum over tokens, and the measurements of the same pass."""

from dataclasses import dataclass
from typing import Literal, assert_never

import torch
from torch import Tensor

from groupwise.objective.correction import CorrectionForm, CorrectionLevel, engine_weights, limit_weights
from groupwise.objective.kl import KlEstimator, KlImportance, kl_per_token
from groupwise.objective.mask import off_policy_sequences_kept
from groupwise.objective.measurement import TokenMeasure, clip_metrics, engine_metrics, ratio_metrics, reference_metrics
from groupwise.objective.metric import Metric
from groupwise.objective.ratio import RatioLevel, clamp_log_ratio, policy_log_ratio
from groupwise.objective.segments import sequence_index
from groupwise.objective.surrogate import Surrogate, cispo, dppo, gmpo, ppo_clip, reinforce, sapo, seed_clip, vespo

SurrogateName = Literal["ppo_clip", "cispo", "sapo", "reinforce", "dppo", "vespo", "gmpo", "seed_clip"]

ROUNDING_NATS = 1e-4
"""Log-probabilities this close are of one policy. There too |log π_new - log π_old| has the slope ±1, by the sign of
what two float32 passes round differently: noise as large as the policy gradient."""


@dataclass(frozen=True)
class Objective:
    """The policy loss as independent axes. The defaults are DAPO's (2503.14476): token ratio, PPO clip 0.2 / 0.28.

    Raises:
        ValueError: a number that its function gives no meaning to.
    """

    ratio: RatioLevel = "token"
    surrogate: SurrogateName = "ppo_clip"

    clip_low: float = 0.2
    """`ppo_clip` bounds the ratio at 1 - clip_low, `gmpo` the log-ratio at -clip_low, `dppo` the fall of π."""

    clip_high: float = 0.28
    """`ppo_clip` and `seed_clip` bound the ratio at 1 + clip_high, `dppo` and `gmpo` as at clip_low."""

    dual_clip: float | None = None
    """`ppo_clip`: absolute upper bound of the ratio where A < 0."""

    cispo_cap: float = 5.0
    """Absolute upper bound of CISPO's detached weight (ScaleRL: 5)."""

    cispo_floor: float = 0.0
    """Absolute lower bound of it; 0 is none."""

    sapo_temperatures: tuple[float, float] = (1.0, 1.05)
    """τ for A > 0 and for the others."""

    vespo_shape_positive: tuple[float, float] = (2.0, 3.0)
    """k and λ for A > 0."""

    vespo_shape_negative: tuple[float, float] = (3.0, 2.0)
    """k and λ for the others."""

    correction: CorrectionForm = "none"
    correction_level: CorrectionLevel = "token"

    correction_low: float = 0.5
    """`band`: engine weights below are 0."""

    correction_high: float = 2.0
    """`truncate` caps the engine weight here; `band` sets those above to 0."""

    off_policy_threshold: float | None = None
    """Mean log(π_behaviour/π_new), in nats per token, above which a sequence with A < 0 leaves the policy term."""

    off_policy_behaviour: Literal["sampler", "old"] = "sampler"
    """Whose log-probabilities are π_behaviour: the engine's, as in the paper, or the trainer's."""

    kl_estimator: KlEstimator = "k3"
    kl_importance: KlImportance = "token"

    def __post_init__(self) -> None:
        checks = {
            "clip_low and clip_high must not be negative": self.clip_low >= 0 and self.clip_high >= 0,
            "dual_clip must be larger than 1": self.dual_clip is None or self.dual_clip > 1,
            "cispo needs 0 <= cispo_floor < cispo_cap": 0 <= self.cispo_floor < self.cispo_cap,
            "sapo_temperatures must be positive": min(self.sapo_temperatures) > 0,
            "correction truncate needs correction_high > 0": self.correction != "truncate" or self.correction_high > 0,
            "correction band needs 0 <= correction_low < correction_high": self.correction != "band"
            or 0 <= self.correction_low < self.correction_high,
            "gmpo pools token ratios itself and needs ratio token": self.surrogate != "gmpo" or self.ratio == "token",
            "vespo needs ratio sequence_product": self.surrogate != "vespo" or self.ratio == "sequence_product",
        }
        failed = [reason for reason, holds in checks.items() if not holds]
        if failed:
            raise ValueError("; ".join(failed))


@dataclass(frozen=True)
class LossInputs:
    """What the loss of one micro-batch is computed from. Log-probabilities are of the sampled tokens, over N.

    Sequences must be whole where a sequence level is in use. Only `new_logps_N` and `entropy_N` carry gradient.

    Attributes:
        new_logps_N, old_logps_N, ref_logps_N, sampler_logps_N: the four streams. The reference is needed with a
            KL coefficient, the sampler with a correction or its off-policy mask.
        lengths_B: tokens of each sequence.
        advantages_B: one per sequence.
        advantages_N: one per token instead, where they differ within a sequence (KL in the reward). The sign of a
            sequence remains that of `advantages_B`.
        weights_N: of `reduction.token_weights`. Tokens of weight 0 are neither trained nor measured.
        policy_mask_N: bool; False leaves the policy term, and only that, with the denominator as it is (top-entropy
            tokens, Clip-Cov).
        kl_coefficient_B: one per sequence, so that domains may differ. None: no KL term.
        kl_weights_N: weights of the KL term, where its reduction is not that of the policy term.
        entropy_N: entropy of the policy in nats, with gradient if the bonus is to act.
        entropy_coefficient: of the bonus -coefficient · Σ weights_N · entropy_N.
        drift_coefficient_N: of a penalty |log π_new - log π_old| on single tokens (KL-Cov), 0 within ROUNDING_NATS.
            None: no penalty.
    """

    new_logps_N: Tensor
    old_logps_N: Tensor
    lengths_B: Tensor
    advantages_B: Tensor
    weights_N: Tensor
    entropy_N: Tensor | None = None
    ref_logps_N: Tensor | None = None
    sampler_logps_N: Tensor | None = None
    advantages_N: Tensor | None = None
    policy_mask_N: Tensor | None = None
    kl_coefficient_B: Tensor | None = None
    kl_weights_N: Tensor | None = None
    entropy_coefficient: float = 0.0
    drift_coefficient_N: Tensor | None = None


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
    new_N, old_N = inputs.new_logps_N, inputs.old_logps_N
    weights_N = inputs.weights_N.to(new_N.dtype)
    sequence_N = sequence_index(inputs.lengths_B, new_N.numel())
    advantages_N = inputs.advantages_B[sequence_N] if inputs.advantages_N is None else inputs.advantages_N
    advantages_N = advantages_N.to(new_N.dtype)
    measure = TokenMeasure(weights_N != 0)

    log_ratio_N = policy_log_ratio(new_N, old_N, inputs.lengths_B, objective.ratio)
    surrogate = _surrogate(objective, inputs, log_ratio_N, advantages_N)
    factor_N, metrics = _policy_factor(objective, inputs, sequence_N, measure)
    terms = {"policy_loss": (weights_N * factor_N * surrogate.loss_N).sum()}

    if inputs.kl_coefficient_B is not None:
        ref_N = _required(inputs.ref_logps_N, "ref_logps_N", "a KL term")
        kl_N = kl_per_token(new_N, old_N, ref_N, inputs.lengths_B, objective.kl_estimator, objective.kl_importance)
        kl_weights_N = weights_N if inputs.kl_weights_N is None else inputs.kl_weights_N.to(new_N.dtype)
        terms["kl_loss"] = (kl_weights_N * inputs.kl_coefficient_B.to(new_N.dtype)[sequence_N] * kl_N).sum()
    if inputs.entropy_coefficient != 0:
        entropy_N = _required(inputs.entropy_N, "entropy_N", "an entropy bonus")
        terms["entropy_loss"] = -inputs.entropy_coefficient * (weights_N * entropy_N).sum()
    if inputs.drift_coefficient_N is not None:
        moved_N = (new_N - old_N).abs()
        drift_N = inputs.drift_coefficient_N.to(new_N.dtype) * moved_N.masked_fill(moved_N < ROUNDING_NATS, 0.0)
        terms["drift_loss"] = (weights_N * drift_N).sum()
    loss = torch.stack(list(terms.values())).sum()

    metrics |= {name: Metric(term.detach(), "sum") for name, term in {"loss": loss, **terms}.items()}
    metrics |= clip_metrics(measure, surrogate.low_N, surrogate.high_N, advantages_N)
    token_log_ratio_N = (new_N - old_N).detach()
    # With ratio `none` the objective's own ratio is 1 by construction; what the policy did since shows per token.
    shown_N = clamp_log_ratio(token_log_ratio_N) if objective.ratio == "none" else log_ratio_N.detach()
    metrics |= ratio_metrics(measure, shown_N, token_log_ratio_N)
    if inputs.entropy_N is not None:
        metrics["entropy"] = measure.mean(inputs.entropy_N)
    if inputs.ref_logps_N is not None:
        metrics |= reference_metrics(measure, new_N, inputs.ref_logps_N)
    return LossOutputs(loss, metrics)


def _surrogate(objective: Objective, inputs: LossInputs, log_ratio_N: Tensor, advantages_N: Tensor) -> Surrogate:
    """Per-token loss before any factor."""
    new_N, old_N = inputs.new_logps_N, inputs.old_logps_N
    low, high = objective.clip_low, objective.clip_high
    ratio_N = log_ratio_N.exp()
    match objective.surrogate:
        case "ppo_clip":
            return ppo_clip(ratio_N, advantages_N, low, high, objective.dual_clip)
        case "cispo":
            return cispo(ratio_N, new_N, advantages_N, objective.cispo_cap, objective.cispo_floor)
        case "sapo":
            return sapo(ratio_N, advantages_N, *objective.sapo_temperatures)
        case "reinforce":
            return reinforce(ratio_N, advantages_N)
        case "dppo":
            return dppo(ratio_N, new_N, old_N, advantages_N, low, high)
        case "vespo":
            return vespo(
                log_ratio_N, new_N, advantages_N, objective.vespo_shape_positive, objective.vespo_shape_negative
            )
        case "gmpo":
            return gmpo(new_N, old_N, advantages_N, inputs.lengths_B, low, high)
        case "seed_clip":
            return seed_clip(ratio_N, advantages_N, high)
        case _:
            assert_never(objective.surrogate)


def _policy_factor(
    objective: Objective, inputs: LossInputs, sequence_N: Tensor, measure: TokenMeasure
) -> tuple[Tensor, dict[str, Metric]]:
    """What multiplies the policy term of each token, detached: engine weight and masks. With their metrics."""
    old_N = inputs.old_logps_N.detach()
    factor_N = torch.ones_like(old_N)
    metrics: dict[str, Metric] = {}
    if objective.correction != "none":
        _required(inputs.sampler_logps_N, "sampler_logps_N", "an engine correction")
    if inputs.sampler_logps_N is not None:
        weight_N = engine_weights(old_N, inputs.sampler_logps_N, inputs.lengths_B, objective.correction_level)
        limited_N = limit_weights(weight_N, objective.correction, objective.correction_low, objective.correction_high)
        factor_N = factor_N * limited_N
        metrics |= engine_metrics(measure, old_N, inputs.sampler_logps_N, weight_N)
        if objective.correction != "none":
            metrics["engine_weight_limited_fraction"] = measure.mean(limited_N != weight_N)
    if objective.off_policy_threshold is not None:
        behaviour_N = old_N
        if objective.off_policy_behaviour == "sampler":
            behaviour_N = _required(inputs.sampler_logps_N, "sampler_logps_N", "the off-policy mask")
        kept_B = off_policy_sequences_kept(
            behaviour_N, inputs.new_logps_N, inputs.advantages_B, inputs.lengths_B, objective.off_policy_threshold
        )
        factor_N = factor_N * kept_B[sequence_N]
        metrics["off_policy_masked_fraction"] = measure.mean(~kept_B[sequence_N])
    if inputs.policy_mask_N is not None:
        factor_N = factor_N * inputs.policy_mask_N
    return factor_N, metrics


def _required(stream_N: Tensor | None, name: str, use: str) -> Tensor:
    if stream_N is None:
        raise ValueError(f"{use} needs {name}")
    return stream_N
