"""The checks between options: each names its keys, its reason and what to do."""

from collections.abc import Mapping

import pytest

from groupwise.config import SftConfig, TrainConfig
from groupwise.config.checks import Finding, contradictions
from groupwise.config.compose import compose_sft_config, compose_train_config
from groupwise.errors import UsageError


def build(**sections: Mapping[str, object]) -> TrainConfig:
    return TrainConfig.model_validate(sections)


REINFORCE = {"ratio": "none", "surrogate": "reinforce"}
TRAINER = {"old_logps": "trainer"}
REDUCED = {"compute_dtype": "bfloat16"}
FORMAT = {"format": {"weight": 0.5}}
ALL_GROUPS = {"filter": "none", "refill": False}


def test_the_defaults_have_no_findings() -> None:
    assert contradictions(TrainConfig()) == []
    assert contradictions(SftConfig(data="a", output="b")) == []


ERRORS = [
    (build(batch={"samples_per_prompt": 1}), "batch.samples_per_prompt", ["advantage 0", "at least 2 samples"]),
    (
        build(batch={"minibatches_per_step": 5, "prompts_per_step": 4}),
        "batch.minibatches_per_step",
        ["=5 is more than", "=4", "take at most 4"],
    ),
    (
        build(objective={"constant_length_tokens": 9}),
        "objective.constant_length_tokens",
        ["=9 has no effect with objective.reduction=token_mean", "objective.reduction=constant_length", "default, 0"],
    ),
    (build(advantage={"std_ddof": 0}), "advantage.std_ddof", ["advantage.scale=none", "group_std", "default, 1"]),
    (build(advantage={"std_epsilon": 0.5}), "advantage.std_epsilon", ["no effect", "advantage.scale=none"]),
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
        build(advantage={"scale": "group_std"}, batch={"samples_per_prompt": 1}),
        "advantage.std_ddof",
        ["G-1", "std_ddof=0"],
    ),
    # Sampling from a part of the vocabulary.
    (
        build(sampling={"top_p": 0.9}),
        "sampling.top_p",
        [
            "keep_mask=none",
            "0.105 nats a token",
            "53.9 nats over 512 tokens",
            "objective.ratio=token",
            "keep_mask=replay",
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
            engine_correction={"form": "truncate"},
        ),
        "sampling.top_k",
        ["engine_correction.form=truncate compares"],
    ),
    (build(sampling={"keep_mask": "replay"}), "sampling.keep_mask", ["no set to record", "keep_mask=none"]),
    # Groups and rewards.
    *[
        (
            build(batch={"samples_per_prompt": 1}, advantage=how),
            "batch.samples_per_prompt",
            [word, "nothing is learned"],
        )
        for how, word in (
            ({"baseline": "leave_one_out"}, "baseline=leave_one_out"),
            ({"estimator": "max_rl"}, "estimator=max_rl"),
            ({"estimator": "pass_at_k", "pass_k": 1}, "estimator=pass_at_k"),
        )
    ],
    (
        build(batch={"samples_per_prompt": 1}, advantage={"baseline": "none"}),
        "active_sampling.filter",
        ["group of one nothing differs", "filter=none"],
    ),
    (
        build(active_sampling={"retire_pass_rate": 0.875}),
        "active_sampling.retire_pass_rate",
        ["=0.875 has no effect with problems.train=arithmetic", "train on a file"],
    ),
    (
        build(rewards={"overlong": {"buffer_tokens": 513}}),
        "rewards.overlong.buffer_tokens",
        ["=513 is more than sampling.max_new_tokens=512"],
    ),
    # Advantages.
    (
        build(advantage={"estimator": "max_rl", "baseline": "leave_one_out"}),
        "advantage.baseline",
        ["no effect with advantage.estimator=max_rl", "estimator=group"],
    ),
    (
        build(advantage={"estimator": "gdpo", "scale": "group_std"}),
        "advantage.scale",
        ["no effect with advantage.estimator=gdpo"],
    ),
    (
        build(advantage={"baseline": "none", "scale": "group_std"}),
        "advantage.scale",
        ["divided by 0", "advantage.baseline=none"],
    ),
    (
        build(advantage={"estimator": "pass_at_k", "std_ddof": 0}),
        "advantage.std_ddof",
        ["no effect with advantage.estimator=pass_at_k"],
    ),
    (build(advantage={"pass_k": 2}), "advantage.pass_k", ["no effect with advantage.estimator=group", "pass_at_k"]),
    (
        build(advantage={"estimator": "pass_at_k", "pass_k": 9}),
        "advantage.pass_k",
        ["=9 is more than batch.samples_per_prompt=8"],
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
    # The policy term.
    *[
        (build(objective=options), f"objective.{key}", [f"objective.surrogate={surrogate}", "set objective.surrogate="])
        for options, key, surrogate in (
            ({"surrogate": "cispo", "clip_low": 0.1}, "clip_low", "cispo"),
            ({"surrogate": "cispo", "clip_high": 0.5}, "clip_high", "cispo"),
            ({"surrogate": "sapo", "clip_high": 0.5}, "clip_high", "sapo"),
            ({"surrogate": "seed_clip", "clip_low": 0.1}, "clip_low", "seed_clip"),
            ({"surrogate": "cispo", "dual_clip": 3.0}, "dual_clip", "cispo"),
            ({"cispo_cap": 2.0}, "cispo_cap", "ppo_clip"),
            ({"cispo_floor": 0.5}, "cispo_floor", "ppo_clip"),
            ({"sapo_temperature_positive": 2.0}, "sapo_temperature_positive", "ppo_clip"),
            ({"sapo_temperature_negative": 2.0}, "sapo_temperature_negative", "ppo_clip"),
            ({"vespo_k_positive": 1.0}, "vespo_k_positive", "ppo_clip"),
            ({"vespo_lambda_positive": 1.0}, "vespo_lambda_positive", "ppo_clip"),
            ({"vespo_k_negative": 1.0}, "vespo_k_negative", "ppo_clip"),
            ({"vespo_lambda_negative": 1.0}, "vespo_lambda_negative", "ppo_clip"),
        )
    ],
    (
        build(objective={"ratio": "none", "clip_high": 0.5}),
        "objective.clip_high",
        ["no effect with objective.ratio=none", "objective.ratio=token"],
    ),
    (
        build(objective={"surrogate": "gmpo", "ratio": "sequence_product"}),
        "objective.ratio",
        ["surrogate=gmpo with objective.ratio=sequence_product", "set objective.ratio=token"],
    ),
    (build(objective={"surrogate": "vespo"}), "objective.ratio", ["set objective.ratio=sequence_product"]),
    (build(objective={"dual_clip": 0.8}), "objective.dual_clip", ["not above 1", "usual value is 3"]),
    (
        build(objective={"surrogate": "cispo", "cispo_floor": 5.0}),
        "objective.cispo_floor",
        ["not below objective.cispo_cap=5.0"],
    ),
    # Engine correction and off-policy mask.
    *[
        (
            build(engine_correction={key: value}),
            f"engine_correction.{key}",
            ["no effect with engine_correction.form=none"],
        )
        for key, value in (("level", "sequence_product"), ("low", 0.1), ("high", 5.0))
    ],
    (
        build(engine_correction={"form": "truncate", "low": 0.1}, objective=TRAINER, model=REDUCED),
        "engine_correction.low",
        ["no effect with engine_correction.form=truncate", "form=band"],
    ),
    (
        build(engine_correction={"form": "band", "low": 2.0}, objective=TRAINER, model=REDUCED),
        "engine_correction.low",
        ["not below engine_correction.high=2.0", "0.5 and 5"],
    ),
    (
        build(engine_correction={"form": "truncate"}),
        "engine_correction.form",
        ["old_logps=sampler", "exactly 1", "old_logps=trainer"],
    ),
    (
        build(off_policy_mask={"threshold_nats": 0.2}),
        "off_policy_mask.threshold_nats",
        ["no effect with off_policy_mask.against=none"],
    ),
    # KL.
    *[
        (build(kl={key: value}), f"kl.{key}", ["no effect with kl.coefficient=0"])
        for key, value in (
            ("estimator", "k2"),
            ("importance", "none"),
            ("placement", "reward"),
            ("reduction", "token_mean"),
            ("refresh_reference_every_steps", 5),
        )
    ],
    (build(domains={"math": {"kl_coefficient": 0.0}}), "domains.math.kl_coefficient", ["every coefficient is 0"]),
    *[
        (
            build(kl={"coefficient": 0.1, "placement": "reward", key: value}),
            f"kl.{key}",
            ["no effect with kl.placement=reward"],
        )
        for key, value in (("estimator", "k1"), ("importance", "none"), ("reduction", "token_mean"))
    ],
    # Entropy.
    *[
        (build(entropy={key: value}), f"entropy.{key}", ["no effect with entropy.target_nats=0"])
        for key, value in (("coefficient_step", 0.1), ("max_coefficient", 0.5))
    ],
    (
        build(entropy={"target_nats": 0.5, "coefficient": 2.0}),
        "entropy.coefficient",
        ["above entropy.max_coefficient=1.0"],
    ),
    *[
        (build(entropy=options), f"entropy.{key}", [f"no effect with entropy.covariance={covariance}"])
        for options, key, covariance in (
            ({"covariance_share": 0.1}, "covariance_share", "none"),
            ({"clip_cov_low": 0.1}, "clip_cov_low", "none"),
            ({"covariance": "kl_cov", "clip_cov_high": 9.0}, "clip_cov_high", "kl_cov"),
            ({"covariance": "clip_cov", "kl_cov_coefficient": 9.0}, "kl_cov_coefficient", "clip_cov"),
        )
    ],
    (
        build(entropy={"covariance": "clip_cov", "covariance_share": 0.0}),
        "entropy.covariance_share",
        ["at least one token is picked"],
    ),
    (
        build(entropy={"covariance": "clip_cov", "clip_cov_low": 5.0}),
        "entropy.clip_cov_low",
        ["not below entropy.clip_cov_high=5.0"],
    ),
]


@pytest.mark.parametrize(("config", "key", "words"), ERRORS, ids=[f"{key}-{i}" for i, (_, key, _) in enumerate(ERRORS)])
def test_errors(config: TrainConfig, key: str, words: list[str]) -> None:
    (message,) = [f.message for f in contradictions(config) if f.level == "error" and f.keys[0] == key]
    for word in [key, *words]:
        assert word in message


WARNINGS = [
    (build(objective={"clip_low": 1.5}), "objective.clip_low", ["never binds", "ratio is positive"]),
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
        ["not paid", "filter=total"],
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
        ["biased", "keep_mask=replay"],
    ),
    (build(sampling={"top_k": 2000, "keep_mask": "replay"}), "sampling.top_k", ["at most 1024 tokens are recorded"]),
    (
        build(advantage={"estimator": "gdpo"}, rewards={"format": {"weight": 0.5}}),
        "active_sampling.filter",
        ["filter=correctness with advantage.estimator=gdpo", "any_component"],
    ),
    (
        build(advantage={"estimator": "gdpo"}, active_sampling={"filter": "any_component"}),
        "advantage.estimator",
        ["correctness as the only reward with a weight", "scale=group_std"],
    ),
    (build(advantage={"baseline": "none"}), "active_sampling.filter", ["does have a gradient", "filter=none"]),
    (
        build(rewards={"format": {"weight": 1.0}}),
        "rewards.format.weight",
        ["a wrong answer can earn 1 (format)", "as much as the 1 of a right one", "requires=correctness"],
    ),
    (build(advantage={"clip": 1.0}), "advantage.clip", ["never binds", "±1"]),
    (
        build(advantage={"clip": 5.0, "scale": "group_std"}),
        "advantage.clip",
        ["8 samples", "±2.47"],
    ),
    # The policy term.
    (build(objective={"ratio": "none"}), "objective.ratio", ["always 1", "surrogate=reinforce"]),
    (build(objective={"surrogate": "dppo", "clip_low": 1.0}), "objective.clip_low", ["no probability falls by 1"]),
    (build(objective={"surrogate": "dppo", "clip_high": 1.0}), "objective.clip_high", ["no probability rises by 1"]),
    (
        build(objective={"surrogate": "seed_clip", "clip_high": 10.0}),
        "objective.surrogate",
        ["for teaching", "beyond 11 is never corrected", "ppo_clip"],
    ),
    (
        build(objective={"ratio": "sequence_geometric_mean", "reduction": "sequence_mean_token_mean"}),
        "objective.clip_high",
        ["token ratios", "0.28 away from 1 never binds", "clip_low=3e-4"],
    ),
    (
        build(objective={"ratio": "gspo_token", "surrogate": "cispo", "reduction": "sequence_mean_token_mean"}),
        "objective.cispo_cap",
        ["4 away from 1 never binds"],
    ),
    (
        build(objective={"ratio": "sequence_geometric_mean", "clip_low": 3e-4, "clip_high": 4e-4}),
        "objective.reduction",
        ["reduction=token_mean", "sequence_mean_token_mean"],
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
        build(engine_correction={"form": "truncate"}, objective=TRAINER),
        "engine_correction.form",
        ["compute_dtype=float32", "1 up to rounding"],
    ),
    (build(off_policy_mask={"against": "sampler"}), "off_policy_mask.against", ["the mask never masks"]),
    (
        build(off_policy_mask={"against": "old"}, model=REDUCED, objective=TRAINER),
        "off_policy_mask.against",
        ["the mask never masks", "minibatches_per_step"],
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
            kl={"coefficient": 0.1, "placement": "reward"},
            objective={
                "ratio": "sequence_geometric_mean",
                "clip_low": 3e-4,
                "clip_high": 4e-4,
                "reduction": "sequence_mean_token_mean",
            },
        ),
        "kl.placement",
        ["differs from token to token", "gspo_token"],
    ),
    (build(entropy={"covariance": "kl_cov"}), "entropy.covariance", ["gradient is 0", "clip_cov"]),
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
        build(objective={"reduction": "constant_length", "constant_length_tokens": 9}),
        build(advantage={"scale": "group_std", "std_ddof": 0, "std_epsilon": 1e-6}),
        build(advantage={"std_ddof": 1, "std_epsilon": 1e-4}),
        build(optimizer={"schedule": "cosine", "final_lr_fraction": 0.1, "warmup_steps": 199}),
        build(batch={"minibatches_per_step": 4, "prompts_per_step": 4}),
        build(sampling={"top_p": 0.9, "top_k": 1024, "keep_mask": "replay"}),
        build(advantage={"estimator": "pass_at_k", "pass_k": 8}),
        build(advantage={"estimator": "gdpo"}, rewards=FORMAT, active_sampling={"filter": "any_component"}),
        build(advantage={"baseline": "none"}, batch={"samples_per_prompt": 1}, active_sampling=ALL_GROUPS),
        build(advantage={"clip": 2.0, "scale": "group_std"}),
        build(objective=REINFORCE),
        build(objective={"surrogate": "cispo", "cispo_cap": 2.0, "cispo_floor": 0.5}, batch={"epochs_per_step": 4}),
        build(objective={"surrogate": "gmpo", "clip_low": 1.5, "clip_high": 0.4}),
        build(objective={"surrogate": "vespo", "ratio": "sequence_product", "vespo_k_positive": 1.0}),
        build(objective={"surrogate": "dppo", "ratio": "none"}, batch={"epochs_per_step": 4}),
        build(objective={"dual_clip": 3.0}),
        build(engine_correction={"form": "band", "high": 5.0}, objective=TRAINER, model=REDUCED),
        build(off_policy_mask={"against": "sampler"}, batch={"minibatches_per_step": 4}),
        build(off_policy_mask={"against": "sampler"}, model=REDUCED, objective=TRAINER),
        build(kl={"coefficient": 0.1}),
        build(kl={"coefficient": 0.1, "estimator": "k1"}),
        build(kl={"coefficient": 0.1, "estimator": "k2", "importance": "none", "reduction": "token_mean"}),
        build(kl={"coefficient": 0.1, "placement": "reward", "refresh_reference_every_steps": 5}),
        build(
            domains={"code": {"kl_coefficient": 0.1}, "math": {"kl_coefficient": 0.0}}, problems={"train": "x.jsonl"}
        ),
        build(entropy={"target_nats": 0.5, "coefficient_step": 0.1, "max_coefficient": 0.5}),
        build(entropy={"covariance": "clip_cov", "covariance_share": 0.1, "clip_cov_low": -1.0}),
        build(entropy={"covariance": "kl_cov", "kl_cov_coefficient": 0.5}, batch={"epochs_per_step": 2}),
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
        advantage={"std_ddof": 0},
        rewards={"format": {"requires": "correctness"}},
    )
    keys = [finding.keys[0] for finding in contradictions(config)]
    assert keys == [
        "batch.samples_per_prompt",
        "batch.minibatches_per_step",
        "rewards.format.requires",
        "advantage.std_ddof",
    ]
    with pytest.raises(UsageError, match="4 errors"):
        compose_train_config(
            [
                "batch.samples_per_prompt=1",
                "batch={prompts_per_step: 1, minibatches_per_step: 2}",
                "advantage.std_ddof=0",
                "rewards.format.requires=correctness",
            ]
        )


def test_supervised() -> None:
    config = SftConfig(data="a", output="b", schedule="constant", final_lr_fraction=0.5, muon_lr=0.1, warmup_steps=1000)
    findings = {finding.keys[0]: finding for finding in contradictions(config)}
    assert set(findings) == {"final_lr_fraction", "muon_lr", "warmup_steps"}
    assert "optimizer=muon" in findings["muon_lr"].message
    assert findings["warmup_steps"].level == "warning"
    assert compose_sft_config(["data=a", "output=b", "schedule=constant"]).final_lr_fraction == 0.05
    assert isinstance(findings["muon_lr"], Finding)
