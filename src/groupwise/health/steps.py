"""Steps in the form that the rules read, out of the logs of groupwise and of other trainers."""

import csv
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from groupwise.errors import DataError


@dataclass(frozen=True, slots=True)
class StepRow:
    """What a step measured; None for what a log does not say. Fractions from 0 to 1, nats per token.

    components: mean rewards but for correctness. shares: of each reward in the variance of their sum within groups,
    correctness included. eval_count: problems that it is over. eval_error: standard error. repetition: share of an
    answer that was there before. answers: different ones in a group. ungraded: answers that could not be judged.
    agreement: correlation of advantages and rewards. ends_trained: share of the ends of answers that have a weight.
    unknown_ids: share of sampled ids without a token. first_pass: distance of the ratio to 1 before the first update.
    """

    step: int
    correctness: float | None = None
    components: Mapping[str, float] = field(default_factory=dict)
    entropy: float | None = None
    truncated: float | None = None
    eval_accuracy: float | None = None
    eval_count: float | None = None
    eval_error: float | None = None
    all_right: float | None = None
    all_wrong: float | None = None
    kl_old: float | None = None
    clipped: float | None = None
    engine_gap: float | None = None
    grad_norm: float | None = None
    advantage_mean: float | None = None
    advantage_std: float | None = None
    shares: Mapping[str, float] = field(default_factory=dict)
    length: float | None = None
    repetition: float | None = None
    answers: float | None = None
    ungraded: float | None = None
    agreement: float | None = None
    ends_trained: float | None = None
    unknown_ids: float | None = None
    first_pass: float | None = None


# The first of these that a row has. Of groupwise, TRL, verl, prime-rl, and logs of others.
ALIASES: dict[str, tuple[str, ...]] = {
    "step": ("step", "global_step", "training/global_step", "_step"),
    "correctness": (
        "reward/correctness/mean", "rewards/accuracy_reward/mean", "rewards/correctness/mean", "accuracy",
        "critic/score/mean", "reward/mean",
    ),
    "total": ("reward/total/mean", "reward", "critic/rewards/mean", "reward_avg"),
    "entropy": (
        "policy/entropy", "entropy", "actor/entropy", "actor/entropy_loss", "entropy/mean", "entropy_avg",
        "completion/neg_logp",
    ),
    "truncated": (
        "completion/truncated_fraction", "completions/clipped_ratio", "response_length/clip_ratio", "is_truncated/mean",
    ),
    "eval_accuracy": ("eval/sampled/accuracy", "eval/greedy/accuracy", "eval_acc", "eval/accuracy", "val-core/acc"),
    "eval_count": ("eval/sampled/problems", "eval/greedy/problems"),
    "eval_error": ("eval/sampled/standard_error", "eval/greedy/standard_error"),
    "all_right": ("groups/all_right", "solve_all", "batch/solve_all"),
    "all_wrong": ("groups/all_wrong", "solve_none", "batch/solve_none"),
    "kl_old": ("policy/approx_kl_k3", "actor/ppo_kl", "approx_kl"),
    "engine_gap": ("engine/logp_gap_mean", "sampling/sampling_logp_difference/mean", "mismatch_kl/mean"),
    "grad_norm": ("optimizer/grad_norm", "grad_norm", "actor/grad_norm", "optim/grad_norm"),
    "advantage_mean": ("advantage/mean", "critic/advantages/mean", "adv_avg"),
    "advantage_std": ("advantage/std", "adv_std"),
    "length": (
        "completion/tokens", "completions/mean_length", "response_length/mean", "seq_len/all/mean", "avg_response_len",
    ),
    "repetition": ("completion/repetition",),
    "answers": ("groups/unique_answers",),
    "ungraded": ("completion/ungraded_fraction",),
    "agreement": ("advantage/reward_correlation",),
    "ends_trained": ("policy/trained_end_fraction",),
    "unknown_ids": ("completion/unknown_id_fraction",),
    "first_pass": ("policy/first_pass_ratio_deviation",),
}  # fmt: skip
COMPONENT = re.compile(r"(?:reward/(?P<a>.+)/mean|rewards/(?P<b>.+)/mean|(?P<c>\w+)_reward_avg)")
SHARE = re.compile(r"reward/(.+)/variance_fraction")
CLIPPED = re.compile(r"policy/clip_fraction_\w+|clip_ratio/region_mean|actor/pg_clipfrac")

_AS_THEY_ARE = (
    "length", "repetition", "answers", "ungraded", "agreement", "ends_trained", "unknown_ids", "first_pass",
)  # fmt: skip


def step_of(row: Mapping[str, Any]) -> StepRow | None:
    """A line of a log; None without a step."""

    def number(kind: str) -> float | None:
        for name in ALIASES[kind]:
            value = _number(row.get(name))
            if value is not None:
                return value
        return None

    step = number("step")
    if step is None:
        return None
    total, correctness = number("total"), number("correctness")
    components: dict[str, float] = {}
    shares: dict[str, float] = {}
    for name, value in row.items():
        found = COMPONENT.fullmatch(name)
        short = found and (found["a"] or found["b"] or found["c"])
        if short and short not in ("total", "correctness", "accuracy_reward") and (made := _number(value)) is not None:
            components[short] = made
        part = SHARE.fullmatch(name)
        if part and part[1] != "total" and (made := _number(value)) is not None:
            shares[part[1]] = made
    if correctness is None and total is not None:
        # A log of the sum and of the other parts: what is left.
        correctness = total - math.fsum(components.values())
    clipped = [value for name, own in row.items() if CLIPPED.fullmatch(name) and (value := _number(own)) is not None]
    accuracy = number("eval_accuracy")
    if accuracy is not None and accuracy > 1:
        accuracy /= 100
    return StepRow(
        step=int(step),
        correctness=correctness,
        components=components,
        entropy=number("entropy"),
        truncated=number("truncated"),
        eval_accuracy=accuracy,
        eval_count=number("eval_count"),
        eval_error=number("eval_error"),
        all_right=number("all_right"),
        all_wrong=number("all_wrong"),
        kl_old=number("kl_old"),
        clipped=math.fsum(clipped) if clipped else None,
        engine_gap=number("engine_gap"),
        grad_norm=number("grad_norm"),
        advantage_mean=number("advantage_mean"),
        advantage_std=number("advantage_std"),
        shares=shares,
        **{name: number(name) for name in _AS_THEY_ARE},
    )


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or value is None or value == "":
        return None
    try:
        made = float(value)
    except (TypeError, ValueError):
        return None
    return made if math.isfinite(made) else None


def rows_of(lines: Iterable[Mapping[str, Any]], name: str) -> list[StepRow]:
    """The steps of a log, in order; of a step that stands there more than once the last numbers.

    Raises:
        DataError: without a step that has a reward or an accuracy, which every rule needs.
    """
    merged: dict[int, dict[str, Any]] = {}
    for line in lines:
        made = step_of(line)
        if made is not None:
            own = merged.setdefault(made.step, {})
            own.update({key: value for key, value in line.items() if value is not None and value != ""})
    rows = [made for step in sorted(merged) if (made := step_of(merged[step])) is not None]
    if not any(row.correctness is not None or row.eval_accuracy is not None for row in rows):
        names = ", ".join(sorted({key for line in merged.values() for key in line})[:12])
        raise DataError(
            f"'{name}' has no steps with a reward or an accuracy under a name that is known; it has "
            f"{names or 'no steps'}"
        )
    return rows


def read_steps(path: Path) -> list[StepRow]:
    """The steps of a run's folder or of a file: JSON lines, CSV, trainer_state.json of TRL, or verl's console log.

    Raises:
        DataError: for what is none of these.
    """
    file = path / "metrics.jsonl" if path.is_dir() else path
    if not file.is_file():
        raise DataError(f"'{path}' is neither the folder of a run with metrics.jsonl nor a file")
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"'{file}' cannot be read as text: {error}") from error
    return rows_of(_lines(text), str(path))


def _lines(text: str) -> Sequence[Mapping[str, Any]]:
    start = text.lstrip()[:1]
    if start == "{":
        try:
            whole = json.loads(text)
        except ValueError:
            return [line for part in text.splitlines() if isinstance(line := _json(part), dict)]
        if isinstance(whole, dict) and isinstance(whole.get("log_history"), list):
            return [line for line in whole["log_history"] if isinstance(line, dict)]
        return [whole]
    console = [found for line in text.splitlines() if (found := _console(line))]
    if console:
        return console
    return list(csv.DictReader(text.splitlines()))


def _json(text: str) -> Any:
    try:
        made = json.loads(text)
    except ValueError:
        return None
    if isinstance(made, dict) and isinstance(made.get("data"), dict):
        # verl's file logger has the numbers one level below.
        return {"step": made.get("step"), **made["data"]}
    return made


def _console(line: str) -> dict[str, Any]:
    """`step:3 - actor/entropy:0.21 - …`, as verl prints it."""
    parts = re.findall(r"([\w/\-@. ]+?):(-?\d[\d.e+\-]*)(?: - |$)", line)
    made = {name.strip(" -"): value for name, value in parts}
    return made if "step" in made and len(made) > 3 else {}
