"""The checks between options: each names its keys, its reason and what to do."""

from collections.abc import Mapping

import pytest

from groupwise.config import SftConfig, TrainConfig
from groupwise.config.checks import Finding, contradictions, notes
from groupwise.config.compose import compose_sft_config, compose_train_config, list_recipes
from groupwise.errors import UsageError


def build(**sections: str | Mapping[str, object]) -> TrainConfig:
    return TrainConfig.model_validate(sections)


REINFORCE = {"ratio": "none", "surrogate": "reinforce"}
TRAINER = {"old_logps": "trainer"}
REDUCED = {"compute_dtype": "bfloat16"}
FORMAT = {"format": {"weight": 0.5}}
TOKEN_BASELINE = {"estimator": "optimal_token_baseline"}
NO_BASELINE = {"estimator": {"baseline": "none"}}
GSPO_CLIP = {"clip_low": 3e-4, "clip_high": 4e-4}
ALL_GROUPS = {"filter": "none", "refill": False}


def test_the_defaults_have_no_findings() -> None:
    assert contradictions(TrainConfig()) == []
    assert contradictions(SftConfig(data="a", output="b")) == []


# A function that scores spans, with a filter that admits groups for them.
SPANS = {"functions": {"own": {"path": "m:f", "returns": "token_spans"}}}
BY_TOTAL = {"filter": "total"}


ERRORS = [
    *[
        (
            build(rewards=SPANS, active_sampling=filter_, advantage={"estimator": estimator}),
            "advantage.estimator",
            [why],
        )
        for estimator, filter_, why in (
            ("gdpo", {"filter": "any_component"}, "gdpo: it whitens its sums over the step"),
            ("reinforce_plus_plus", BY_TOTAL, "reinforce_plus_plus: it whitens over the step"),
            ({"type": "pass_at_k", "k": 2}, BY_TOTAL, "pass_at_k: it counts sets of answers"),
            ("optimal_token_baseline", BY_TOTAL, "its baselines are those of the rewards of answers"),
            ({"baseline": "none"}, ALL_GROUPS, "with baseline=none answers are compared with nothing"),
        )
    ],
    *[
        (
            build(rewards=SPANS, active_sampling=BY_TOTAL, objective=objective),
            key,
            ["rewards.functions.own.returns=token_spans with", "what the spans tell apart is lost"],
        )
        for key, objective in (
            ("objective.ratio", {"ratio": "sequence_geometric_mean", "reduction": "sequence_mean_token_mean"}),
            ("objective.surrogate", {"surrogate": "gmpo", "reduction": "sequence_mean_token_mean"}),
        )
    ],
    *[
        (
            build(advantage={"process": {name: value}}),
            f"advantage.process.{name}",
            ["no function in rewards.functions scores spans", "default, "],
        )
        for name, value in (("scale", "none"), ("std_ddof", 0), ("std_epsilon", 0.5))
    ],
    (
        build(rewards=SPANS, active_sampling=BY_TOTAL, advantage={"process": {"scale": "none", "std_ddof": 0}}),
        "advantage.process.std_ddof",
        ["no effect with advantage.process.scale=none", "set advantage.process.scale=group_std"],
    ),
    (
        build(
            rewards=SPANS,
            active_sampling=BY_TOTAL,
            objective={"surrogate": "real", "reduction": "sequence_mean_token_mean"},
        ),
        "objective.surrogate",
        ["has no effect with objective.surrogate=real"],
    ),
    (build(batch={"samples_per_prompt": 1}), "batch.samples_per_prompt", ["advantage 0", "at least 2 samples"]),
    (
        build(batch={"minibatches_per_step": 5, "prompts_per_step": 4}),
        "batch.minibatches_per_step",
        ["=5 is more than", "=4", "take at most 4"],
    ),
    (
        build(prompt={"template": "plain", "chat_template": "a.jinja"}),
        "prompt.chat_template",
        ["no effect with prompt.template=plain", "set prompt.template=chat"],
    ),
    (
        build(prompt={"template": "plain", "template_arguments": {"enable_thinking": False}}),
        "prompt.template_arguments",
        ["={enable_thinking: false} has no effect with prompt.template=plain"],
    ),
    (
        build(prompt={"template_arguments": {"messages": []}}),
        "prompt.template_arguments",
        ["'messages'", "leave it out"],
    ),
    (build(sampling={"stop": ["a", ""]}), "sampling.stop", ["empty text"]),
    (build(sampling={"keep_stop": True}), "sampling.keep_stop", ["no effect with sampling.stop=[]"]),
    (
        build(advantage={"estimator": {"std_ddof": 0}}),
        "advantage.estimator.std_ddof",
        ["=0 has no effect with advantage.estimator.scale=none", "group_std", "default, 1"],
    ),
    (
        build(advantage={"estimator": {"std_epsilon": 0.5}}),
        "advantage.estimator.std_epsilon",
        ["no effect", "advantage.estimator.scale=none"],
    ),
    (
        build(rewards={"format": {"requires": "correctness"}}),
        "rewards.format.requires",
        ["rewards.format.weight=0", "a weight"],
    ),
    (
        build(rewards={"correctness": {"weight": 0}}),
        "rewards.correctness.weight",
        ["nothing is rewarded", "rewards.format.weight=0"],
    ),
    (
        build(active_sampling={"refill": False, "max_prompts_per_step_factor": 2}),
        "active_sampling.max_prompts_per_step_factor",
        ["active_sampling.refill=false", "default, 4.0"],
    ),
    (
        build(active_sampling={"filter": "none", "max_prompts_per_step_factor": 2}),
        "active_sampling.max_prompts_per_step_factor",
        ["active_sampling.filter=none"],
    ),
    (build(optimizer={"final_lr_fraction": 0.1}), "optimizer.final_lr_fraction", ["optimizer.schedule=constant"]),
    (
        build(problems={"eval_problems": 0, "eval_every_steps": 5}),
        "problems.eval_every_steps",
        ["=5 has no effect with problems.eval_problems=0"],
    ),
    (
        build(problems={"train": "x.jsonl", "eval_every_steps": 5}),
        "problems.eval_every_steps",
        ["=5 has no effect with problems.eval=''", "name other problems"],
    ),
    (
        build(problems={"columns": {"answer": "gold"}}),
        "problems.columns.answer",
        ["=gold has no effect with problems.train=arithmetic", "default, ''"],
    ),
    (
        build(advantage={"estimator": {"scale": "group_std"}}, batch={"samples_per_prompt": 1}),
        "advantage.estimator.std_ddof",
        ["G-1", "std_ddof=0"],
    ),
    (
        build(advantage={"estimator": "gdpo"}, batch={"samples_per_prompt": 1}),
        "advantage.estimator.std_ddof",
        ["G-1", "std_ddof=0"],
    ),
    # Sampling from a part of the vocabulary.
    (
        build(sampling={"top_p": 0.9}),
        "sampling.top_p",
        [
            "replay_mask=false",
            "0.105 nats a token",
            "53.9 nats over 512 tokens",
            "objective.ratio=token",
            "replay_mask=true",
        ],
    ),
    (build(sampling={"top_k": 20}), "sampling.top_k", ["=20 with", "two different distributions"]),
    (build(sampling={"min_p": 0.1}), "sampling.min_p", ["=0.1 with", "objective.ratio=token"]),
    (
        build(
            sampling={"top_k": 5}, objective=REINFORCE, kl={"coefficient": 0.1, "estimator": "k2", "importance": "none"}
        ),
        "sampling.top_k",
        ["kl.coefficient compares"],
    ),
    (
        build(
            sampling={"top_k": 5},
            objective={**REINFORCE, "old_logps": "trainer"},
            engine_correction="tis",
        ),
        "sampling.top_k",
        ["engine_correction=tis compares"],
    ),
    (build(sampling={"replay_mask": True}), "sampling.replay_mask", ["no set to record", "replay_mask=false"]),
    # Groups and rewards.
    *[
        (
            build(batch={"samples_per_prompt": 1}, advantage=how),
            "batch.samples_per_prompt",
            [word, "nothing is learned"],
        )
        for how, word in (
            ({"estimator": {"baseline": "leave_one_out"}}, "baseline=leave_one_out"),
            ({"estimator": "max_rl"}, "estimator=max_rl"),
            ({"estimator": {"type": "pass_at_k", "k": 1}}, "estimator=pass_at_k"),
        )
    ],
    (
        build(batch={"samples_per_prompt": 1}, advantage=NO_BASELINE),
        "active_sampling.filter",
        ["group of one nothing differs", "filter=none"],
    ),
    (
        build(active_sampling={"retire_accuracy": 0.875}),
        "active_sampling.retire_accuracy",
        ["=0.875 has no effect with problems.train=arithmetic", "train on a file"],
    ),
    (
        build(rewards={"overlong": {"buffer_tokens": 513}}),
        "rewards.overlong.buffer_tokens",
        ["=513 is more than sampling.max_new_tokens=512"],
    ),
    # Advantages.
    (
        build(advantage={"estimator": {"baseline": "none", "scale": "group_std"}}),
        "advantage.estimator.scale",
        ["divided by 0", "advantage.estimator.baseline=none"],
    ),
    (
        build(advantage={"estimator": {"type": "pass_at_k", "k": 9}}),
        "advantage.estimator.k",
        ["=9 is not less than batch.samples_per_prompt=8", "every advantage is 0", "at most 7"],
    ),
    (
        build(advantage={"estimator": "pass_at_k"}, batch={"samples_per_prompt": 4}),
        "advantage.estimator.k",
        ["=4 is not less than batch.samples_per_prompt=4"],
    ),
    (
        build(advantage={"estimator": "pass_at_k"}, rewards={"format": {"weight": 0.1}}),
        "rewards.format.weight",
        ["no effect with advantage.estimator=pass_at_k"],
    ),
    (
        build(advantage={"estimator": "pass_at_k"}, rewards={"overlong": {"buffer_tokens": 8}}),
        "rewards.overlong.weight",
        ["no effect with advantage.estimator=pass_at_k"],
    ),
    (
        build(advantage={"estimator": "max_rl"}, rewards={"overlong": {"buffer_tokens": 8}}),
        "advantage.estimator",
        ["divides by the mean reward", "negative"],
    ),
    *[
        (build(advantage=TOKEN_BASELINE, objective=objective), key, ["hands the advantage of each token", "gspo_token"])
        for key, objective in (
            ("objective.ratio", {"ratio": "sequence_geometric_mean", "reduction": "sequence_mean_token_mean"}),
            ("objective.surrogate", {"surrogate": "gmpo", "reduction": "sequence_mean_token_mean"}),
        )
    ],
    (
        build(advantage={"estimator": {"type": "optimal_token_baseline", "engine_weights": True}}),
        "advantage.estimator.engine_weights",
        ["no effect with engine_correction=none"],
    ),
    # The policy term.
    *[
        (
            build(objective={"ratio": "none", "surrogate": {"type": surrogate, name: value}}),
            f"objective.surrogate.{name}",
            [f"={value} has no effect with objective.ratio=none", "objective.ratio=token"],
        )
        for surrogate, name, value in (
            ("ppo_clip", "clip_low", 0.1),
            ("ppo_clip", "clip_high", 0.5),
            ("ppo_clip", "dual_clip", 3.0),
            ("seed_clip", "clip_high", 0.5),
            ("cispo", "cap", 2.0),
            ("cispo", "floor", 0.5),
            ("sapo", "temperature_positive", 2.0),
            ("sapo", "temperature_negative", 2.0),
        )
    ],
    (
        build(objective={"surrogate": "gmpo", "ratio": "sequence_product"}),
        "objective.ratio",
        ["surrogate=gmpo with objective.ratio=sequence_product", "objective.ratio=token alone; set that"],
    ),
    (build(objective={"surrogate": "vespo"}), "objective.ratio", ["objective.ratio=sequence_product alone; set that"]),
    (
        build(objective={"surrogate": {"dual_clip": 0.8}}),
        "objective.surrogate.dual_clip",
        ["not above 1", "usual value is 3"],
    ),
    (
        build(objective={"surrogate": {"type": "cispo", "floor": 5.0}}),
        "objective.surrogate.floor",
        ["not below objective.surrogate.cap=5.0"],
    ),
    # Engine correction and off-policy mask.
    (
        build(engine_correction={"type": "mis", "low": 2.0}, objective=TRAINER, model=REDUCED),
        "engine_correction.low",
        ["not below engine_correction.high=2.0", "0.5 and 5"],
    ),
    (
        build(engine_correction={"type": "mis", "low": 0.1, "high": 0.2}, objective=TRAINER, model=REDUCED),
        "engine_correction.high",
        ["absolute", "would be dropped"],
    ),
    *[
        (
            build(engine_correction=name),
            "engine_correction",
            [f"={name} with objective.old_logps=sampler", "exactly 1", "old_logps=trainer"],
        )
        for name in ("tis", "mis")
    ],
    # KL.
    *[
        (build(kl={key: value}), f"kl.{key}", ["no effect with kl.coefficient=0"])
        for key, value in (
            ("estimator", "k2"),
            ("importance", "none"),
            ("in_reward", True),
            ("reduction", "token_mean"),
            ("refresh_reference_every_steps", 5),
        )
    ],
    (build(domains={"math": {"kl_coefficient": 0.0}}), "domains.math.kl_coefficient", ["every coefficient is 0"]),
    *[
        (
            build(kl={"coefficient": 0.1, "in_reward": True, key: value}),
            f"kl.{key}",
            ["no effect with kl.in_reward=true", "set kl.in_reward=false"],
        )
        for key, value in (("estimator", "k1"), ("importance", "none"), ("reduction", "token_mean"))
    ],
    # Entropy.
    (
        build(entropy={"bonus": {"type": "target", "target_nats": 0.5, "coefficient": 2.0}}),
        "entropy.bonus.coefficient",
        ["above entropy.bonus.max_coefficient=1.0"],
    ),
    *[
        (
            build(entropy={"covariance": {"type": name, "fraction": 0.0}}),
            "entropy.covariance.fraction",
            [f"entropy.covariance={name}", "at least one token is picked"],
        )
        for name in ("clip_cov", "kl_cov")
    ],
    (
        build(entropy={"covariance": {"type": "clip_cov", "low": 5.0}}),
        "entropy.covariance.low",
        ["not below entropy.covariance.high=5.0"],
    ),
]


@pytest.mark.parametrize(("config", "key", "words"), ERRORS, ids=[f"{key}-{i}" for i, (_, key, _) in enumerate(ERRORS)])
def test_errors(config: TrainConfig, key: str, words: list[str]) -> None:
    (message,) = [f.message for f in contradictions(config) if f.level == "error" and f.keys[0] == key]
    for word in [key, *words]:
        assert word in message


REFUSED = [
    # The option that chooses, the chosen technique, an option that it lacks, and the techniques that have it.
    ("objective.reduction", "token_mean", "tokens=9", ["constant_length"]),
    ("advantage.estimator", "max_rl", "baseline=leave_one_out", ["group"]),
    ("advantage.estimator", "gdpo", "scale=group_std", ["group"]),
    ("advantage.estimator", "pass_at_k", "std_ddof=0", ["group", "gdpo"]),
    ("advantage.estimator", "group", "k=2", ["pass_at_k"]),
    ("objective.surrogate", "cispo", "clip_low=0.1", ["ppo_clip", "fipo", "aspo", "ce_gppo"]),
    ("objective.surrogate", "cispo", "clip_high=0.5", ["ppo_clip", "fipo", "aspo", "ce_gppo", "seed_clip"]),
    ("objective.surrogate", "sapo", "clip_high=0.5", ["ppo_clip", "fipo", "aspo", "ce_gppo", "seed_clip"]),
    ("objective.surrogate", "seed_clip", "clip_low=0.1", ["ppo_clip", "fipo", "aspo", "ce_gppo"]),
    ("objective.surrogate", "cispo", "dual_clip=3.0", ["ppo_clip", "fipo", "ce_gppo"]),
    ("objective.surrogate", "ppo_clip", "cap=2.0", ["cispo", "aspo"]),
    ("objective.surrogate", "ppo_clip", "floor=0.5", ["cispo"]),
    ("objective.surrogate", "ppo_clip", "temperature_positive=2.0", ["sapo"]),
    ("objective.surrogate", "ppo_clip", "temperature_negative=2.0", ["sapo"]),
    ("objective.surrogate", "ppo_clip", "k_positive=1.0", ["vespo"]),
    ("objective.surrogate", "ppo_clip", "lambda_positive=1.0", ["vespo"]),
    ("objective.surrogate", "ppo_clip", "k_negative=1.0", ["vespo"]),
    ("objective.surrogate", "ppo_clip", "lambda_negative=1.0", ["vespo"]),
    ("engine_correction", "none", "level=sequence_product", ["tis", "mis"]),
    ("engine_correction", "none", "low=0.1", ["mis"]),
    ("engine_correction", "none", "cap=5.0", ["tis"]),
    ("engine_correction", "tis", "low=0.1", ["mis"]),
    ("off_policy_mask", "none", "threshold_nats=0.2", ["sequence"]),
    ("entropy.bonus", "none", "coefficient_step=0.1", ["target"]),
    ("entropy.bonus", "fixed", "coefficient_step=0.1", ["target"]),
    ("entropy.bonus", "fixed", "max_coefficient=0.5", ["target"]),
    ("entropy.covariance", "none", "fraction=0.1", ["clip_cov", "kl_cov"]),
    ("entropy.covariance", "none", "low=0.1", ["clip_cov"]),
    ("entropy.covariance", "kl_cov", "high=9.0", ["clip_cov"]),
    ("entropy.covariance", "clip_cov", "coefficient=9.0", ["kl_cov"]),
]


@pytest.mark.parametrize(("choice", "chosen", "stated", "owners"), REFUSED)
def test_an_option_of_another_technique_is_refused(choice: str, chosen: str, stated: str, owners: list[str]) -> None:
    option, _, value = stated.partition("=")
    with pytest.raises(UsageError) as caught:
        # Any engine correction needs the trainer's log-probabilities.
        compose_train_config([f"{choice}={{type: {chosen}, {option}: {value}}}", "objective.old_logps=trainer"])
    message = str(caught.value)
    assert "1 error" in message
    assert f"{choice}.{option} is not an option of {chosen}; " in message
    for owner in owners:
        assert f"{choice}={{type: {owner}, {option}: ...}}" in message


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ("engine_correction={type: none, high: 5.0}", ["engine_correction.high is not", "type: tis, cap", "mis, high"]),
        ("engine_correction={type: tis, high: 5.0}", ["engine_correction.high is not", "type: tis, cap", "mis, high"]),
        ("objective.surrogate={type: dppo, clip_low: 0.1}", ["clip_low is not an option of dppo", "ppo_clip"]),
        ("objective.surrogate={type: gmpo, clip_low: 0.1}", ["clip_low is not an option of gmpo", "ppo_clip"]),
    ],
)
def test_options_that_have_another_name_elsewhere(argument: str, words: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        compose_train_config([argument])
    for word in ["1 error", *words]:
        assert word in str(caught.value)


WARNINGS = [
    (
        build(objective={"surrogate": {"clip_low": 1.5}}),
        "objective.surrogate.clip_low",
        ["never binds", "ratio is positive"],
    ),
    (
        build(objective={"surrogate": {"clip_low": 0.5, "clip_high": 0.1}}),
        "objective.surrogate.clip_low",
        ["clip_low=0.5 is above objective.surrogate.clip_high=0.1", "clip-higher", "0.2 and 0.28"],
    ),
    (
        build(objective={"surrogate": "gmpo"}),
        "objective.reduction",
        ["surrogate=gmpo with objective.reduction=token_mean", "by its length", "reduction=sequence_mean_token_mean"],
    ),
    (build(optimizer={"warmup_steps": 200}), "optimizer.warmup_steps", ["run.steps=200"]),
    (build(active_sampling={"filter": "none"}), "active_sampling.refill", ["nothing is refilled", "refill=false"]),
    (
        build(active_sampling={"max_prompts_per_step_factor": 1}),
        "active_sampling.max_prompts_per_step_factor",
        ["no problems to refill"],
    ),
    (
        build(rewards={"correctness": {"weight": 0}, "format": {"weight": 1}}),
        "active_sampling.filter",
        ["not rewarded", "filter=total"],
    ),
    (
        build(problems={"eval_problems": 0, "eval_samples_per_prompt": 2}),
        "problems.eval_samples_per_prompt",
        ["no effect", "problems.eval_problems=0"],
    ),
    (build(problems={"eval_problems": 0, "eval": "x.jsonl"}), "problems.eval", ["no effect"]),
    (build(problems={"train": "x.jsonl", "eval_problems": 8}), "problems.eval_problems", ["problems.eval=''"]),
    # Sampling and groups.
    (
        build(sampling={"top_p": 0.9}, objective=REINFORCE),
        "sampling.top_p",
        ["biased", "replay_mask=true"],
    ),
    (build(sampling={"top_k": 2000, "replay_mask": True}), "sampling.top_k", ["at most 1024 tokens are recorded"]),
    (
        build(advantage={"estimator": "reinforce_plus_plus"}, active_sampling={"filter": "none", "refill": False}),
        "advantage.estimator.unit",
        ["a group of equal rewards", "unit=answer", "filter=total"],
    ),
    (
        build(advantage={"estimator": {"type": "reinforce_plus_plus", "baseline": "none"}}),
        "active_sampling.filter",
        ["does have a gradient", "filter=none"],
    ),
    (
        build(rewards=SPANS, active_sampling=BY_TOTAL, off_policy_mask="sequence", batch={"epochs_per_step": 2}),
        "off_policy_mask",
        ["the sign of the mean advantage", "off_policy_mask=none"],
    ),
    (
        build(rewards=SPANS),
        "active_sampling.filter",
        ["all answers are right, or all wrong", "filter=total"],
    ),
    (
        build(advantage=TOKEN_BASELINE, off_policy_mask="sequence", batch={"epochs_per_step": 2}),
        "off_policy_mask",
        ["the sign of the mean advantage", "off_policy_mask=none"],
    ),
    (
        build(
            advantage={"estimator": {"type": "optimal_token_baseline", "tail": "return"}},
            active_sampling={"filter": "none", "refill": False},
        ),
        "advantage.estimator.tail",
        ["a group of equal rewards", "tail=zero"],
    ),
    (
        build(advantage={"estimator": "opo"}, batch={"epochs_per_step": 2}),
        "advantage.estimator",
        ["opo with 2 optimizer steps", "batch.epochs_per_step=1"],
    ),
    (
        build(advantage={"estimator": "gdpo"}, rewards={"format": {"weight": 0.5}}),
        "active_sampling.filter",
        ["filter=correctness with advantage.estimator=gdpo", "any_component"],
    ),
    (
        build(advantage={"estimator": "gdpo"}, active_sampling={"filter": "any_component"}),
        "advantage.estimator",
        ["correctness as the only rewarded component", "scale: group_std"],
    ),
    (build(advantage=NO_BASELINE), "active_sampling.filter", ["does have a gradient", "filter=none"]),
    (
        build(rewards={"format": {"weight": 1.0}}),
        "rewards.format.weight",
        ["a wrong answer can earn 1 (format)", "as much as the 1 of a right one", "requires=correctness"],
    ),
    (
        build(rewards={"format": {"type": "tag_order", "weight": 0.1}}),
        "rewards.format",
        ["for teaching", "empty or repeated block", "where the prompt opens the block", "rewards.format=think"],
    ),
    (build(advantage={"clip": 1.0}), "advantage.clip", ["never binds", "±1"]),
    (
        build(advantage={"clip": 5.0, "estimator": {"scale": "group_std"}}),
        "advantage.clip",
        ["8 samples", "±2.47"],
    ),
    # The policy term.
    (build(objective={"ratio": "none"}), "objective.ratio", ["always 1", "surrogate=reinforce"]),
    (
        build(objective={"surrogate": {"type": "dppo", "tv_low": 1.0}}),
        "objective.surrogate.tv_low",
        ["no probability falls by 1"],
    ),
    (
        build(objective={"surrogate": {"type": "dppo", "tv_high": 1.0}}),
        "objective.surrogate.tv_high",
        ["no probability rises by 1"],
    ),
    (
        build(objective={"surrogate": {"type": "seed_clip", "clip_high": 10.0}}),
        "objective.surrogate",
        ["for teaching", "beyond 11 is never corrected", "ppo_clip"],
    ),
    (
        build(objective={"ratio": "sequence_geometric_mean", "reduction": "sequence_mean_token_mean"}),
        "objective.surrogate.clip_high",
        ["token ratios", "0.28 away from 1 never binds", "clip_low=3e-4"],
    ),
    (
        build(objective={"ratio": "gspo_token", "surrogate": "cispo", "reduction": "sequence_mean_token_mean"}),
        "objective.surrogate.cap",
        ["4 away from 1 never binds"],
    ),
    (
        build(objective={"ratio": "sequence_geometric_mean", "surrogate": GSPO_CLIP}),
        "objective.reduction",
        ["reduction=token_mean", "GSPO weights every answer alike, LUSPO by its length"],
    ),
    (
        build(objective={"ratio": "sequence_product"}),
        "objective.ratio",
        ["512 tokens", "0.00048 nats a token", "sequence_geometric_mean"],
    ),
    (
        build(objective=REINFORCE, batch={"epochs_per_step": 2, "minibatches_per_step": 2}),
        "batch.epochs_per_step",
        ["4 optimizer steps", "nothing keeps the policy near"],
    ),
    (
        build(objective={"surrogate": "reinforce"}, batch={"minibatches_per_step": 4}),
        "batch.epochs_per_step",
        ["4 optimizer steps", "objective.ratio=token"],
    ),
    (build(model=REDUCED), "objective.old_logps", ["hundredth of a nat", "old_logps=trainer"]),
    (
        build(objective={**REINFORCE, "old_logps": "trainer"}),
        "objective.old_logps",
        ["nothing compares", "old_logps=sampler"],
    ),
    # Engine correction and off-policy mask.
    (
        build(engine_correction="tis", objective=TRAINER),
        "engine_correction",
        ["compute_dtype=float32", "1 up to rounding"],
    ),
    (build(off_policy_mask="sequence"), "off_policy_mask.reference", ["=sampler", "the mask never masks"]),
    (
        build(off_policy_mask={"type": "sequence", "reference": "old"}, model=REDUCED, objective=TRAINER),
        "off_policy_mask.reference",
        ["=old", "the mask never masks", "minibatches_per_step"],
    ),
    # KL.
    (
        build(kl={"coefficient": 0.1}, domains={"math": {"kl_coefficient": 0.0}}),
        "domains.math.kl_coefficient",
        ["domain math", "penalises nothing"],
    ),
    (
        build(kl={"coefficient": 0.1, "refresh_reference_every_steps": 200}),
        "kl.refresh_reference_every_steps",
        ["never refreshed"],
    ),
    (
        build(kl={"coefficient": 0.1, "estimator": "k1", "importance": "none"}),
        "kl.estimator",
        ["expected gradient is 0", "importance=token"],
    ),
    (
        build(kl={"coefficient": 0.1, "estimator": "k2"}),
        "kl.estimator",
        ["k2 with kl.importance=token", "importance=none"],
    ),
    (
        build(kl={"coefficient": 0.1, "importance": "none"}),
        "kl.estimator",
        ["reverse", "-19 at 3 nats", "kl.estimator=k2"],
    ),
    (
        build(kl={"coefficient": 0.1, "importance": "sequence_product"}),
        "kl.importance",
        ["512 tokens", "spread grows"],
    ),
    (
        build(
            kl={"coefficient": 0.1, "in_reward": True},
            objective={
                "ratio": "sequence_geometric_mean",
                "surrogate": GSPO_CLIP,
                "reduction": "sequence_mean_token_mean",
            },
        ),
        "kl.in_reward",
        ["differs from token to token", "gspo_token"],
    ),
    (build(entropy={"covariance": "kl_cov"}), "entropy.covariance", ["gradient is 0", "clip_cov"]),
    (
        build(sampling={"stop": ["\n\n", "</answer>"]}),
        "sampling.stop",
        ["[</answer>]", "before the closing tag", "set sampling.keep_stop=true"],
    ),
    (
        build(objective={"surrogate": {"type": "cispo", "cap": 0.2}}),
        "objective.surrogate.cap",
        ["absolute", "weighted 0.2"],
    ),
    (build(objective={"surrogate": {"type": "cispo", "floor": 1.5}}), "objective.surrogate.floor", ["weighted 1.5"]),
    (
        build(engine_correction={"type": "tis", "cap": 0.2}, objective=TRAINER, model=REDUCED),
        "engine_correction.cap",
        ["absolute", "weighted 0.2 instead of 1"],
    ),
]


@pytest.mark.parametrize(
    ("config", "key", "words"), WARNINGS, ids=[f"{key}-{i}" for i, (_, key, _) in enumerate(WARNINGS)]
)
def test_warnings(config: TrainConfig, key: str, words: list[str]) -> None:
    (finding,) = contradictions(config)
    assert finding.level == "warning"
    assert finding.keys[0] == key
    for word in [key, *words]:
        assert word in finding.message


@pytest.mark.parametrize(
    "config",
    [
        build(active_sampling={"filter": "none", "refill": False}),
        build(active_sampling={"refill": False, "max_prompts_per_step_factor": 4.0}),
        build(rewards={"correctness": {"weight": 0}, "format": {"weight": 1, "requires": "correctness"}}),
        build(rewards={"format": {"requires": ""}}),
        build(problems={"train": "x.jsonl", "columns": {"answer": "gold"}}),
        build(problems={"eval": "x.jsonl", "columns": {"answer": "gold"}, "eval_every_steps": 5}),
        build(problems={"train": "x.jsonl"}),
        build(problems={"eval_problems": 0, "eval_samples_per_prompt": 8, "eval_every_steps": 0}),
        build(objective={"reduction": {"type": "constant_length", "tokens": 9}}),
        build(advantage={"estimator": {"scale": "group_std", "std_ddof": 0, "std_epsilon": 1e-6}}),
        build(advantage={"estimator": {"std_ddof": 1, "std_epsilon": 1e-4}}),
        build(optimizer={"schedule": "cosine", "final_lr_fraction": 0.1, "warmup_steps": 199}),
        build(batch={"minibatches_per_step": 4, "prompts_per_step": 4}),
        build(sampling={"top_p": 0.9, "top_k": 1024, "replay_mask": True}),
        build(advantage={"estimator": {"type": "pass_at_k", "k": 7}}),
        build(advantage={"estimator": "gdpo"}, rewards=FORMAT, active_sampling={"filter": "any_component"}),
        build(advantage=NO_BASELINE, batch={"samples_per_prompt": 1}, active_sampling=ALL_GROUPS),
        build(advantage={"clip": 2.0, "estimator": {"scale": "group_std"}}),
        build(objective=REINFORCE),
        build(objective={"surrogate": {"type": "cispo", "cap": 2.0, "floor": 0.5}}, batch={"epochs_per_step": 4}),
        build(
            objective={
                "surrogate": {"type": "gmpo", "log_clip_low": 1.5, "log_clip_high": 0.4},
                "reduction": "sequence_mean_token_mean",
            }
        ),
        build(objective={"surrogate": {"clip_low": 0.3, "clip_high": 0.3}}),
        build(objective={"surrogate": {"type": "vespo", "k_positive": 1.0}, "ratio": "sequence_product"}),
        build(objective={"surrogate": "dppo", "ratio": "none"}, batch={"epochs_per_step": 4}),
        build(rewards={"format": {"type": "tag_order"}}),
        build(objective={"surrogate": {"dual_clip": 3.0}}),
        build(engine_correction={"type": "mis", "high": 5.0}, objective=TRAINER, model=REDUCED),
        build(off_policy_mask="sequence", batch={"minibatches_per_step": 4}),
        build(off_policy_mask="sequence", model=REDUCED, objective=TRAINER),
        build(kl={"coefficient": 0.1}),
        build(kl={"coefficient": 0.1, "estimator": "k1"}),
        build(kl={"coefficient": 0.1, "estimator": "k2", "importance": "none", "reduction": "token_mean"}),
        build(kl={"coefficient": 0.1, "in_reward": True, "refresh_reference_every_steps": 5}),
        build(
            domains={"code": {"kl_coefficient": 0.1}, "math": {"kl_coefficient": 0.0}}, problems={"train": "x.jsonl"}
        ),
        build(
            entropy={"bonus": {"type": "target", "target_nats": 0.5, "coefficient_step": 0.1, "max_coefficient": 0.5}}
        ),
        build(entropy={"covariance": {"type": "clip_cov", "fraction": 0.1, "low": -1.0}}),
        build(entropy={"covariance": {"type": "kl_cov", "coefficient": 0.5}}, batch={"epochs_per_step": 2}),
        build(
            rewards={"overlong": {"buffer_tokens": 512}, "correctness": {"weight": 0.0}},
            active_sampling=ALL_GROUPS,
        ),
    ],
)
def test_what_is_right_and_what_equals_the_default_passes(config: TrainConfig) -> None:
    assert contradictions(config) == []


def test_all_at_once() -> None:
    config = build(
        batch={"samples_per_prompt": 1, "prompts_per_step": 1, "minibatches_per_step": 2},
        advantage={"estimator": {"std_ddof": 0}},
        rewards={"format": {"requires": "correctness"}},
    )
    keys = [finding.keys[0] for finding in contradictions(config)]
    assert keys == [
        "batch.samples_per_prompt",
        "batch.minibatches_per_step",
        "rewards.format.requires",
        "advantage.estimator.std_ddof",
    ]
    with pytest.raises(UsageError, match="4 errors"):
        compose_train_config(
            [
                "batch.samples_per_prompt=1",
                "batch={prompts_per_step: 1, minibatches_per_step: 2}",
                "advantage.estimator.std_ddof=0",
                "rewards.format.requires=correctness",
            ]
        )


ONCE, TWICE = {"minibatches_per_step": 1}, {"minibatches_per_step": 2}


@pytest.mark.parametrize(
    ("config", "idle"),
    [
        (build(), ["clip_low", "clip_high", "dual_clip"]),
        (build(batch=TWICE), []),
        (build(batch={"epochs_per_step": 2}), []),
        # The engine's rounding is in the ratio, unless the trainer scores the answers itself.
        (build(model=REDUCED), []),
        (build(model=REDUCED, objective=TRAINER), ["clip_low", "clip_high", "dual_clip"]),
        (build(model=REDUCED, objective=TRAINER, batch=TWICE), []),
        (build(objective={"surrogate": "sapo"}), ["temperature_positive", "temperature_negative"]),
        (build(objective={"surrogate": "dppo", "ratio": "none"}), ["tv_low", "tv_high"]),
        (build(objective={"surrogate": "cispo"}), ["cap", "floor"]),
        (build(objective={"surrogate": {"type": "cispo", "cap": 0.2}}), []),
        (build(objective={"surrogate": "reinforce"}), []),
        # Said by a warning, whatever the number of steps.
        (build(objective={"ratio": "none"}), []),
    ],
)
def test_bounds_that_wait_for_a_second_update(config: TrainConfig, idle: list[str]) -> None:
    found = notes(config)
    keys = [key.rpartition(".")[2] for finding in found for key in finding.keys if key.startswith("objective.")]
    assert keys == idle
    assert all(finding.level == "note" and "every ratio is 1" in finding.message for finding in found)


@pytest.mark.parametrize("name", list(list_recipes()))
def test_a_recipe_with_one_update_says_that_its_bounds_do_nothing(name: str) -> None:
    config = compose_train_config([name])
    assert bool(notes(config)) == (config.ratio_is_one and config.objective.surrogate.bounds_ratio)
    assert name != "olmo3" or notes(config)


def test_supervised() -> None:
    config = SftConfig(data="a", output="b", schedule="constant", final_lr_fraction=0.5, muon_lr=0.1, warmup_steps=1000)
    findings = {finding.keys[0]: finding for finding in contradictions(config)}
    assert set(findings) == {"final_lr_fraction", "muon_lr", "warmup_steps"}
    assert "optimizer=muon" in findings["muon_lr"].message
    assert findings["warmup_steps"].level == "warning"
    assert compose_sft_config(["data=a", "output=b", "schedule=constant"]).final_lr_fraction == 0.05
    assert isinstance(findings["muon_lr"], Finding)


@pytest.mark.parametrize(
    ("config", "parts"),
    [
        (
            build(guards={"engine_gap": "warn"}, sampling={"top_p": 0.9}, objective=REINFORCE),
            ["guards.engine_gap=warn has no effect with sampling.replay_mask=false", "sampling.replay_mask=true"],
        ),
        (
            build(guards={"engine_gap_factor": 3.0}),
            ["guards.engine_gap_factor=3.0 has no effect with model.compute_dtype=float32", "bfloat16"],
        ),
        (
            build(guards={"constant_reward": "stop"}),
            ["guards.constant_reward=stop has no effect", "rewards.functions"],
        ),
    ],
)
def test_a_guard_without_anything_to_watch_is_refused(config: TrainConfig, parts: list[str]) -> None:
    (message,) = [f.message for f in contradictions(config) if f.level == "error" and f.keys[0].startswith("guards.")]
    assert all(part in message for part in parts)
