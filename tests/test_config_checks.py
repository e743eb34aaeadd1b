"""The checks between options: each names its keys, its reason and what to do."""

import pytest

from groupwise.compose import compose_sft_config, compose_train_config
from groupwise.config import SftConfig, TrainConfig
from groupwise.config_checks import Finding, contradictions
from groupwise.errors import UsageError


def build(**sections: dict[str, object]) -> TrainConfig:
    return TrainConfig.model_validate(sections)


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
    (build(rewards={"format_when": "correct"}), "rewards.format_when", ["rewards.format_weight=0", "a weight"]),
    (
        build(rewards={"correctness_weight": 0}),
        "rewards.correctness_weight",
        ["nothing is paid", "rewards.format_weight=0"],
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
        build(rewards={"correctness_weight": 0, "format_weight": 1}),
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
        build(rewards={"correctness_weight": 0, "format_weight": 1, "format_when": "correct"}),
        build(rewards={"format_when": "always"}),
        build(problems={"train": "x.jsonl", "columns": {"answer": "gold"}}),
        build(problems={"eval": "x.jsonl", "columns": {"answer": "gold"}, "eval_every_steps": 5}),
        build(problems={"train": "x.jsonl"}),
        build(problems={"eval_problems": 0, "eval_samples_per_prompt": 8, "eval_every_steps": 0}),
        build(objective={"reduction": "constant_length", "constant_length_tokens": 9}),
        build(advantage={"scale": "group_std", "std_ddof": 0, "std_epsilon": 1e-6}),
        build(advantage={"std_ddof": 1, "std_epsilon": 1e-4}),
        build(optimizer={"schedule": "cosine", "final_lr_fraction": 0.1, "warmup_steps": 199}),
        build(batch={"minibatches_per_step": 4, "prompts_per_step": 4}),
    ],
)
def test_what_is_right_and_what_equals_the_default_passes(config: TrainConfig) -> None:
    assert contradictions(config) == []


def test_all_at_once() -> None:
    config = build(
        batch={"samples_per_prompt": 1, "prompts_per_step": 1, "minibatches_per_step": 2},
        advantage={"std_ddof": 0},
        rewards={"format_when": "correct"},
    )
    keys = [finding.keys[0] for finding in contradictions(config)]
    assert keys == [
        "batch.samples_per_prompt",
        "batch.minibatches_per_step",
        "rewards.format_when",
        "advantage.std_ddof",
    ]
    with pytest.raises(UsageError, match="4 errors"):
        compose_train_config(
            [
                "batch.samples_per_prompt=1",
                "batch={prompts_per_step: 1, minibatches_per_step: 2}",
                "advantage.std_ddof=0",
                "rewards.format_when=correct",
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
