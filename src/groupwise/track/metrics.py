"""The registry of metrics: every field of metrics.jsonl is declared here once, and docs/metrics.md is made from it.

To add a metric, declare it here, and measure it under the same name where the numbers are. A name may have
placeholders, such as `reward/{component}/mean`. A derived metric names what it is computed from; a source that is not
itself declared (a mean of squares, for example) is measured and merged, but not written.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from groupwise.objective.corrections.correction import effective_sample_fraction

Merge = Literal["sum", "mean", "max", "min", "derived", "once"]
"""How parts of a step become one number: as in `objective.metric.Metric`; computed from other metrics after these are
merged; or not at all, because there is one value for the whole step."""

LOG_RATIOS_N = "policy/log_ratios_N"
"""Source of the quantiles: log π_new/π_old of all trained tokens of a step."""

LENGTHS_B = "completion/lengths_B"
"""Source of the quantiles: tokens of all completions of a step."""


@dataclass(frozen=True, slots=True)
class Declared:
    """One metric. by_domain: also written as domain/DOMAIN/…. sources and formula: of a derived one."""

    name: str
    unit: str
    merge: Merge
    meaning: str
    by_domain: bool
    sources: tuple[str, ...] = ()
    formula: Callable[..., float | None] | None = None


def deviation(square_mean: float, mean: float = 0.0) -> float:
    """Standard deviation from the mean of squares."""
    variance = square_mean - mean**2
    # What is left of equal numbers is rounding.
    return math.sqrt(variance) if variance > 1e-14 * square_mean else 0.0


def fraction_of(part: float, whole: float) -> float | None:
    """part ÷ whole; undefined where the whole is 0."""
    return part / whole if whole > 0 else None


def quantile(values_X: NDArray[np.float32], q: float) -> float | None:
    """Undefined without values."""
    return float(np.quantile(values_X.astype(np.float64), q)) if values_X.size else None


def correlation(product: float, square: float, other_square: float) -> float | None:
    """Of centred values; undefined where one of them is constant."""
    return product / math.sqrt(square * other_square) if square > 0 and other_square > 0 else None


def ratio_quantile(log_ratios_N: NDArray[np.float32], q: float) -> float | None:
    """Quantile of the ratios; undefined without tokens."""
    log_ratio = quantile(log_ratios_N, q)
    return None if log_ratio is None else math.exp(log_ratio)


_DERIVED: dict[str, tuple[tuple[str, ...], Callable[..., float | None]]] = {
    "reward/{component}/std": (("reward/{component}/square_mean", "reward/{component}/mean"), deviation),
    "reward/{component}/variance_fraction": (
        ("reward/{component}/covariance_within", "reward/total/variance_within"),
        fraction_of,
    ),
    "advantage/std": (("advantage/square_mean", "advantage/mean"), deviation),
    "advantage/std_before_scaling": (("advantage/square_mean_before_scaling",), deviation),
    "advantage/reward_correlation": (
        ("advantage/reward_product", "advantage/square_within", "advantage/reward_square_within"),
        correlation,
    ),
    "completion/tokens_p10": ((LENGTHS_B,), partial(quantile, q=0.1)),
    "completion/tokens_p50": ((LENGTHS_B,), partial(quantile, q=0.5)),
    "completion/tokens_p90": ((LENGTHS_B,), partial(quantile, q=0.9)),
    "completion/tokens_max": ((LENGTHS_B,), partial(quantile, q=1.0)),
    "policy/ratio_p01": ((LOG_RATIOS_N,), partial(ratio_quantile, q=0.01)),
    "policy/ratio_p50": ((LOG_RATIOS_N,), partial(ratio_quantile, q=0.5)),
    "policy/ratio_p99": ((LOG_RATIOS_N,), partial(ratio_quantile, q=0.99)),
    "engine/ess": (("engine/weight_mean", "engine/weight_square_mean"), effective_sample_fraction),
}

# Of each metric: unit, merge, meaning. A star behind the unit: also of each domain apart.
_METRICS: dict[str, tuple[str, Merge, str]] = {
    "schema_version": ("number", "once", "version of the format of these lines"),
    "step": ("number", "once", "number of the step, from 1"),
    "reward/{component}/mean": ("reward*", "mean", "each component's reward, and `total`, which advantages come from"),
    "reward/{component}/std": ("reward*", "derived", "standard deviation over all completions"),
    "reward/{component}/std_within_group": ("reward*", "mean", "standard deviation in a group: what gives a gradient"),
    "reward/{component}/variance_fraction": ("fraction*", "derived", "its part of the variance of `total` in groups"),
    "reward/{component}/spans": ("spans*", "mean", "spans that a function scored in an answer"),
    "groups/sampled": ("groups*", "sum", "groups sampled"),
    "groups/admitted": ("groups*", "sum", "groups trained on"),
    "groups/wanted": ("groups", "max", "groups asked for: `batch.prompts_per_step`"),
    "groups/failed": ("groups", "sum", "groups left out because a reward failed"),
    "groups/accept_rate": (
        "fraction*",
        "mean",
        "sampled groups that pass `active_sampling.filter`, also those that the step has no room for: admitted ÷ "
        "sampled can be lower",
    ),
    "groups/all_right": ("fraction*", "mean", "groups in which every answer is right"),
    "groups/all_wrong": ("fraction*", "mean", "groups in which every answer is wrong"),
    "groups/zero_std": ("fraction*", "mean", "groups with equal total rewards (TRL: `frac_reward_zero_std`)"),
    "groups/unique_answers": (
        "answers",
        "mean",
        "different answers in a group, as the grader read them; no answer is one. Programs and what a function of your "
        "own grades count by their text",
    ),
    "completion/tokens": ("tokens*", "mean", "length of a completion"),
    "completion/tokens_p10": ("tokens", "derived", "10 % quantile of the lengths"),
    "completion/tokens_p50": ("tokens", "derived", "median of the lengths"),
    "completion/tokens_p90": ("tokens", "derived", "90 % quantile of the lengths"),
    "completion/tokens_max": ("tokens", "derived", "longest completion"),
    "completion/tokens_right": ("tokens*", "mean", "length of the right answers"),
    "completion/tokens_wrong": ("tokens*", "mean", "length of all others"),
    "completion/stop_id_fraction": ("fraction", "mean", "completions that a stop id ended, not a text or the limit"),
    "completion/repetition": (
        "fraction",
        "mean",
        "runs of four tokens that stood in the completion before, mean over completions",
    ),
    "completion/unknown_id_fraction": ("fraction", "mean", "sampled ids that the tokenizer has no token for"),
    "completion/ungraded_fraction": ("fraction", "mean", "completions that a reward could not judge"),
    "completion/truncated_fraction": ("fraction*", "mean", "completions without an end (TRL: `clipped_ratio`)"),
    "completion/no_answer_fraction": ("fraction*", "mean", "completions without an answer to grade"),
    "completion/neg_logp": (
        "nats*",
        "mean",
        "−log p per token by the engine, over everything sampled: an estimate of the entropy at the temperature, there "
        "in steps without signal too",
    ),
    "grading/{component}/failed": ("completions", "sum", "errors of the component; failures.jsonl lists them"),
    "grading/dropped_samples": ("completions", "sum", "completions left out by `on_error: drop_sample`"),
    "grading/undecided_fraction": ("fraction", "mean", "answers that the grader could not decide"),
    "grading/timeout_fraction": ("fraction", "mean", "answers that the second grader did not decide in time"),
    "advantage/mean": (
        "advantage",
        "mean",
        "mean over the completions of admitted groups, as all of `advantage/`; a completion has the mean of its tokens",
    ),
    "advantage/std": ("advantage", "derived", "standard deviation; about 1 with `scale: group_std`"),
    "advantage/std_within_answer": (
        "advantage",
        "mean",
        "standard deviation over the tokens of an answer, mean over the trained answers, where tokens have their own "
        "advantages",
    ),
    "advantage/reward_correlation": (
        "correlation",
        "derived",
        "of advantages with total rewards within groups; 1 for rewards alone, less with penalties and baselines of "
        "tokens, never near 0",
    ),
    "advantage/max_abs": ("advantage", "max", "largest absolute value"),
    "advantage/std_before_scaling": ("reward", "derived", "deviation of total rewards from the group's mean"),
    "policy/loss": (
        "loss",
        "sum",
        "total loss, mean over the updates of the step. No measure of progress: with one update it is 0 up to the "
        "lengths of completions, whatever is learned. Watch the reward",
    ),
    "policy/policy_loss": ("loss", "sum", "policy term of the loss, where the loss has other terms"),
    "policy/kl_loss": ("loss", "sum", "KL term of the loss"),
    "policy/entropy_loss": ("loss", "sum", "entropy bonus in the loss"),
    "policy/drift_loss": ("loss", "sum", "KL-Cov's term of the loss"),
    "policy/entropy": ("nats", "mean", "entropy per token at the temperature, over the tokens that can be drawn"),
    "policy/entropy_at_temperature_1": ("nats*", "mean", "entropy per token of the model itself"),
    "policy/first_pass_ratio_deviation": (
        "ratio",
        "mean",
        "|π_new/π_old − 1| of single tokens before the first update of the step, where it has to be 0 but for rounding",
    ),
    "policy/trained_end_fraction": (
        "fraction",
        "mean",
        "of the trained completions that a stop id ended, those in which it has a weight in the loss: has to be 1",
    ),
    "policy/ratio_mean": ("ratio", "mean", "π_new/π_old at the level of `objective.ratio`"),
    "policy/ratio_min": ("ratio", "min", "smallest one"),
    "policy/ratio_max": ("ratio", "max", "largest one"),
    "policy/ratio_p01": ("ratio", "derived", "1 % quantile of π_new/π_old of single tokens"),
    "policy/ratio_p50": ("ratio", "derived", "median of the same"),
    "policy/ratio_p99": ("ratio", "derived", "99 % quantile of the same"),
    **{
        f"policy/clip_fraction_{bound}_{sign}": (
            "fraction",
            "mean",
            f"tokens with a {sign} advantage at the surrogate's {bound} bound: no gradient "
            "(CISPO, TOPR, ASPO, CE-GPPO: a bounded weight)",
        )
        for bound in ("low", "high")
        for sign in ("positive", "negative")
    },
    "policy/own/{name}": ("number", "mean", "what a surrogate of your own returns as `measures`, over trained tokens"),
    "policy/approx_kl_k1": ("nats", "mean", "KL(π_old ‖ π_new) per token, as mean(-log r)"),
    "policy/approx_kl_k3": ("nats", "mean", "the same as mean(r - 1 - log r): unbiased as well, and never negative"),
    "policy/kl_ref_k1": (
        "nats*",
        "mean",
        "KL(π_new ‖ π_ref) per token by k1, over the domains that have a coefficient: no other token is scored",
    ),
    "policy/kl_ref_k3": ("nats*", "mean", "the same by k3"),
    "policy/bapo_low": ("ratio", "mean", "lower bound of the ratio that `bapo` found, mean over updates"),
    "policy/bapo_high": ("ratio", "mean", "upper bound that it found"),
    "policy/bapo_steps": ("steps", "mean", "how many steps its search took"),
    "policy/bapo_share_before": ("fraction", "mean", "what good tokens weigh, P/(P+Q), at the bounds it starts from"),
    "policy/bapo_share_after": ("fraction", "mean", "the same at the bounds it found"),
    "policy/real_one_class_fraction": ("fraction", "mean", "groups in which `real` finds no two classes of answers"),
    "policy/real_unlabelled_fraction": ("fraction", "mean", "answers of the other groups that are in neither class"),
    "policy/off_policy_masked_fraction": ("fraction", "mean", "tokens that `off_policy_mask` leaves out"),
    "policy/second_moment": ("nats²", "mean", "(log r)² of the tokens that moved on, before `m2po` leaves some out"),
    "policy/second_moment_kept": ("nats²", "mean", "the same of those that it keeps"),
    "engine/logp_gap_mean": ("nats", "mean", "distance of trainer's and engine's log-probs with the same weights"),
    "engine/logp_gap_max": ("nats", "max", "largest one; about 1e-6 for the in-process engine in float32"),
    "engine/weight_mean": ("ratio", "mean", "engine weight π_old/π_engine before `engine_correction` limits it"),
    "engine/weight_max": ("ratio", "max", "largest one"),
    "engine/weight_limited_fraction": ("fraction", "mean", "tokens whose engine weight `engine_correction` changes"),
    "engine/ess": ("fraction", "derived", "effective sample size (Σw)²/(n·Σw²) of the engine weights, per token"),
    "router/aux_loss": ("loss", "mean", "auxiliary loss of a mixture of experts, without its coefficient"),
    "router/load_max": ("ratio", "max", "tokens of the fullest expert over its layer's mean, in the most uneven layer"),
    "router/entropy": ("nats", "mean", "entropy of a token's experts, the mean over layers"),
    "optimizer/micro_batch_tokens": ("tokens", "once", "of a micro-batch; fewer from where memory ran out"),
    "optimizer/lr": ("rate", "once", "learning rate"),
    "optimizer/grad_norm": ("norm", "mean", "norm of the gradient before clipping, mean over updates"),
    "optimizer/update_norm": ("norm", "mean", "norm of what an update added to the weights, before rounding"),
    "optimizer/grad_clipped_fraction": ("fraction", "mean", "updates whose gradient was clipped"),
    "optimizer/skipped_fraction": ("fraction", "mean", "updates skipped because the gradient was not finite"),
    "optimizer/weight_norm": ("norm", "max", "norm of the trained weights after the step"),
    "optimizer/updates": ("updates", "max", "updates of the step, without those that had no gradient"),
    "tokens/sampled": ("tokens", "sum", "tokens of all completions"),
    "time/sampling_seconds": ("seconds", "once", "sampling and grading"),
    "time/training_seconds": ("seconds", "once", "everything from the advantages to the engine's new weights"),
    "time/step_seconds": ("seconds", "once", "the whole step"),
    "time/step_cpu_seconds": ("seconds", "once", "the same in CPU time of the trainer's process"),
    "time/elapsed_seconds": ("seconds", "once", "all steps so far"),
    "time/tokens_per_second": ("tokens/second", "once", "tokens sampled ÷ the step's seconds"),
    "time/waited_for_rewards_seconds": ("seconds", "once", "waiting for rewards when all completions are there"),
    "eval/{mode}/accuracy": ("fraction", "once", "accuracy on held-out problems, every `problems.eval_every_steps`"),
    "eval/{mode}/standard_error": ("fraction", "once", "of that accuracy, over problems"),
    "eval/{mode}/problems": ("problems", "once", "how many it was measured on"),
    "eval/{mode}/format_rate": ("fraction", "once", "answers to them that earn the format reward"),
    "eval/{mode}/tokens": ("tokens", "once", "mean length of these answers"),
    "eval/{mode}/truncated_fraction": ("fraction", "once", "of these answers without an end"),
}

METRICS: tuple[Declared, ...] = tuple(
    Declared(name, unit.rstrip("*"), merge, meaning, unit.endswith("*"), *_DERIVED.get(name, ()))
    for name, (unit, merge, meaning) in _METRICS.items()
)


@cache
def _pattern(template: str) -> re.Pattern[str]:
    """Matches the names that a template describes, of a domain or of all."""
    placeholders = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>.+)", re.escape(template))
    return re.compile(rf"(?P<domain>domain/.+/)?{placeholders}")


@cache
def declared(name: str) -> Declared | None:
    """The declaration of a metric by the name under which it is written; None without one."""
    for metric in METRICS:
        found = _pattern(metric.name).fullmatch(name)
        if found and (metric.by_domain or not found["domain"]):
            return metric
    return None


def finished(merged: Mapping[str, Any]) -> dict[str, float]:
    """What a step writes, by name: the declared ones among the merged measurements, and those derived from them."""
    values = {name: float(value) for name, value in merged.items() if declared(name)}
    for metric in METRICS:
        for name in merged if metric.formula else ():
            found = _pattern(metric.sources[0]).fullmatch(name)
            if found is None or metric.formula is None:
                continue
            filled = {key: text or "" for key, text in found.groupdict().items()}
            sources = [merged.get(f"{{domain}}{source}".format(**filled)) for source in metric.sources]
            value = None if any(source is None for source in sources) else metric.formula(*sources)
            if value is not None:
                values[f"{{domain}}{metric.name}".format(**filled)] = value
    return dict(sorted(values.items()))
