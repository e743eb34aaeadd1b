from dataclasses import replace
from typing import Any, get_args

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor

from groupwise.config import TrainConfig
from groupwise.config.checks import contradictions
from groupwise.objective.corrections.mis import Mis
from groupwise.objective.corrections.tis import Tis
from groupwise.objective.kl import KlEstimatorOption
from groupwise.objective.kl.k2 import K2
from groupwise.objective.kl.kl_estimator import Importance, KlEstimator
from groupwise.objective.loss import LossInputs, Objective, policy_loss
from groupwise.objective.masks.off_policy import SequenceMask
from groupwise.objective.metric import merge_metrics
from groupwise.objective.ratios import RatioOption
from groupwise.objective.ratios.ratio import RatioLevel
from groupwise.objective.reductions.reduction import ReductionInputs, count_totals
from groupwise.objective.reductions.sequence_mean_token_mean import SequenceMeanTokenMean
from groupwise.objective.reductions.token_mean import TokenMean
from groupwise.objective.surrogates import SurrogateOption
from groupwise.objective.surrogates.cispo import Cispo
from groupwise.objective.surrogates.dppo import Dppo
from groupwise.objective.surrogates.gmpo import Gmpo
from groupwise.objective.surrogates.ppo_clip import PpoClip
from groupwise.objective.surrogates.sapo import Sapo
from groupwise.objective.surrogates.seed_clip import SeedClip
from groupwise.objective.surrogates.surrogate import Surrogate
from groupwise.technique import Technique
from tests.objective.fixture import (
    LENGTHS,
    NEW_MINUS_OLD,
    NEW_MINUS_REF,
    OLD_MINUS_SAMPLER,
    close,
    inputs,
    loss_and_gradient,
    techniques,
    weights,
    with_step_values,
)

NARROW = Objective(surrogate=PpoClip(clip_high=0.2))
MASK = SequenceMask(threshold_nats=0.1)
SURROGATES: list[Surrogate] = techniques(SurrogateOption)
RATIOS: list[RatioLevel] = techniques(RatioOption)
COMBINATIONS = [(s, r) for s in SURROGATES for r in RATIOS if s.needs_ratio in ("", r.type)]


def extreme_inputs(dtype: torch.dtype) -> LossInputs:
    """Log-ratios of ±200 in every stream, for both signs of the advantage, beside ordinary ones."""
    lengths_E = torch.tensor([2, 0, 1, 3, 1, 1])
    old_N = torch.tensor([-1.0, -250, -0.5, -1, -2, -250, -250, -1], dtype=dtype)
    new_N = torch.tensor([-201.0, -50, -0.5, -201, -2, -50, -50, -201], dtype=dtype)
    return LossInputs(
        new_logps_N=new_N.requires_grad_(),
        old_logps_N=old_N,
        ref_logps_N=torch.tensor([-1.0, -250, -200.5, -1, -1, -1, -250, -1], dtype=dtype),
        sampler_logps_N=torch.tensor([-201.0, -50, -0.5, -1, -202, -250, -50, -201], dtype=dtype),
        lengths_E=lengths_E,
        advantages_N=torch.tensor([1.0, 0.5, -1, -1, -1, 1], dtype=torch.float64).repeat_interleave(lengths_E),
        weights_N=SequenceMeanTokenMean().token_weights(ReductionInputs(lengths_E, count_totals(lengths_E))),
        entropy_N=torch.rand(8, dtype=dtype, generator=torch.Generator().manual_seed(0)),
        kl_coefficient_E=torch.full((6,), 0.1, dtype=torch.float64),
        entropy_coefficient=0.1,
        drift_coefficient_N=torch.ones(8, dtype=dtype),
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("surrogate", "ratio"), COMBINATIONS, ids=lambda technique: technique.type)
def test_extreme_log_ratios_stay_finite(surrogate: Surrogate, ratio: RatioLevel, dtype: torch.dtype) -> None:
    estimators: list[KlEstimator] = techniques(KlEstimatorOption)
    importances: tuple[Importance, ...] = get_args(Importance)
    for estimator, importance in zip(estimators * 2, importances + importances[:2], strict=True):
        objective = Objective(
            ratio=ratio,
            surrogate=surrogate,
            correction=Tis(level="sequence_product"),
            off_policy_mask=MASK,
            kl_estimator=estimator,
            kl_importance=importance,
        )
        outputs, gradient_N = loss_and_gradient(objective, with_step_values(objective, extreme_inputs(dtype)))
        assert outputs.loss.isfinite()
        assert gradient_N.isfinite().all()
        assert all(torch.as_tensor(m.value).isfinite() for m in merge_metrics([outputs.metrics]).values())


def test_advantages_may_differ_within_an_episode() -> None:
    per_token_N = torch.linspace(-1, 1, 10, dtype=torch.float64)
    outputs, _ = loss_and_gradient(NARROW, inputs(TokenMean(), advantages_N=per_token_N))
    ratio_N = NEW_MINUS_OLD.exp()
    close(outputs.loss, -torch.minimum(ratio_N * per_token_N, ratio_N.clamp(0.8, 1.2) * per_token_N).mean())


def test_kl_coefficients_differ_by_sequence_and_leave_the_policy_term_alone() -> None:
    plain, _ = loss_and_gradient(Objective(), inputs(TokenMean()))
    coefficient_E = torch.tensor([0.0, 0.5, 0.0, 2.0])
    of = inputs(TokenMean(), kl_coefficient_E=coefficient_E)
    outputs, _ = loss_and_gradient(Objective(kl_estimator=K2(), kl_importance="none"), of)
    expected = (coefficient_E.repeat_interleave(LENGTHS) * NEW_MINUS_REF.square() / 2).mean()
    close(outputs.loss - plain.loss, expected)
    assert float(outputs.metrics["policy/kl_loss"].value) == pytest.approx(float(expected))


def test_kl_may_have_a_reduction_of_its_own() -> None:
    ones_E = torch.ones(4)
    own = inputs(TokenMean(), kl_coefficient_E=ones_E, kl_weights_N=weights(SequenceMeanTokenMean()))
    outputs, _ = loss_and_gradient(Objective(), own)
    shared, _ = loss_and_gradient(Objective(), inputs(SequenceMeanTokenMean(), kl_coefficient_E=ones_E))
    plain, _ = loss_and_gradient(Objective(), inputs(TokenMean()))
    close(outputs.metrics["policy/kl_loss"].value, shared.metrics["policy/kl_loss"].value)
    close(outputs.metrics["policy/policy_loss"].value, plain.metrics["policy/loss"].value)


def test_masks_of_the_policy_term_leave_kl_and_denominator() -> None:
    mask_N = torch.tensor([True, False] * 5)
    of = inputs(TokenMean(), policy_mask_N=mask_N, kl_coefficient_E=torch.ones(4))
    outputs, gradient_N = loss_and_gradient(Objective(), of)
    full, full_gradient_N = loss_and_gradient(Objective(), inputs(TokenMean()))
    kl_only = replace(of, policy_mask_N=torch.zeros(10, dtype=torch.bool))
    _, kl_gradient_N = loss_and_gradient(Objective(), kl_only)
    close(gradient_N, full_gradient_N * mask_N + kl_gradient_N)
    assert outputs.metrics["policy/kl_loss"].value != 0
    assert full.metrics["policy/loss"].value != outputs.metrics["policy/policy_loss"].value


def test_entropy_bonus_raises_entropy() -> None:
    entropy_N = torch.linspace(0.1, 1.0, 10, dtype=torch.float64).requires_grad_()
    of = inputs(TokenMean(), entropy_N=entropy_N, entropy_coefficient=0.01)
    outputs = policy_loss(Objective(), of)
    (gradient_N,) = torch.autograd.grad(outputs.loss, entropy_N)
    close(gradient_N, torch.full((10,), -0.001))
    assert float(outputs.metrics["policy/entropy_loss"].value) == pytest.approx(-0.01 * 0.55)


def test_drift_penalty_acts_on_its_tokens_alone() -> None:
    coefficient_N = torch.zeros(10, dtype=torch.float64)
    coefficient_N[3] = 2.0
    outputs, gradient_N = loss_and_gradient(Objective(), inputs(TokenMean(), drift_coefficient_N=coefficient_N))
    plain, plain_gradient_N = loss_and_gradient(Objective(), inputs(TokenMean()))
    close(outputs.loss - plain.loss, 2.0 * 0.4 / 10)
    close(gradient_N - plain_gradient_N, [0.0] * 3 + [-0.2] + [0.0] * 6)


def metrics_of(objective: Objective, **more: Any) -> dict[str, float]:
    outputs = policy_loss(objective, inputs(TokenMean(), **more))
    return {name: float(m.value) for name, m in merge_metrics([outputs.metrics]).items()}


def test_metrics() -> None:
    entropy_N = torch.linspace(0.1, 1.0, 10, dtype=torch.float64)
    found = metrics_of(NARROW, entropy_N=entropy_N)
    ratio_N, engine_N = NEW_MINUS_OLD.exp(), OLD_MINUS_SAMPLER.exp()
    expected: dict[str, Tensor | float] = {
        "policy/ratio_mean": ratio_N.mean(),
        "policy/ratio_min": ratio_N.min(),
        "policy/ratio_max": ratio_N.max(),
        # A>0 above 1.2: tokens 0 and 7. A<0 below 0.8: tokens 3 and 9; token 8 is below too, but its A is positive.
        "policy/clip_fraction_high_positive": 0.2,
        "policy/clip_fraction_low_negative": 0.2,
        "policy/clip_fraction_low_positive": 0.0,
        "policy/clip_fraction_high_negative": 0.0,
        "policy/approx_kl_k1": -NEW_MINUS_OLD.mean(),
        "policy/approx_kl_k3": (ratio_N - 1 - NEW_MINUS_OLD).mean(),
        "policy/kl_ref_k1": 0.06,
        "policy/kl_ref_k3": 0.0223076,
        "policy/entropy": 0.55,
        "engine/weight_mean": engine_N.mean(),
        "engine/weight_square_mean": engine_N.square().mean(),
        "engine/weight_max": engine_N.max(),
        "policy/loss": -0.127387,
    }
    assert found == pytest.approx({name: float(value) for name, value in expected.items()}, rel=1e-5)


def test_metrics_of_an_engine_correction() -> None:
    found = metrics_of(Objective(correction=Tis(), off_policy_mask=MASK))
    assert found["engine/weight_limited_fraction"] == pytest.approx(0.2)
    assert found["policy/off_policy_masked_fraction"] == pytest.approx(0.1)


def test_tokens_of_weight_zero_are_not_measured() -> None:
    trained_E = torch.tensor([True, False, True, True])
    weights_N = TokenMean().token_weights(ReductionInputs(LENGTHS, count_totals(LENGTHS, trained_E)), trained_E)
    of = replace(inputs(TokenMean()), weights_N=weights_N)
    merged = merge_metrics([policy_loss(Objective(), of).metrics])
    trained_N = trained_E.repeat_interleave(LENGTHS)
    assert merged["policy/ratio_mean"].weight == 7
    assert merged["policy/ratio_max"].value == pytest.approx(NEW_MINUS_OLD[trained_N].exp().max().item())
    assert merged["policy/kl_ref_k1"].value == pytest.approx(NEW_MINUS_REF[trained_N].mean().item())


def test_metrics_carry_no_gradient() -> None:
    outputs = policy_loss(Objective(correction=Tis()), inputs(TokenMean(), kl_coefficient_E=torch.ones(4)))
    values = [m.value for m in outputs.metrics.values()]
    assert not any(isinstance(v, Tensor) and (v.requires_grad or v.ndim) for v in values)


def test_an_empty_micro_batch_is_zero() -> None:
    none = torch.zeros(0)
    for lengths_E in (torch.zeros(0, dtype=torch.long), torch.zeros(2, dtype=torch.long)):
        of = LossInputs(
            new_logps_N=none.clone().requires_grad_(),
            old_logps_N=none,
            sampler_logps_N=none,
            lengths_E=lengths_E,
            advantages_N=none,
            weights_N=none,
        )
        objective = Objective(correction=Tis(level="sequence_product"), off_policy_mask=MASK)
        outputs = policy_loss(objective, of)
        outputs.loss.backward()
        assert outputs.loss.item() == 0
        assert merge_metrics([outputs.metrics]).keys() == {"policy/loss"}


def test_on_policy_one_token() -> None:
    logp = torch.tensor([-1.5], requires_grad=True)
    of = LossInputs(
        new_logps_N=logp,
        old_logps_N=logp.detach(),
        lengths_E=torch.tensor([1]),
        advantages_N=torch.tensor([0.7], dtype=torch.float64),
        weights_N=torch.ones(1, dtype=torch.float64),
    )
    outputs, gradient_N = loss_and_gradient(Objective(), of)
    assert outputs.loss.item() == pytest.approx(-0.7)
    assert gradient_N.tolist() == pytest.approx([-0.7])


@pytest.mark.parametrize(
    ("objective", "missing", "more", "message"),
    [
        (Objective(correction=Mis()), "sampler_logps_N", {}, "an engine correction needs sampler_logps_N"),
        (Objective(off_policy_mask=MASK), "sampler_logps_N", {}, "the off-policy mask needs sampler_logps_N"),
        (Objective(), "ref_logps_N", {"kl_coefficient_E": torch.ones(4)}, "a KL term needs ref_logps_N"),
        (Objective(), "entropy_N", {"entropy_coefficient": 0.1}, "an entropy bonus needs entropy_N"),
    ],
)
def test_a_missing_stream_is_named(objective: Objective, missing: str, more: dict[str, Any], message: str) -> None:
    changed: dict[str, Any] = {missing: None}
    of = replace(inputs(TokenMean(), **more), **changed)
    with pytest.raises(ValueError, match=message):
        policy_loss(objective, of)


def test_lengths_have_to_fit() -> None:
    with pytest.raises(ValueError, match="adds up to 11 tokens, but the token axis has 10"):
        policy_loss(Objective(), replace(inputs(TokenMean()), lengths_E=torch.tensor([2, 3, 5, 1])))


@pytest.mark.parametrize(
    ("technique", "options", "message"),
    [
        (PpoClip, {"clip_low": -0.1}, "greater than or equal to 0"),
        (PpoClip, {"clip_high": -0.1}, "greater than or equal to 0"),
        (SeedClip, {"clip_high": -0.1}, "greater than or equal to 0"),
        (Dppo, {"tv_low": -0.1}, "greater than or equal to 0"),
        (Dppo, {"tv_high": -0.1}, "greater than or equal to 0"),
        (Gmpo, {"log_clip_low": -0.1}, "greater than or equal to 0"),
        (Gmpo, {"log_clip_high": -0.1}, "greater than or equal to 0"),
        (Cispo, {"cap": 0.0}, "greater than 0"),
        (Cispo, {"floor": -0.1}, "greater than or equal to 0"),
        (Sapo, {"temperature_positive": 0.0}, "greater than 0"),
        (Sapo, {"temperature_negative": 0.0}, "greater than 0"),
        (Mis, {"low": -0.1}, "greater than or equal to 0"),
        (Tis, {"cap": 0.0}, "greater than 0"),
    ],
)
def test_a_technique_refuses_what_has_no_meaning(
    technique: type[Technique], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValidationError, match=message):
        technique(**options)


@pytest.mark.parametrize(
    ("sections", "keys", "message"),
    [
        (
            {"objective": {"surrogate": {"type": "ppo_clip", "dual_clip": 1.0}}},
            ("objective.surrogate.dual_clip",),
            "dual_clip=1.0 is not above 1",
        ),
        (
            {"objective": {"surrogate": {"type": "cispo", "floor": 5.0, "cap": 5.0}}},
            ("objective.surrogate.floor", "objective.surrogate.cap"),
            "floor=5.0 is not below objective.surrogate.cap=5.0",
        ),
        (
            {"engine_correction": {"type": "mis", "low": 2.0}, "objective": {"old_logps": "trainer"}},
            ("engine_correction.low", "engine_correction.high"),
            "low=2.0 is not below engine_correction.high=2.0",
        ),
        (
            {"objective": {"surrogate": "gmpo", "ratio": "none"}},
            ("objective.ratio", "objective.surrogate"),
            "is defined on objective.ratio=token alone",
        ),
        (
            {"objective": {"surrogate": "vespo"}},
            ("objective.ratio", "objective.surrogate"),
            "is defined on objective.ratio=sequence_product alone",
        ),
    ],
)
def test_an_objective_refuses_what_has_no_meaning(
    sections: dict[str, Any], keys: tuple[str, ...], message: str
) -> None:
    (found,) = [finding for finding in contradictions(TrainConfig.model_validate(sections)) if finding.level == "error"]
    assert found.keys == keys
    assert message in found.message
