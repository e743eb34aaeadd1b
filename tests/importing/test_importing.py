"""Files of TRL and verl as configurations of groupwise: that no option is forgotten, and what files may look like."""

import json
from pathlib import Path

import pytest

from groupwise.config import TrainConfig
from groupwise.config.compose import compose_train_config
from groupwise.config.describe import all_keys
from groupwise.errors import DataError
from groupwise.importing import page, write
from groupwise.importing.option_rows import Field, fields_of
from groupwise.importing.source import read_nested
from tests.support.commands import groupwise
from tests.support.importing import from_trl, option

UPSTREAM: dict[str, dict[str, list[str]]] = json.loads((Path(__file__).parent / "upstream_options.json").read_text())
DOCS = Path(__file__).parents[2] / "docs"
# Options of older versions that are still met in files.
OLDER_TRL = {"max_prompt_length", "warmup_ratio", "use_liger_loss"}


# Completeness


@pytest.mark.parametrize("group", UPSTREAM["trl_1_16"])
def test_every_option_of_trl_has_a_row(group: str) -> None:
    known = {field.key for field in fields_of("trl")}
    assert [name for name in UPSTREAM["trl_1_16"][group] if name not in known] == []


def test_trl_has_every_option_that_has_a_row() -> None:
    names = {name for group in UPSTREAM["trl_1_16"].values() for name in group}
    assert {field.key for field in fields_of("trl")} - names == OLDER_TRL


@pytest.mark.parametrize("section", UPSTREAM["verl_2026_08"])
def test_every_option_of_verl_has_a_row_or_stands_in_a_section_that_has_one(section: str) -> None:
    known = {field.key for field in fields_of("verl")}

    def has_row(key: str) -> bool:
        parts = key.split(".")
        return any(".".join(parts[:end]) in known for end in range(1, len(parts) + 1))

    names = [f"{section}.{name}" for name in UPSTREAM["verl_2026_08"][section]]
    assert [name for name in names if not has_row(name)] == []


@pytest.mark.parametrize("fields", [fields_of("trl"), fields_of("verl")], ids=["trl", "verl"])
def test_rows_are_unique_and_name_options_of_groupwise(fields: tuple[Field, ...]) -> None:
    keys = [field.key for field in fields]
    assert sorted(keys) == sorted(set(keys))
    named = {name for field in fields if field.to for name in field.to.split(", ")}
    assert named - set(all_keys(TrainConfig)) == set()


@pytest.mark.parametrize("fields", [fields_of("trl"), fields_of("verl")], ids=["trl", "verl"])
def test_absent_options_say_why(fields: tuple[Field, ...]) -> None:
    assert [field.key for field in fields if field.kind == "absent" and len(field.words) < 10] == []


def test_docs_are_what_the_tables_say() -> None:
    assert (DOCS / "translation.md").read_text(encoding="utf-8") == page.page()


# Files and the command


SCRIPT = r"""#!/usr/bin/env bash
set -xeuo pipefail
# The numbers of DAPO.
adv_estimator=grpo
max_response_length=$((1024 * 20))
overlong_buffer_len=$((1024 * 4))
train_bsz=512
gen_bsz=$((train_bsz * 3))
MODEL=${MODEL:-Qwen/Qwen2.5-32B}
python3 -m recipe.dapo.main_dapo \
    algorithm.adv_estimator=${adv_estimator} \
    data.train_files="${DATA}/train.parquet" \
    data.max_response_length=${max_response_length} \
    data.train_batch_size=${train_bsz} data.gen_batch_size=$gen_bsz \
    actor_rollout_ref.rollout.n=16 \
    algorithm.filter_groups.enable=True algorithm.filter_groups.metric=acc \
    actor_rollout_ref.actor.clip_ratio_high=0.28 actor_rollout_ref.actor.clip_ratio_c=10.0 \
    actor_rollout_ref.actor.ppo_mini_batch_size=32 \
    actor_rollout_ref.actor.optim.lr=1e-6 \
    actor_rollout_ref.model.path="${MODEL}" \
    +reward_model.reward_kwargs.overlong_buffer_cfg.enable=True \
    +reward_model.reward_kwargs.overlong_buffer_cfg.len=${overlong_buffer_len} \
    trainer.logger='["console","wandb"]' "$@"
"""


def test_verl_script(tmp_path: Path) -> None:
    path = tmp_path / "run_dapo.sh"
    path.write_text(SCRIPT)
    imported = write.import_verl(str(path), problems=17000)
    expected = {
        "run.steps": 30 * 33,
        "model.path": "Qwen/Qwen2.5-32B",
        "sampling.max_new_tokens": 20480,
        "batch.prompts_per_step": 512,
        "batch.samples_per_prompt": 16,
        "batch.minibatches_per_step": 16,
        "active_sampling.filter": "correctness",
        "rewards.correctness.weight": 2.0,
        "rewards.overlong.buffer_tokens": 4096,
        "objective.surrogate.clip_high": 0.28,
        "objective.surrogate.dual_clip": 10.0,
        "problems.train": None,
    }
    assert {key: option(imported, key) for key in expected} == expected
    assert "data.train_files=${DATA}/train.parquet is left out" in imported.notes[-2]
    assert imported.no_counterpart == []


def test_verl_references_between_keys(tmp_path: Path) -> None:
    path = tmp_path / "ppo.yaml"
    path.write_text(
        "data:\n  max_response_length: ${oc.select:actor_rollout_ref.rollout.response_length,512}\n"
        "  train_batch_size: ${data.gen_batch_size}\n  gen_batch_size: 64\n  seed: ${oc.env:SEED}\n"
        "actor_rollout_ref:\n  rollout:\n    response_length: 2048\n    name: ???\n"
    )
    source = read_nested(str(path))
    assert source.values == {
        "data.max_response_length": 2048,
        "data.train_batch_size": 64,
        "data.gen_batch_size": 64,
        "actor_rollout_ref.rollout.response_length": 2048,
    }
    assert set(source.unresolved) == {"data.seed", "actor_rollout_ref.rollout.name"}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.yaml", "epsilon: [", r"a\.yaml:1: not valid YAML"),
        ("a.yaml", "- epsilon", r"a\.yaml:1: expected `key: value` lines, found a list"),
        ("a.yaml", "beta: 0.1\nbeta: 0.2\n", r"a\.yaml:2: the key `beta` stands here a second time"),
        ("a.json", '{"beta": 0.1', r"a\.json:1: not valid JSON"),
        ("a.json", '{"beta": 0.1, "beta": 0.2}', "the key beta stands here a second time"),
        ("a.yaml", "epsilon: .inf\n", r"a\.yaml:1: epsilon: found 'inf', expected a finite number"),
        ("a.yaml", "num_iterations: 0\n", r"a\.yaml:1: num_iterations: found 0, expected at least 1"),
        ("a.yaml", "reward_funcs: [a, b]\nreward_weights: [1]\n", "1 reward_weights for 2 reward_funcs"),
        ("a.json", "[1]", r"a\.json:1: expected an object"),
        ("a.yaml", "\nepsilon: much\n", r"a\.yaml:2: epsilon: found 'much', expected a finite number"),
        ("a.yaml", "num_generations: 8.5\n", r"a\.yaml:1: num_generations: found '8\.5', expected an integer"),
        ("a.yaml", "use_vllm: 1\n", r"use_vllm: found '1', expected true or false"),
        ("a.yaml", "loss_type: dpo\n", r"a\.yaml:1: loss_type: found 'dpo', expected one of grpo, dapo"),
        ("a.yaml", "temperature: 0.0\n", r"a\.yaml:1: temperature: sampling\.temperature: found the number 0\.0"),
    ],
)
def test_files_that_cannot_be_translated(tmp_path: Path, name: str, text: str, message: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        write.import_trl(str(path), 1, None)


def test_all_wrong_values_are_listed_at_once() -> None:
    with pytest.raises(DataError, match=r"(?s)- .*epsilon.*- .*top_p"):
        from_trl(epsilon="a", top_p="b")


@pytest.mark.parametrize(
    ("tool", "text"),
    [
        ("trl", "max_steps: 100\n"),
        ("trl", '{"max_steps": 100, "loss_type": "dr_grpo", "scale_rewards": false, "bf16": false, "top_k": 20}'),
        ("trl", "max_steps: 10\nloss_type: grpo\nimportance_sampling_level: sequence\nbeta: 0.1\ndelta: 4.0\n"),
        ("trl", "max_steps: 10\nuse_vllm: true\noff_policy_mask_threshold: 0.1\nnum_iterations: 2\n"),
        ("trl", "max_steps: 10\nloss_type: vespo\nmulti_objective_aggregation: normalize_then_sum\n"
                "reward_funcs: [accuracy_reward, think_format_reward]\n"),
        ("trl", "max_steps: 10\nloss_type: sapo\nentropy_coef: 0.01\ntop_entropy_quantile: 0.2\n"),
        ("verl", "algorithm: {adv_estimator: grpo}\n"
                 "actor_rollout_ref: {rollout: {n: 8}, actor: {use_kl_loss: true}}\n"),
        ("verl", "algorithm: {adv_estimator: grpo, use_kl_in_reward: true}\n"
                 "actor_rollout_ref: {rollout: {n: 8}, actor: {policy_loss: {loss_mode: gpg}}}\n"),
        ("verl", "algorithm: {adv_estimator: rloo}\nactor_rollout_ref:\n  rollout: {n: 4}\n"
                 "  actor: {policy_loss: {loss_mode: gspo}, clip_ratio_low: 3e-4, clip_ratio_high: 4e-4}\n"),
        ("verl", "algorithm: {adv_estimator: grpo, filter_groups: {enable: true, metric: acc}}\n"
                 "actor_rollout_ref: {rollout: {n: 4, top_p: 0.9}, actor: {policy_loss: {loss_mode: kl_cov}}}\n"),
    ],
)  # fmt: skip
def test_the_output_composes_and_keeps_its_values(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, tool: str, text: str
) -> None:
    path = tmp_path / ("in.json" if text.startswith("{") else "in.yaml")
    path.write_text(text)
    outcome = groupwise(capsys, "import", tool, str(path))
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.startswith(f"# From {'TRL' if tool == 'trl' else 'verl'}: {path}\n")
    (tmp_path / "out.yaml").write_text(outcome.out)
    config = compose_train_config([str(tmp_path / "out.yaml")]).model_dump()
    data = json.loads(groupwise(capsys, "import", tool, str(path), "--json").out)
    assert set(data) == {"config", "no_counterpart", "differs", "notes"}
    assert TrainConfig.model_validate(data["config"]).model_dump() == config
    assert not [note for note in data["notes"] if note.startswith("groupwise refuses")]


def test_comments_stay_within_the_line() -> None:
    imported = from_trl(delta=1.1, loss_type="cispo", use_peft=True, mask_truncated_completions=True)
    text = write.as_yaml(imported, "From TRL: a.yaml")
    assert max(map(len, text.splitlines())) <= 120
    assert "# No counterpart:\n# - use_peft: " in text


def test_a_missing_file_is_an_error_of_the_data(capsys: pytest.CaptureFixture[str]) -> None:
    outcome = groupwise(capsys, "import", "trl", "nowhere.yaml")
    assert (outcome.code, outcome.out, outcome.err) == (3, "", "error: nowhere.yaml: there is no such file\n")
