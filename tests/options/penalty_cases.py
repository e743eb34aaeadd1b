"""Cases of what stands beside the policy term: KL and entropy."""

from typing import Any

import numpy as np

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
    penalised = [one for one in trace.passes if one.inputs.kl_coefficient_B is not None]
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
    return sorted(float(value) for value in trace.passes[0].stream("kl_coefficient_B"))


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
    reduction = config.objective.reduction if config.kl.reduction == "as_policy" else config.kl.reduction
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
    "kl.placement": Case(
        ("loss", "reward"),
        lambda t: {"losses": len(kl_losses(t)), "gradient": token_gradients(t)},
        lambda t: {"losses": 4 if t.config.kl.placement == "loss" else 0, "gradient": expected_gradients(t)},
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

STEERED = ("run.steps=4", "entropy.coefficient=0.02", "batch.prompts_per_step=2", "sampling.max_new_tokens=12")


def expected_entropy_losses(trace: Trace) -> Floats:
    coefficient = trace.config.entropy.coefficient
    sums = [(one.stream("weights_N") * one.stream("entropy_N")).sum() for one in trace.passes]
    return np.array([-coefficient * value for value in sums] if coefficient else [])


def entropy_losses(trace: Trace) -> Floats:
    return np.array(
        [one.metric("policy/entropy_loss") for one in trace.passes if "policy/entropy_loss" in one.outputs.metrics]
    )


def coefficients(trace: Trace) -> Floats:
    return np.array(trace.entropy_coefficients)


def expected_coefficients(trace: Trace) -> Floats:
    """Up below the target, down above it, and never beyond the limits."""
    options = trace.config.entropy
    made = [options.coefficient]
    for line in trace.lines()[:-1]:
        step = options.coefficient_step if line["policy/entropy"] < options.target_nats else -options.coefficient_step
        made.append(min(max(made[-1] + step, 0.0), options.max_coefficient) if options.target_nats else made[-1])
    return np.array(made)


def steered(*values: str, base: tuple[str, ...] = ()) -> Case:
    return Case(values, coefficients, expected_coefficients, base=(*STEERED, *base), same=what_was_sampled)


# A bonus too small to matter sends every group through the pass, so that the pass holds all tokens of the step.
ALL_TOKENS = (*STALE, "entropy.coefficient=1e-12")


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
    if options.train_top_share < 1:
        entropy_N = one.stream("entropy_N")
        kept_N = entropy_N >= np.quantile(entropy_N, 1 - options.train_top_share)
    covariance_N = (streams.old_N - streams.old_N.mean()) * (streams.advantage_N - streams.advantage_N.mean())
    if options.covariance == "clip_cov":
        # With a share of 1 every candidate is taken and nothing is drawn.
        assert options.covariance_share == 1
        kept_N = ~((covariance_N > options.clip_cov_low) & (covariance_N < options.clip_cov_high))
    if options.covariance == "kl_cov":
        most = np.argsort(-covariance_N, kind="stable")[: int(options.covariance_share * count)]
        drift_N = np.zeros(count)
        drift_N[most] = options.kl_cov_coefficient
    selects = options.train_top_share < 1 or options.covariance != "none"
    return {"kept": kept_N.tolist() if selects else None, "drift": drift_N, "gradient": expected_gradients(trace)}


def selection(*values: str, base: tuple[str, ...] = (), beside: dict[str, tuple[str, ...]] | None = None) -> Case:
    return Case(
        values, selected, expected_selected, base=(*ALL_TOKENS, *base), same=what_was_sampled, beside=beside or {}
    )


CLIP_COV = ("entropy.covariance=clip_cov", "entropy.covariance_share=1.0")
NARROW = ("entropy.clip_cov_low=0.1", "entropy.clip_cov_high=0.5")
KL_COV = ("entropy.covariance=kl_cov",)

ENTROPY = {
    "entropy.coefficient": Case(
        ("0.0", "0.01", "0.05"),
        entropy_losses,
        expected_entropy_losses,
        base=STALE,
        same=what_was_sampled,
    ),
    "entropy.target_nats": steered("0.0", "0.01", "2.0"),
    "entropy.coefficient_step": steered("0.005", "0.01", base=("entropy.target_nats=2.0",)),
    "entropy.max_coefficient": steered("0.03", "1.0", base=("entropy.target_nats=2.0",)),
    "entropy.train_top_share": selection("0.2", "0.5", "1.0"),
    "entropy.covariance": selection(
        "none",
        "clip_cov",
        "kl_cov",
        beside={"clip_cov": ("entropy.covariance_share=1.0", *NARROW), "kl_cov": ("entropy.covariance_share=0.2",)},
    ),
    "entropy.covariance_share": selection("0.1", "0.3", base=KL_COV),
    "entropy.clip_cov_low": selection("0.05", "0.1", base=(*CLIP_COV, "entropy.clip_cov_high=0.5")),
    "entropy.clip_cov_high": selection("0.3", "0.5", base=(*CLIP_COV, "entropy.clip_cov_low=0.1")),
    "entropy.kl_cov_coefficient": selection("0.5", "1.0", base=(*KL_COV, "entropy.covariance_share=0.2")),
}

CASES = {**KL, **ENTROPY}
