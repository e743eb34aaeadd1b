"""Cases of the policy term: ratio and surrogate, token weights, engine correction, off-policy mask.

What most of them claim to change is the gradient of the loss by each token's log-probability, in every pass.
"""

from typing import Any

import numpy as np

from groupwise.objective.surrogates.bapo import Bapo
from groupwise.objective.surrogates.ppo_clip import PpoClip
from tests.options import by_hand
from tests.options.case import Case
from tests.options.observed import token_gradients, what_was_sampled
from tests.options.runs import Floats, Trace

# Three updates on the same answers, after which ratios differ from 1 by tens of percents.
STALE = ("batch.epochs_per_step=3", "optimizer.lr=4e-3", "optimizer.max_grad_norm=100.0")

# A bfloat16 engine is some hundredths of a nat away from its trainer.
APART = ("model.compute_dtype=bfloat16", "objective.old_logps=trainer")


def expected_gradients(trace: Trace) -> Floats:
    return np.concatenate([by_hand.token_gradient(trace.config, one, trace) for one in trace.passes])


def case(*values: str, base: tuple[str, ...] = (), beside: dict[str, tuple[str, ...]] | None = None) -> Case:
    return Case(values, token_gradients, expected_gradients, base=base, same=what_was_sampled, beside=beside or {})


def clipped(bound: str, sign: str) -> Any:
    """The share of tokens in each pass whose gradient a bound took."""
    return lambda trace: np.array([one.metric(f"policy/clip_fraction_{bound}_{sign}") for one in trace.passes])


def expected_clipped(bound: str, sign: str) -> Any:
    def expected(trace: Trace) -> Floats:
        options, shares = trace.config.objective.surrogate, []
        assert isinstance(options, PpoClip)
        for one in trace.passes:
            streams = by_hand.Streams(one)
            ratio_N = np.exp(streams.new_N - streams.old_N)
            of_sign_N = streams.advantage_N > 0 if sign == "positive" else streams.advantage_N < 0
            high = 1 + options.clip_high if sign == "positive" else options.dual_clip or np.inf
            beyond_N = ratio_N > high if bound == "high" else ratio_N < 1 - options.clip_low
            shares.append((of_sign_N & beyond_N).mean())
        return np.array(shares)

    return expected


def clip_case(bound: str, sign: str, *values: str) -> Case:
    return Case(
        values,
        lambda t: {"gradient": token_gradients(t), "clipped": clipped(bound, sign)(t)},
        lambda t: {"gradient": expected_gradients(t), "clipped": expected_clipped(bound, sign)(t)},
        base=STALE,
        same=what_was_sampled,
    )


def surrogate(name: str, *more: str) -> tuple[str, ...]:
    return (*STALE, f"objective.surrogate={name}", *more)


def found_bounds(trace: Trace) -> Floats:
    return np.array([trace.metric(f"policy/bapo_{side}") for side in ("low", "high")])


def expected_bounds(trace: Trace) -> Floats:
    options = trace.config.objective.surrogate
    assert isinstance(options, Bapo)
    found: list[tuple[float, float]] = []
    for one in trace.passes:
        streams = by_hand.Streams(one)
        found.append(by_hand.bapo_bounds(options, streams, np.exp(streams.new_N - streams.old_N), streams.advantage_N))
    return np.array([np.mean(sides) for sides in zip(*found, strict=True)])


# Bounds that ratios of such a run reach, and a target that the search meets on its way.
BAPO = {
    "target": "0.44",
    "low_start": "0.3",
    "low_end": "0.96",
    "low_step": "0.06",
    "high_start": "1.02",
    "high_end": "1.3",
    "high_step": "0.04",
}


def bapo_case(name: str, *values: str, **options: str) -> Case:
    stated = (f"objective.surrogate.{key}={value}" for key, value in {**BAPO, **options}.items() if key != name)
    return Case(
        values,
        lambda t: {"gradient": token_gradients(t), "bounds": found_bounds(t)},
        lambda t: {"gradient": expected_gradients(t), "bounds": expected_bounds(t)},
        base=(*STALE, *stated),
        same=what_was_sampled,
    )


NARROW = (*STALE, "objective.surrogate.clip_low=0.05", "objective.surrogate.clip_high=0.05")
REAL = ("objective.reduction=sequence_mean_token_mean",)
# Answers without a format are rewarded 0 or 1, with it 0.2 more.
REAL_CASE = (*STALE, *REAL)
VESPO = (*STALE, "objective.ratio=sequence_product")


def weights(trace: Trace) -> Floats:
    """Of the tokens of the first pass, in falling order: how the pass orders its groups does not matter."""
    return np.sort(trace.passes[0].stream("weights_N"))


def expected_weights(trace: Trace) -> Floats:
    """Answers without an advantage are not forwarded, but count in the denominators; truncated ones may do neither."""
    config, groups = trace.config, trace.groups()
    lengths_PG = [[len(completion.ids) for completion in group.completions] for group in groups]
    mask = config.objective.mask_truncated
    trained_PG = [[not (mask and c.finish_reason == "length") for c in group.completions] for group in groups]
    advantages_PG = trace.grid(lambda row: row["advantage"])
    made = by_hand.token_weights(config, lengths_PG, trained_PG, config.objective.reduction)
    moves_PG = [np.array(trained_G) & (a_G != 0) for trained_G, a_G in zip(trained_PG, advantages_PG, strict=True)]
    parts = zip(made, moves_PG, lengths_PG, strict=True)
    forwarded = [np.array(of_group)[moves_G.repeat(lengths_G)] for of_group, moves_G, lengths_G in parts]
    return np.sort(np.concatenate(forwarded))


def weight_case(*values: str, base: tuple[str, ...] = ()) -> Case:
    return Case(
        values,
        lambda t: {"weights": weights(t), "gradient": token_gradients(t)},
        lambda t: {"weights": expected_weights(t), "gradient": expected_gradients(t)},
        base=base,
        same=what_was_sampled,
    )


def first_ratio(trace: Trace) -> float:
    """How far the ratio is from 1 before the first update."""
    return float(
        np.abs(np.exp(trace.passes[0].stream("new_logps_N") - trace.passes[0].stream("old_logps_N")) - 1).max()
    )


def expected_first_ratio(trace: Trace) -> float:
    streams = by_hand.Streams(trace.passes[0])
    old_N = streams.new_N if trace.config.objective.old_logps == "trainer" else streams.sampler_N
    return float(np.abs(np.exp(streams.new_N - old_N) - 1).max())


OBJECTIVE = {
    "objective.ratio": case(
        "token",
        "sequence_geometric_mean",
        "gspo_token",
        "sequence_product",
        "none",
        # Where all tokens of a sequence have one advantage, GSPO and GSPO-token are the same.
        base=surrogate("reinforce", "run.steps=2", "kl.coefficient=0.1", "kl.in_reward=true"),
    ),
    "objective.surrogate": case(
        "ppo_clip",
        "{type: function, path: '{own}:doubled'}",
        "{type: cispo, cap: 1.1}",
        "sapo",
        "reinforce",
        "dppo",
        "dppo_kl",
        "vespo",
        "gmpo",
        "seed_clip",
        "topr",
        "fipo",
        "{type: ipo, tv: 0.05}",
        "bapo",
        "aspo",
        "ce_gppo",
        "real",
        base=STALE,
        beside={"vespo": ("objective.ratio=sequence_product",), "real": REAL},
    ),
    "objective.surrogate.path (function)": case("{own}:capped", "{own}:doubled", base=STALE),
    "objective.surrogate.options (function)": case(
        "{cap: 1.05}", "{cap: 5.0}", base=(*STALE, "objective.surrogate.path={own}:capped")
    ),
    "objective.surrogate.clip_low (ppo_clip)": clip_case("low", "negative", "0.05", "0.2"),
    "objective.surrogate.clip_high (ppo_clip)": clip_case("high", "positive", "0.05", "0.28"),
    "objective.surrogate.dual_clip (ppo_clip)": clip_case("high", "negative", "0.0", "1.05"),
    "objective.surrogate.cap (cispo)": case("1.05", "5.0", base=STALE),
    "objective.surrogate.floor (cispo)": case("0.0", "0.95", base=STALE),
    "objective.surrogate.temperature_positive (sapo)": case("1.0", "3.0", base=STALE),
    "objective.surrogate.temperature_negative (sapo)": case("1.05", "3.0", base=STALE),
    "objective.surrogate.tv_low (dppo)": case("0.01", "0.2", base=STALE),
    "objective.surrogate.tv_high (dppo)": case("0.01", "0.2", base=STALE),
    "objective.surrogate.cap (dppo)": case("0.0", "1.05", base=STALE),
    "objective.surrogate.kl_low (dppo_kl)": case("0.001", "0.05", base=STALE),
    "objective.surrogate.kl_high (dppo_kl)": case("0.001", "0.05", base=STALE),
    "objective.surrogate.cap (dppo_kl)": case("0.0", "1.05", base=STALE),
    "objective.surrogate.reference (dppo_kl)": case(
        "sampler", "old", base=(*APART, *STALE, "objective.surrogate.kl_low=0.001", "objective.surrogate.kl_high=0.001")
    ),
    "objective.surrogate.log_clip_low (gmpo)": case("0.05", "0.4", base=STALE),
    "objective.surrogate.log_clip_high (gmpo)": case("0.05", "0.4", base=STALE),
    "objective.surrogate.clip_high (seed_clip)": case("0.05", "0.28", base=STALE),
    "objective.surrogate.k_positive (vespo)": case("2.0", "3.0", base=VESPO),
    "objective.surrogate.lambda_positive (vespo)": case("3.0", "2.0", base=VESPO),
    "objective.surrogate.k_negative (vespo)": case("3.0", "2.0", base=VESPO),
    "objective.surrogate.lambda_negative (vespo)": case("2.0", "3.0", base=VESPO),
    "objective.surrogate.floor (topr)": case("0.0", "0.95", base=STALE),
    "objective.surrogate.cap (topr)": case("1.0", "1.05", base=STALE),
    "objective.surrogate.clip_low (aspo)": case("0.05", "0.2", base=STALE),
    "objective.surrogate.clip_high (aspo)": case("0.05", "0.2", base=STALE),
    "objective.surrogate.cap (aspo)": case("1.05", "3.0", base=STALE),
    "objective.surrogate.clip_low (ce_gppo)": case("0.05", "0.2", base=STALE),
    "objective.surrogate.clip_high (ce_gppo)": case("0.05", "0.28", base=STALE),
    "objective.surrogate.dual_clip (ce_gppo)": case("0.0", "1.05", base=STALE),
    "objective.surrogate.coefficient_low (ce_gppo)": case("0.0", "0.75", base=NARROW),
    "objective.surrogate.coefficient_high (ce_gppo)": case("0.5", "1.0", base=NARROW),
    "objective.surrogate.clip_low (fipo)": case("0.05", "0.2", base=STALE),
    "objective.surrogate.clip_high (fipo)": case("0.05", "0.28", base=STALE),
    "objective.surrogate.dual_clip (fipo)": case("10.0", "1.05", base=STALE),
    "objective.surrogate.half_life_tokens (fipo)": case("2.0", "32.0", base=STALE),
    "objective.surrogate.influence_low (fipo)": case("0.8", "1.0", base=STALE),
    "objective.surrogate.influence_high (fipo)": case("1.05", "1.2", base=STALE),
    "objective.surrogate.safety_ratio (fipo)": case("0.0", "1.05", base=STALE),
    "objective.surrogate.safety (fipo)": case(
        "set", "clamp", base=(*STALE, "objective.surrogate.safety_ratio=1.01", "objective.surrogate.influence_low=0.8")
    ),
    "objective.surrogate.tv (ipo)": case("0.01", "0.3", base=STALE),
    "objective.surrogate.cap (ipo)": case("0.0", "1.05", base=STALE),
    "objective.surrogate.target (bapo)": bapo_case("target", "0.3", "0.44"),
    "objective.surrogate.balance (bapo)": bapo_case("balance", "share", "odds", "printed", target="0.8"),
    "objective.surrogate.contributions (bapo)": bapo_case("contributions", "gradient", "clipped"),
    "objective.surrogate.weighted_by_old (bapo)": bapo_case("weighted_by_old", "false", "true", target="0.45"),
    "objective.surrogate.order (bapo)": bapo_case("order", "high_first", "low_first"),
    "objective.surrogate.low_start (bapo)": bapo_case("low_start", "0.9", "0.94"),
    "objective.surrogate.low_end (bapo)": bapo_case("low_end", "0.94", "0.98"),
    "objective.surrogate.low_step (bapo)": bapo_case("low_step", "0.06", "0.5", order="low_first", target="0.415"),
    "objective.surrogate.high_start (bapo)": bapo_case("high_start", "1.02", "1.1"),
    "objective.surrogate.high_end (bapo)": bapo_case("high_end", "1.04", "1.2"),
    "objective.surrogate.high_step (bapo)": bapo_case("high_step", "0.02", "0.2"),
    "objective.surrogate.dual_clip (bapo)": bapo_case("dual_clip", "0.0", "1.05"),
    "objective.surrogate.temperature (real)": case("0.5", "0.1", base=REAL_CASE),
    "objective.surrogate.labels (real)": case("above_mean", "binary", base=REAL_CASE),
    "objective.surrogate.one_class (real)": case(
        "skip", "printed", base=(*REAL_CASE, "objective.surrogate.labels=binary", "rewards.format.weight=0.0")
    ),
    "objective.reduction": weight_case(
        "token_mean", "sequence_mean_token_mean", "sequence_mean_token_sum", "constant_length", "group_token_mean"
    ),
    "objective.reduction.tokens (constant_length)": weight_case("0", "100"),
    "objective.mask_truncated": weight_case("false", "true"),
    # The engine's bfloat16 copy is not quite the trainer's policy.
    "objective.old_logps": Case(
        ("sampler", "trainer"),
        lambda t: {"ratio": first_ratio(t), "gradient": token_gradients(t)},
        lambda t: {"ratio": expected_first_ratio(t), "gradient": expected_gradients(t)},
        base=("model.compute_dtype=bfloat16",),
        same=what_was_sampled,
    ),
}

BAND = (*APART, "engine_correction=mis")

CORRECTION = {
    "engine_correction": Case(
        ("none", "{type: tis, cap: 1.002}", "{type: mis, low: 0.998, high: 1.002}"),
        token_gradients,
        expected_gradients,
        base=APART,
        same=what_was_sampled,
    ),
    "engine_correction.level": case("token", "sequence_product", "sequence_geometric_mean", base=BAND),
    "engine_correction.low": case("0.5", "0.999", base=BAND),
    "engine_correction.high": case("1.001", "2.0", base=BAND),
    "engine_correction.cap (tis)": case("1.001", "2.0", base=APART),
}

LEFT = (*APART, *STALE)

OFF_POLICY = {
    "off_policy_mask": case(
        "none", "sequence", "{type: m2po, threshold: 0.0005}", "{type: function, path: '{own}:near'}", base=LEFT
    ),
    "off_policy_mask.path (function)": case("{own}:near", "{own}:falling", base=STALE),
    "off_policy_mask.options (function)": case(
        "{nats: 0.01}", "{nats: 0.1}", base=(*STALE, "off_policy_mask.path={own}:near")
    ),
    "off_policy_mask.reference (m2po)": case("sampler", "old", base=(*LEFT, "off_policy_mask.threshold=1e-5")),
    "off_policy_mask.threshold (m2po)": case("0.0005", "0.005", base=(*STALE, "off_policy_mask.reference=old")),
    "off_policy_mask.reference (sequence)": case(
        "sampler", "old", base=(*LEFT, "off_policy_mask.threshold_nats=0.002")
    ),
    "off_policy_mask.threshold_nats (sequence)": case("0.01", "0.1", base=(*STALE, "off_policy_mask.reference=old")),
}

CASES = {**OBJECTIVE, **CORRECTION, **OFF_POLICY}
