"""What the numbers that the rules read are called in the logs of groupwise, TRL, verl, prime-rl and others."""

import re
from functools import cache

# The first of these that a row has.
ALIASES: dict[str, tuple[str, ...]] = {
    "step": ("step", "global_step", "training/global_step", "trainer/global_step", "_step", "Step", "iteration"),
    "correctness": (
        "reward/correctness/mean", "rewards/accuracy_reward/mean", "rewards/correctness/mean", "accuracy",
        "critic/score/mean", "reward/mean",
    ),
    "total": ("reward/total/mean", "reward", "critic/rewards/mean", "reward/all/mean", "reward_avg"),
    "entropy": (
        "policy/entropy", "entropy", "actor/entropy", "actor/entropy_loss", "entropy/mean", "entropy/all/mean",
        "entropy_avg", "completion/neg_logp",
    ),
    "truncated": (
        "completion/truncated_fraction", "completions/clipped_ratio", "response_length/clip_ratio", "is_truncated/mean",
        "is_truncated/all/mean",
    ),
    "eval_accuracy": (
        "eval/sampled/accuracy", "eval/greedy/accuracy", "eval_acc", "eval_accuracy", "eval/accuracy",
        "eval_rewards/accuracy_reward/mean", "eval/rewards/accuracy_reward/mean", "eval_reward", "eval/reward",
    ),
    "eval_count": ("eval/sampled/problems", "eval/greedy/problems"),
    "eval_error": ("eval/sampled/standard_error", "eval/greedy/standard_error"),
    "all_right": ("groups/all_right", "solve_all", "solve_all/all", "batch/solve_all"),
    "all_wrong": ("groups/all_wrong", "solve_none", "solve_none/all", "batch/solve_none"),
    "equal": ("groups/zero_std", "frac_reward_zero_std"),
    "kl_old": ("policy/approx_kl_k3", "actor/ppo_kl", "approx_kl"),
    "clipped_low": ("policy/clip_fraction_low_negative", "clip_ratio/low_mean", "is_masked_low/mean"),
    "clipped_high": ("policy/clip_fraction_high_positive", "clip_ratio/high_mean", "is_masked_high/mean"),
    "engine_gap": (
        "engine/logp_gap_mean", "sampling/sampling_logp_difference/mean", "mismatch_kl/mean", "mismatch_kl/all/mean",
        "kl/mismatch", "rollout_corr/kl",
    ),
    "grad_norm": ("optimizer/grad_norm", "grad_norm", "actor/grad_norm", "optim/grad_norm"),
    "advantage_mean": ("advantage/mean", "critic/advantages/mean", "adv_avg"),
    "advantage_std": ("advantage/std", "adv_std"),
    "length": (
        "completion/tokens", "completions/mean_length", "response_length/mean", "decode_len/all/mean",
        "seq_len/all/mean", "avg_response_len", "completion_length",
    ),
    "longest": (
        "completion/tokens_max", "completions/max_length", "response_length/max", "decode_len/all/max",
        "seq_len/all/max",
    ),
    "repetition": ("completion/repetition",),
    "answers": ("groups/unique_answers",),
    "ungraded": ("completion/ungraded_fraction",),
    "agreement": ("advantage/reward_correlation",),
    "ends_trained": ("policy/trained_end_fraction",),
    "unknown_ids": ("completion/unknown_id_fraction",),
    "first_pass": ("policy/first_pass_ratio_deviation",),
}  # fmt: skip

COMPONENT = re.compile(
    r"reward/(?P<a>.+)/mean|rewards/(?P<b>.+)/mean|(?P<c>\w+)_reward_avg|metrics/[^/]+/(?P<d>\w*(?:reward|correct|acc)\w*)"
)
"""A part of the reward; c: of a log whose total is the sum of its parts."""

NO_COMPONENT = {"total", "correctness", "accuracy_reward", "all"}
SHARE = re.compile(r"reward/(?!total/)(.+)/variance_fraction")
CLIPPED = re.compile(r"policy/clip_fraction_\w+|clip_ratio/region_mean|actor/pg_clipfrac|is_masked/mean")
# verl has one for each data set, and both a mean reward and, where the scorer says so, an accuracy.
EVALUATED = (
    re.compile(r"val-core/.+/acc/mean@\d+"),
    re.compile(r"val-core/.+/mean@\d+"),
    re.compile(r"val-core/acc|val/test_score/.+"),
    re.compile(r"eval/.+/avg@\d+"),
)
# Extremes of the reward of a step, which say on what scale it is.
LOWEST, HIGHEST = "critic/score/min", "critic/score/max"
FINITE = (
    "loss", "grad_norm", "entropy", "kl", "policy/loss", "optimizer/grad_norm", "actor/pg_loss", "actor/grad_norm",
    "actor/entropy", "loss/mean", "optim/grad_norm",
)  # fmt: skip
"""Numbers that are never without a value in a sound run."""

TASK = re.compile(r"acc|correct|math|answer|solve|outcome|verif|exact|pass", re.IGNORECASE)
FORM = re.compile(r"format|tag|think|length|len_|overlong|repet|style|xml|soft|strict|language|trunc", re.IGNORECASE)


@cache
def plain(name: str) -> str:
    """A name without what is put before it: `train/`, `rank0/`, and in an export of W&B the run's name."""
    bare = re.sub(r"^.* - (?=\S+$)", "", name.strip())
    bare = re.sub(r"^\[?rank[_ ]?\d+\]?[/:. ]+", "", bare, flags=re.IGNORECASE)
    return bare.removeprefix("train/")


def run_of(name: str) -> str | None:
    """The run that a column of an export of W&B belongs to: `RUN - METRIC`."""
    found = re.fullmatch(r"(.+) - \S+", name.strip())
    return found[1] if found else None


def task_of(components: frozenset[str]) -> str | None:
    """The part of the reward that says whether an answer is right, by its name; the only one, where it is no form."""
    named = sorted(name for name in components if TASK.search(name) and not FORM.search(name))
    if named:
        return named[0]
    alone = next(iter(components)) if len(components) == 1 else None
    return alone if alone and not FORM.search(alone) else None
