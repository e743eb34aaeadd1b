"""Cases of what stands beside the policy term: KL and entropy."""

from typing import Any

import numpy as np

from groupwise.objective.entropy.bonus import FixedBonus
from groupwise.objective.entropy.clip_cov import ClipCov
from groupwise.objective.entropy.kl_cov import KlCov
from groupwise.objective.entropy.target_bonus import TargetBonus
from groupwise.objective.entropy.top_entropy import TopEntropy
from groupwise.objective.reductions.reduction import Reduction
from tests.options import by_hand
from tests.options.case import Case
from tests.options.objective_cases import STALE, expected_gradients
from tests.options.observed import token_gradients, what_was_sampled
from tests.options.runs import Floats, Trace

# KL

MOVED = ("run.steps=2", "batch.epochs_per_step=2", "optimizer.lr=4e-3")
PENALISED = (*MOVED, "kl.coefficient=0.1")


def kl_losses(trace: Trace) -> Floats:
    """The KL term of every pass; none without a reference."""
    return np.array([one.metric("policy/kl_loss") for one in trace.passes if "policy/kl_loss" in one.outputs.metrics])


def expected_kl_losses(trace: Trace) -> Floats:
    penalised = [one for one in trace.passes if one.inputs.kl_coefficient_E is not None]
    return np.array([by_hand.kl_loss(trace.config, one) for one in penalised])


def kl_case(*values: str, base: tuple[str, ...] = PENALISED) -> Case:
    return Case(
        values,
        lambda t: {"loss": kl_losses(t), "gradient": token_gradients(t)},
        lambda t: {"loss": expected_kl_losses(t), "gradient": expected_gradients(t)},
        base=base,
        same=what_was_sampled,
        # The estimate is a difference of float32 numbers near each other.
        tolerance=1e-3,
    )


def domain_coefficients(trace: Trace) -> list[float]:
    return sorted(float(value) for value in trace.passes[0].stream("kl_coefficient_E"))


def expected_domain_coefficients(trace: Trace) -> list[float]:
    own = {name: domain.kl_coefficient for name, domain in trace.config.domains.items()}
    of_group = [own.get(group.problem.domain, trace.config.kl.coefficient) for group in trace.groups()]
    return sorted(float(np.float32(value)) for value in of_group for _ in range(4))


def kl_weights(trace: Trace) -> Floats:
    inputs = trace.passes[0].inputs
    return np.sort(trace.passes[0].stream("weights_N" if inputs.kl_weights_N is None else "kl_weights_N"))


def expected_kl_weights(trace: Trace) -> Floats:
    config, groups = trace.config, trace.groups()
    lengths_PG = [[len(completion.ids) for completion in group.completions] for group in groups]
    reduction = config.kl.reduction if isinstance(config.kl.reduction, Reduction) else config.objective.reduction
    trained_PG = [[1] * len(lengths) for lengths in lengths_PG]
    return np.sort([w for part in by_hand.token_weights(config, lengths_PG, trained_PG, reduction) for w in part])


def reference_is_the_sampler(trace: Trace) -> list[bool]:
    """Of every step: whether the reference is the policy that sampled."""
    apart = [np.abs(one.stream("ref_logps_N") - one.stream("old_logps_N")).max() for one in trace.passes]
    return [bool(nats < 1e-4) for nats in apart]


def expected_reference(trace: Trace) -> list[bool]:
    every = trace.config.kl.refresh_reference_every_steps
    return [step == 1 or (every > 0 and (step - 1) % every == 0) for step in (1, 2, 3)]


KL = {
    "kl.coefficient": kl_case("0.0", "0.1", "0.2", base=MOVED),
    "kl.estimator": kl_case("k1", "k2", "k3"),
    "kl.importance": kl_case("none", "token", "sequence_product"),
    "kl.in_reward": Case(
        ("false", "true"),
        lambda t: {"losses": len(kl_losses(t)), "gradient": token_gradients(t)},
        lambda t: {"losses": 0 if t.config.kl.in_reward else 4, "gradient": expected_gradients(t)},
        base=PENALISED,
        same=what_was_sampled,
        tolerance=1e-3,
    ),
    "kl.reduction": Case(
        ("as_policy", "token_mean", "sequence_mean_token_mean", "sequence_mean_token_sum"),
        lambda t: {"weights": kl_weights(t), "gradient": token_gradients(t)},
        lambda t: {"weights": expected_kl_weights(t), "gradient": expected_gradients(t)},
        base=(*PENALISED, "objective.reduction=group_token_mean"),
        same=what_was_sampled,
        tolerance=1e-3,
    ),
    "kl.refresh_reference_every_steps": Case(
        ("0", "1", "2"),
        reference_is_the_sampler,
        expected_reference,
        base=("run.steps=3", "kl.coefficient=0.1"),
        same=what_was_sampled,
    ),
}


DOMAINS = {
    "domains.NAME.kl_coefficient": Case(
        ("0.0", "0.2", "0.5"),
        lambda t: {"coefficients": domain_coefficients(t), "gradient": token_gradients(t)},
        lambda t: {"coefficients": expected_domain_coefficients(t), "gradient": expected_gradients(t)},
        base=("problems.train={domains}", *PENALISED),
        same=what_was_sampled,
        tolerance=1e-3,
        name="even",
    ),
}

# Entropy

STEERED = ("run.steps=4", "batch.prompts_per_step=2", "sampling.max_new_tokens=12")


def expected_entropy_losses(trace: Trace) -> Floats:
    bonus = trace.config.entropy.bonus
    coefficient = bonus.coefficient if isinstance(bonus, FixedBonus | TargetBonus) else 0.0
    sums = [(one.stream("weights_N") * one.stream("entropy_N")).sum() for one in trace.passes]
    return np.array([-coefficient * value for value in sums] if coefficient else [])


def entropy_losses(trace: Trace) -> Floats:
    return np.array(
        [one.metric("policy/entropy_loss") for one in trace.passes if "policy/entropy_loss" in one.outputs.metrics]
    )


def first_entropy_loss(trace: Trace) -> float:
    """Of the first update; 0 where the loss has no such term."""
    return float(entropy_losses(trace)[0]) if len(entropy_losses(trace)) else 0.0


def expected_first_entropy_loss(trace: Trace) -> float:
    return float(expected_entropy_losses(trace)[0]) if len(expected_entropy_losses(trace)) else 0.0


def coefficients(trace: Trace) -> Floats:
    return np.array(trace.entropy_coefficients)


def expected_coefficients(trace: Trace) -> Floats:
    """Up below the target, down above it, and never beyond the limits."""
    bonus = trace.config.entropy.bonus
    assert isinstance(bonus, TargetBonus)
    made = [bonus.coefficient]
    for line in trace.lines()[:-1]:
        step = bonus.coefficient_step if line["policy/entropy"] < bonus.target_nats else -bonus.coefficient_step
        made.append(min(max(made[-1] + step, 0.0), bonus.max_coefficient))
    return np.array(made)


def steered(*values: str, base: tuple[str, ...] = ()) -> Case:
    base = (*STEERED, "entropy.bonus.coefficient=0.02", *base)
    return Case(values, coefficients, expected_coefficients, base=base, same=what_was_sampled)


# A bonus too small to matter sends every group through the pass, so that the pass holds all tokens of the step.
ALL_TOKENS = (*STALE, "entropy.bonus={type: fixed, coefficient: 1e-12}")


def selected(trace: Trace) -> Any:
    """Which tokens of the first pass the policy term acts on, and what their drift costs."""
    inputs = trace.passes[0].inputs
    return {
        "kept": None if inputs.policy_mask_N is None else inputs.policy_mask_N.tolist(),
        "drift": None if inputs.drift_coefficient_N is None else trace.passes[0].stream("drift_coefficient_N"),
        "gradient": token_gradients(trace),
    }


def expected_selected(trace: Trace) -> Any:
    options, one = trace.config.entropy, trace.passes[0]
    streams = by_hand.Streams(one)
    count = len(streams.new_N)
    kept_N, drift_N = np.ones(count, dtype=bool), None
    if isinstance(options.tokens, TopEntropy):
        entropy_N = one.stream("entropy_N")
        kept_N = entropy_N >= np.quantile(entropy_N, 1 - options.tokens.fraction)
    covariance_N = (streams.old_N - streams.old_N.mean()) * (streams.advantage_N - streams.advantage_N.mean())
    covariance = options.covariance
    if isinstance(covariance, ClipCov):
        inside_N = (covariance_N > covariance.low) & (covariance_N < covariance.high)
        # The fraction is taken at most: where it covers every candidate, nothing is drawn.
        assert inside_N.sum() <= int(covariance.fraction * count)
        kept_N = ~inside_N
    if isinstance(covariance, KlCov):
        most = np.argsort(-covariance_N, kind="stable")[: int(covariance.fraction * count)]
        drift_N = np.zeros(count)
        drift_N[most] = covariance.coefficient
    selects = isinstance(options.tokens, TopEntropy) or covariance.type != "none"
    return {"kept": kept_N.tolist() if selects else None, "drift": drift_N, "gradient": expected_gradients(trace)}


def dropped(trace: Trace) -> int:
    """How many tokens of the first pass the policy term leaves out."""
    inputs = trace.passes[0].inputs
    return 0 if inputs.policy_mask_N is None else int((~inputs.policy_mask_N).sum())


def expected_dropped(trace: Trace) -> int:
    """The fraction of all tokens, drawn among those inside of the band, which are more."""
    covariance, one = trace.config.entropy.covariance, trace.passes[0]
    assert isinstance(covariance, ClipCov)
    streams = by_hand.Streams(one)
    covariance_N = (streams.old_N - streams.old_N.mean()) * (streams.advantage_N - streams.advantage_N.mean())
    count = int(covariance.fraction * len(covariance_N))
    assert count < ((covariance_N > covariance.low) & (covariance_N < covariance.high)).sum()
    return count


def selection(*values: str, base: tuple[str, ...] = ()) -> Case:
    return Case(values, selected, expected_selected, base=(*ALL_TOKENS, *base), same=what_was_sampled)


ALL = ("entropy.covariance.fraction=1.0",)
NARROW = ("entropy.covariance.low=0.1", "entropy.covariance.high=0.5")

ENTROPY = {
    "entropy.bonus": Case(
        ("none", "fixed", "{type: target, coefficient: 0.02}"),
        first_entropy_loss,
        expected_first_entropy_loss,
        same=what_was_sampled,
    ),
    "entropy.bonus.coefficient (fixed)": Case(
        ("0.01", "0.05"), entropy_losses, expected_entropy_losses, base=STALE, same=what_was_sampled
    ),
    "entropy.bonus.coefficient (target)": Case(
        ("0.0", "0.01"), coefficients, expected_coefficients, base=STEERED, same=what_was_sampled
    ),
    "entropy.bonus.target_nats (target)": steered("0.01", "2.0"),
    "entropy.bonus.coefficient_step (target)": steered("0.005", "0.01", base=("entropy.bonus.target_nats=2.0",)),
    "entropy.bonus.max_coefficient (target)": steered("0.03", "1.0", base=("entropy.bonus.target_nats=2.0",)),
    "entropy.tokens": selection("all", "top_entropy"),
    "entropy.tokens.fraction (top_entropy)": selection("0.2", "0.5", "1.0"),
    "entropy.covariance": selection(
        "none", "{type: clip_cov, fraction: 1.0, low: 0.1, high: 0.5}", "{type: kl_cov, fraction: 0.2}"
    ),
    "entropy.covariance.fraction (clip_cov)": Case(
        ("0.05", "0.1"), dropped, expected_dropped, base=(*ALL_TOKENS, *NARROW), same=what_was_sampled
    ),
    "entropy.covariance.low (clip_cov)": selection("0.05", "0.1", base=(*ALL, "entropy.covariance.high=0.5")),
    "entropy.covariance.high (clip_cov)": selection("0.3", "0.5", base=(*ALL, "entropy.covariance.low=0.1")),
    "entropy.covariance.fraction (kl_cov)": selection("0.1", "0.3"),
    "entropy.covariance.coefficient (kl_cov)": selection("0.5", "1.0", base=("entropy.covariance.fraction=0.2",)),
}

CASES = {**KL, **ENTROPY}
