"""The rules: what they are called, how severe they are, when they hold, what that means, and what to try.

Each says at which step it first holds, so that a run that is watched live and its log read afterwards give the same.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from groupwise.health import conditions as when
from groupwise.health import signs
from groupwise.health.conditions import Context, Fired
from groupwise.health.finding import HealthFinding, Severity
from groupwise.health.steps import StepRow


@dataclass(frozen=True)
class Rule:
    """fires: when it holds, for the steps up to any one; the first is reported."""

    name: str
    severity: Severity
    fires: Callable[[Sequence[StepRow], Context], Iterator[Fired]]
    meaning: str
    change: tuple[str, ...] = ()


def findings(rows: Sequence[StepRow], context: Context) -> list[HealthFinding]:
    """All rules that fire, the most severe first, each once.

    rows: in the order of their steps.
    """
    found = []
    for rule in RULES:
        fired = next(rule.fires(rows, context), None)
        if fired is not None:
            step, evidence = fired
            found.append(
                HealthFinding(rule.name, rule.severity, step, rows[-1].step, evidence, rule.meaning, rule.change)
            )
    order: list[Severity] = ["critical", "warning", "info"]
    return sorted(found, key=lambda one: (order.index(one.severity), one.first_step))


SMALLER = ("optimizer.lr lower", "batch.epochs_per_step=1")

RULES = (
    Rule(
        "uniform_output",
        "critical",
        when.uniform,
        "the model says anything with equal probability: it is destroyed",
        ("resume from an earlier checkpoint", "optimizer.lr lower", "kl.estimator=k3"),
    ),
    Rule(
        "entropy_explosion",
        "critical",
        when.explosion,
        "sampling becomes random; the accuracy follows. A learning rate that is too high, or a KL or entropy term that "
        "pushes what was sampled down",
        ("optimizer.lr lower", "kl.estimator=k3", "entropy.bonus=none"),
    ),
    Rule(
        "nothing_right",
        "critical",
        when.nothing_right,
        "nothing can be learned: the problems are too hard, answers are cut off, or the grader does not read them",
        ("groupwise check FILE", "sampling.max_new_tokens higher", "batch.samples_per_prompt higher"),
    ),
    Rule(
        "all_truncated",
        "critical",
        when.truncated,
        "the model no longer ends its answers, or has no room to",
        ("sampling.max_new_tokens higher", "sampling.stop_ids", "rewards.overlong.buffer_tokens higher"),
    ),
    Rule(
        "eval_drop",
        "critical",
        when.eval_drop,
        "the run became worse on problems it is not trained on: go back to the best checkpoint, read its rollouts",
        ("optimizer.lr lower", "kl.coefficient higher"),
    ),
    Rule(
        "reward_divergence",
        "critical",
        when.divergence,
        "the model is rewarded for what is not the task",
        ("lower weight of that reward", "rewards.gate=correctness"),
    ),
    Rule(
        "form_over_task",
        "critical",
        signs.form,
        "only the form of the answers is still learned, and sampling becomes random: the accuracy falls next",
        ("lower weight of that reward", "rewards.gate=correctness", "optimizer.lr lower"),
    ),
    Rule(
        "advantages_against_rewards",
        "critical",
        signs.agreement,
        "better answers are not made more likely: the advantages are in another order than the answers, a fault of the "
        "trainer or of an estimator of your own",
        ("advantage.estimator=group",),
    ),
    Rule(
        "ends_not_trained",
        "critical",
        signs.ends,
        "the model does not learn to end its answers: a mask leaves the stop id out, a fault of the trainer",
    ),
    Rule(
        "unknown_ids",
        "critical",
        signs.unknown_ids,
        "the engine draws from rows of the head that the tokenizer has no token for",
        ("model.path with the tokenizer of its model",),
    ),
    Rule(
        "reward_drop",
        "warning",
        signs.reward_drop,
        "the run unlearns its task, or its problems became harder",
        ("optimizer.lr lower", "kl.coefficient higher"),
    ),
    Rule(
        "no_progress",
        "warning",
        signs.no_progress,
        "nothing is learned from groups that do tell answers apart: steps are too small or too noisy, or a KL term "
        "holds the policy where it was",
        ("optimizer.lr higher", "kl.coefficient lower", "batch.prompts_per_step higher"),
    ),
    Rule(
        "reward_dominated",
        "warning",
        signs.dominated,
        "which answer is better is decided by what is not the task",
        ("lower weight of that reward", "rewards.gate=correctness"),
    ),
    Rule(
        "entropy_collapse",
        "warning",
        when.collapse,
        "the answers of a group are the same, and nothing is explored any more",
        ("objective.surrogate.clip_high=0.28", "entropy.bonus={type: target}", "sampling.temperature=1.0"),
    ),
    Rule(
        "often_truncated",
        "warning",
        when.often_truncated,
        "the reward measures the length limit",
        ("sampling.max_new_tokens higher", "objective.mask_truncated=true"),
    ),
    Rule(
        "length_growth",
        "warning",
        signs.longer,
        "answers grow into the limit without being better",
        ("rewards.overlong.buffer_tokens higher", "objective.reduction=constant_length"),
    ),
    Rule(
        "repetition",
        "warning",
        signs.repeats,
        "answers go round in circles",
        ("rewards.repetition.weight higher", "optimizer.lr lower"),
    ),
    Rule(
        "one_answer",
        "warning",
        signs.one_answer,
        "nothing is compared any more: every sample of a group says the same",
        ("sampling.temperature=1.0", "objective.surrogate.clip_high=0.28"),
    ),
    Rule(
        "ungraded",
        "warning",
        signs.ungraded,
        "what is learned comes from the rest: failures.jsonl says why they fail",
        ("grading.on_error=stop",),
    ),
    Rule(
        "first_pass_ratio",
        "warning",
        signs.first_pass,
        "old and new log-probabilities differ before anything was learned: temperature, masks, precision or weights",
        ("objective.old_logps=trainer",),
    ),
    Rule("policy_drift", "warning", when.drift, "the steps are too large", SMALLER),
    Rule(
        "clipping",
        "warning",
        when.clipped,
        "most of the gradient is cut off",
        ("optimizer.lr lower", "batch.epochs_per_step=1"),
    ),
    Rule(
        "engine_gap",
        "warning",
        when.engine,
        "what was sampled is not what is trained on",
        ("engine_correction=tis", "objective.old_logps=trainer"),
    ),
    Rule("no_gradient", "warning", when.no_gradient, "much sampling is for nothing", ("active_sampling.refill=true",)),
    Rule("gradient_spikes", "warning", when.spikes, "few batches decide the run", ("optimizer.max_grad_norm lower",)),
    Rule(
        "biased_advantages",
        "warning",
        when.biased,
        "the mean of a group is not subtracted, or answers are dropped after it was: a fault of the trainer, or a "
        "baseline that is not the group's",
    ),
    Rule("too_easy", "info", when.too_easy, "little is left to learn: harder problems, or stop", ("problems.train",)),
    Rule(
        "too_hard",
        "info",
        when.too_hard,
        "easier problems, or larger groups; does the grader read the answers?",
        ("problems.train",),
    ),
)
