"""The recipes: the values of their sources, their techniques, their warnings, and that each of them trains."""

import functools
import json
import operator
from pathlib import Path

import pytest
from rich.console import Console

from groupwise.config.checks import contradictions
from groupwise.config.compose import compose_train_config, list_recipes
from groupwise.explaining.report import describe_recipes
from groupwise.explaining.techniques import cards_of
from groupwise.track.console import ConsoleTracker
from groupwise.training import run as main
from tests.support.commands import groupwise

TECHNIQUES = {
    "grpo": [12],
    "r1": [12],
    "dapo": [1, 2, 3, 4, 5, 12],
    "dr_grpo": [4, 7],
    "gspo": [4, 5, 12, 14],
    "luspo": [4, 5, 12, 14],
    "cispo": [1, 2, 3, 4, 12, 15],
    "fipo": [1, 2, 3, 4, 5, 12],
    "aspo": [3, 12],
    "ce_gppo": [1, 2, 3, 4, 12],
    "gdpo": [1, 2, 4, 13],
    "opo": [3, 4],
    "m2po": [3, 4, 12],
    "reinforce_plus_plus": [3],
    "bapo": [3, 4, 11, 12],
    "real": [4],
    "olmo3": [1, 2, 3, 4, 5, 6, 7],
    "deepseek_v32": [7, 8, 9, 10, 11],
    # As printed they name 1 to 7 and 8 to 12; what is printed for 5 and 6 is something else.
    "seed_olmo3": [1, 2, 3, 4, 7],
    "seed_deepseek_v32": [8, 9, 10, 11, 12],
    "demo": [1, 2, 3, 4, 5, 7],
}

WARNINGS = {
    "grpo": ["kl.estimator"],
    "aspo": ["kl.estimator"],
    "r1": ["rewards.format.weight", "objective.surrogate.clip_low", "kl.estimator"],
    # Its mean over tokens gives a group of equal rewards an advantage.
    "reinforce_plus_plus": ["advantage.estimator.unit"],
    # The lower bound of the authors' sums takes the balance away from the target.
    "bapo": ["objective.surrogate.contributions"],
    # Engine and trainer agree until model.compute_dtype=bfloat16.
    "olmo3": ["engine_correction"],
    # Generated sums are all of one domain.
    "deepseek_v32": ["domains.math.kl_coefficient"],
    "seed_olmo3": ["objective.surrogate"],
    "seed_deepseek_v32": [
        "domains.code.rewards",
        "objective.ratio",
        "objective.surrogate",
        "off_policy_mask.reference",
        "domains.math.kl_coefficient",
        "kl.importance",
    ],
}
"""Every other recipe has none."""

VALUES: dict[str, dict[str, object]] = {
    "grpo": {
        "batch.samples_per_prompt": 64,
        "batch.prompts_per_step": 16,
        "kl.coefficient": 0.04,
        "kl.estimator": "k3",
        "kl.importance": "none",
        "objective.reduction": "sequence_mean_token_mean",
        "sampling.max_new_tokens": 1024,
        "optimizer.lr": 1e-6,
    },
    "r1": {
        "objective.surrogate.clip_low": 10.0,
        "objective.surrogate.clip_high": 10.0,
        "kl.coefficient": 0.001,
        "optimizer.lr": 3e-6,
        "batch.samples_per_prompt": 16,
        "batch.prompts_per_step": 8192 // 16,
        "batch.minibatches_per_step": 16,
        "kl.refresh_reference_every_steps": 400 // 16,
        "rewards.language.weight": 1.0,
    },
    "dapo": {
        "objective.surrogate.clip_low": 0.2,
        "objective.surrogate.clip_high": 0.28,
        "batch.prompts_per_step": 512,
        "batch.samples_per_prompt": 16,
        "batch.minibatches_per_step": 16,
        "rewards.overlong.buffer_tokens": 4096,
        "sampling.max_new_tokens": 16384 + 4096,
        "optimizer.warmup_steps": 20,
    },
    "dr_grpo": {
        "objective.surrogate.clip_high": 0.2,
        "objective.reduction.type": "constant_length",
        "sampling.max_new_tokens": 3000,
        "batch.samples_per_prompt": 8,
        "advantage.estimator.scale": "none",
    },
    "gspo": {
        "objective.surrogate.clip_low": 3e-4,
        "objective.surrogate.clip_high": 4e-4,
        "batch.minibatches_per_step": 4,
    },
    "luspo": {
        "objective.ratio": "sequence_geometric_mean",
        "objective.reduction": "sequence_mean_token_sum",
        "objective.surrogate.clip_low": 2e-3,
        "objective.surrogate.clip_high": 2.5e-3,
        "advantage.estimator.scale": "group_std",
        "batch.prompts_per_step": 128,
        "batch.samples_per_prompt": 8,
        "batch.minibatches_per_step": 128 // 16,
        "optimizer.lr": 1e-6,
    },
    "cispo": {
        "objective.surrogate.type": "cispo",
        "objective.surrogate.cap": 5.0,
        "objective.surrogate.floor": 0.0,
        "objective.reduction": "token_mean",
    },
    "aspo": {
        "objective.surrogate": {"type": "aspo", "clip_low": 0.2, "clip_high": 0.2, "cap": 3.0},
        "batch.samples_per_prompt": 16,
        "batch.epochs_per_step": 3,
        "sampling.max_new_tokens": 32768,
        "kl.coefficient": 0.001,
        "optimizer.weight_decay": 0.1,
    },
    "ce_gppo": {
        "objective.surrogate": {
            "type": "ce_gppo",
            "clip_low": 0.2,
            "clip_high": 0.2,
            "dual_clip": 10.0,
            "coefficient_low": 0.75,
            "coefficient_high": 1.0,
        },
        "batch.prompts_per_step": 128,
        "batch.samples_per_prompt": 8,
        "batch.minibatches_per_step": 8,
        "sampling.max_new_tokens": 16384,
    },
    "fipo": {
        "objective.surrogate": {
            "type": "fipo",
            "clip_low": 0.2,
            "clip_high": 0.28,
            "dual_clip": 10.0,
            "half_life_tokens": 32.0,
            "influence_low": 1.0,
            "influence_high": 1.2,
            "safety_ratio": 10.0,
            "safety": "set",
        },
        "batch.prompts_per_step": 8 * 64,
        "batch.minibatches_per_step": 8,
    },
    "gdpo": {"advantage.estimator.type": "gdpo", "active_sampling.filter": "any_component"},
    "m2po": {
        "objective.surrogate": "reinforce",
        "objective.reduction": "token_mean",
        "off_policy_mask": {"type": "m2po", "reference": "sampler", "threshold": 0.04},
        "advantage.estimator.scale": "group_std",
    },
    "opo": {
        "advantage.estimator": "opo",
        "batch.minibatches_per_step": 1,
        "batch.epochs_per_step": 1,
        "objective.ratio": "none",
        "kl.coefficient": 0.0,
    },
    "reinforce_plus_plus": {
        "advantage.estimator.baseline": "group_mean",
        "advantage.estimator.unit": "token",
        "advantage.estimator.std_ddof": 0,
        "objective.surrogate.clip_low": 0.2,
        "objective.surrogate.clip_high": 0.2,
        "kl.estimator": "k2",
    },
    "real": {
        "objective.surrogate.temperature": 0.5,
        "objective.reduction": "sequence_mean_token_mean",
        "batch.samples_per_prompt": 8,
        "batch.minibatches_per_step": 128 // 32,
        "sampling.temperature": 0.6,
        "optimizer.lr": 2e-6,
    },
    "bapo": {
        "objective.surrogate.target": 0.5,
        "objective.surrogate.balance": "odds",
        "objective.surrogate.low_end": 0.95,
        "objective.surrogate.high_end": 2.0,
        "batch.minibatches_per_step": 256 // 64,
        "batch.epochs_per_step": 2,
        "optimizer.lr": 1e-6,
    },
    "olmo3": {
        "objective.surrogate.clip_low": 0.2,
        "objective.surrogate.clip_high": 0.272,
        "engine_correction": {"type": "tis", "level": "token", "cap": 2.0},
        "batch.prompts_per_step": 64,
        "batch.samples_per_prompt": 8,
        "rewards.correctness.weight": 10.0,
    },
    "deepseek_v32": {
        "advantage.estimator.scale": "none",
        "kl.estimator": "k3",
        "kl.importance": "token",
        "off_policy_mask.reference": "sampler",
        "sampling.replay_mask": True,
        "domains": {"math": {"kl_coefficient": 0.0}},
    },
    "seed_olmo3": {
        "objective.surrogate.type": "seed_clip",
        "objective.surrogate.clip_high": 10.0,
        "kl.coefficient": 0.0,
        "active_sampling.refill": True,
        "objective.reduction": "token_mean",
        "advantage.estimator.scale": "none",
    },
    "seed_deepseek_v32": {
        "objective.surrogate.type": "seed_clip",
        "objective.surrogate.clip_high": 10.0,
        "domains": {"math": {"kl_coefficient": 0.0}, "code": {"kl_coefficient": 0.02}},
        "kl.estimator": "k1",
        "off_policy_mask.threshold_nats": 0.1,
        "sampling.replay_mask": True,
        "advantage.estimator.scale": "group_std",
    },
}

# At the demo's size; what is published is for other machines.
AT_DEMO_SIZE = {
    "dapo": ["rewards.overlong.buffer_tokens=16"],
    "cispo": ["rewards.overlong.buffer_tokens=16"],
    "fipo": ["rewards.overlong.buffer_tokens=16"],
}


@pytest.mark.parametrize("name", VALUES)
def test_values_of_the_source(name: str) -> None:
    tree = compose_train_config([name]).model_dump()
    for key, value in VALUES[name].items():
        assert functools.reduce(operator.getitem, key.split("."), tree) == value, key


def test_every_published_algorithm_is_there() -> None:
    assert set(VALUES) <= set(list_recipes())


@pytest.mark.parametrize("name", list(list_recipes()))
def test_a_recipe_has_no_error_and_these_warnings(name: str) -> None:
    findings = contradictions(compose_train_config([name]))
    assert [finding.keys[0] for finding in findings] == WARNINGS.get(name, [])
    assert {finding.level for finding in findings} <= {"warning"}


@pytest.mark.parametrize("name", TECHNIQUES)
def test_techniques(name: str) -> None:
    found = cards_of(compose_train_config([name]))
    assert [card.number for card in found if card.number is not None] == TECHNIQUES[name]


@pytest.mark.parametrize("name", VALUES)
def test_a_recipe_leaves_model_and_problems_open(name: str) -> None:
    stated = compose_train_config([name])
    demo = compose_train_config(["demo"])
    assert not {"model", "problems", "prompt"} & stated.model_fields_set
    assert compose_train_config([name, "model.path=m", "problems.train=t.jsonl"]).model.path == "m"
    composed = compose_train_config([name, "demo", *AT_DEMO_SIZE.get(name, [])])
    assert composed.batch.prompts_per_step == demo.batch.prompts_per_step
    assert composed.objective == stated.objective
    compose_train_config(["demo", name])


def test_recipes_are_listed_with_their_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    rows = {row["name"]: row for row in json.loads(groupwise(capsys, "recipes", "--json").out)}
    assert rows["dapo"]["techniques"] == [1, 2, 3, 4, 5, 12]
    assert rows["dapo"]["additions"] == ["overlong penalty"]
    lines = groupwise(capsys, "recipes").out.splitlines()
    assert len(lines) == len(rows) == len(list_recipes())
    (line,) = [line for line in lines if line.startswith("olmo3 ")]
    assert " 1 2 3 4 5 6 7 " in line
    assert rows["olmo3"]["summary"] in line
    assert [row["name"] for row in describe_recipes()] == sorted(rows)


@pytest.mark.slow
@pytest.mark.parametrize("name", VALUES)
def test_a_recipe_trains(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = {
        "run.steps": 1,
        "run.threads": 1,
        "run.output": tmp_path / "run",
        "batch.prompts_per_step": 4,
        "batch.samples_per_prompt": 4,
        "batch.minibatches_per_step": 2,
        "sampling.max_new_tokens": 16,
        "problems.eval_problems": 0,
    }
    arguments = [name, "demo", *AT_DEMO_SIZE.get(name, []), *(f"{key}={value}" for key, value in sizes.items())]
    assert main.compose_and_start(arguments, False, ConsoleTracker(Console(width=200))) is not None
    (line,) = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    metrics = json.loads(line)
    assert metrics["optimizer/updates"] == 4
    assert metrics["optimizer/grad_norm"] > 0
    assert metrics["optimizer/skipped_fraction"] == 0
    out = capsys.readouterr().out
    assert "objective J = " in out
    assert "technique " + " ".join(map(str, TECHNIQUES[name])) in out
