"""What options of TRL become: the numbers, and the words about what is different."""

import math
from typing import Any

import pytest
import torch
from transformers import get_scheduler

from groupwise.config import TrainConfig
from groupwise.errors import DataError
from groupwise.training.learning_rate import lr_factor
from tests.support.importing import from_trl, option, said


@pytest.mark.parametrize(
    ("name", "surrogate", "reduction"),
    [
        ("grpo", "ppo_clip", "sequence_mean_token_mean"),
        ("dapo", "ppo_clip", "token_mean"),
        ("bnpo", "ppo_clip", "token_mean"),
        ("dr_grpo", "ppo_clip", "constant_length"),
        ("cispo", "cispo", "token_mean"),
        ("sapo", "sapo", "sequence_mean_token_mean"),
        ("luspo", "ppo_clip", "sequence_mean_token_sum"),
        ("vespo", "vespo", "token_mean"),
    ],
)
def test_trl_loss_types(name: str, surrogate: str, reduction: str) -> None:
    imported = from_trl(loss_type=name)
    assert option(imported, "objective.surrogate") == surrogate
    assert option(imported, "objective.reduction") == reduction
    assert option(imported, "objective.ratio") == ("sequence_product" if name == "vespo" else "token")


def test_trl_luspo_is_a_reduction_and_needs_ratios_of_answers() -> None:
    paper: dict[str, Any] = {"epsilon": 2e-3, "epsilon_high": 2.5e-3, "gradient_accumulation_steps": 4}
    imported = from_trl(loss_type="luspo", importance_sampling_level="sequence", steps_per_generation=8, **paper)
    assert option(imported, "objective.ratio") == "sequence_geometric_mean"
    assert option(imported, "objective.reduction") == "sequence_mean_token_sum"
    assert "which is a reduction here" in said(imported, "loss_type")
    assert not said(imported, "importance_sampling_level")
    assert not [note for note in imported.notes if note.startswith("groupwise warns")]
    of_tokens = from_trl(loss_type="luspo")
    assert "no LUSPO: set sequence" in said(of_tokens, "importance_sampling_level")
    assert "L²" in said(of_tokens, "importance_sampling_level")
    assert not said(from_trl(loss_type="grpo"), "importance_sampling_level")


def test_trl_defaults_are_written_out() -> None:
    imported = from_trl()
    expected = {
        "batch.samples_per_prompt": 8,
        "batch.prompts_per_step": 1,
        "sampling.max_new_tokens": 512,
        "optimizer.lr": 1e-6,
        "optimizer.beta2": 0.999,
        "optimizer.schedule": "linear",
        "objective.surrogate.clip_low": 0.2,
        "objective.surrogate.clip_high": 0.2,
        "objective.old_logps": "trainer",
        "advantage.estimator.scale": "group_std",
        "advantage.estimator.std_epsilon": 1e-4,
        "active_sampling.filter": "none",
        "active_sampling.refill": False,
        "model.compute_dtype": "bfloat16",
        "run.seed": 42,
    }
    assert {key: option(imported, key) for key in expected} == expected
    assert "kl" not in imported.config
    assert "engine_correction" not in imported.config


@pytest.mark.parametrize(
    ("options", "processes", "prompts", "minibatches", "epochs"),
    [
        ({"per_device_train_batch_size": 16}, 1, 2, 1, 1),
        ({"per_device_train_batch_size": 16}, 4, 8, 1, 1),
        ({"per_device_train_batch_size": 8, "gradient_accumulation_steps": 4}, 2, 8, 1, 1),
        ({"per_device_train_batch_size": 8, "gradient_accumulation_steps": 2, "steps_per_generation": 8}, 1, 8, 4, 1),
        ({"per_device_train_batch_size": 8, "generation_batch_size": 64}, 2, 8, 4, 1),
        ({"per_device_train_batch_size": 4, "gradient_accumulation_steps": 8, "num_iterations": 2}, 1, 4, 1, 2),
        # One gradient over four generations with the same weights is one step of all their prompts.
        ({"per_device_train_batch_size": 8, "gradient_accumulation_steps": 4, "steps_per_generation": 1}, 1, 4, 1, 1),
        # A minibatch has whole groups: four quarters of two groups become two.
        ({"per_device_train_batch_size": 4, "steps_per_generation": 4}, 1, 2, 2, 1),
    ],
)
def test_trl_counts_completions(
    options: dict[str, Any], processes: int, prompts: int, minibatches: int, epochs: int
) -> None:
    batch = from_trl(processes, **options).config["batch"]
    assert batch == {
        "prompts_per_step": prompts,
        "samples_per_prompt": 8,
        "minibatches_per_step": minibatches,
        "epochs_per_step": epochs,
    }


def test_trl_batches_are_explained_in_numbers() -> None:
    imported = from_trl(2, per_device_train_batch_size=16, gradient_accumulation_steps=2, num_generations=4)
    assert said(imported, "per_device_train_batch_size") == (
        "TRL counts completions: 64 of one generation on 2 processes are 16 prompts of 4, trained on in 1 optimizer "
        "step a pass"
    )


def test_trl_batches_without_whole_groups_are_an_error() -> None:
    with pytest.raises(DataError, match=r"12 completions .* not whole groups of\s+num_generations 8.*--processes"):
        from_trl(per_device_train_batch_size=12)


def test_trl_length_counts_optimizer_steps() -> None:
    options: dict[str, Any] = {"per_device_train_batch_size": 8, "steps_per_generation": 4, "num_iterations": 2}
    imported = from_trl(max_steps=100, warmup_steps=16, save_steps=80, **options)
    assert option(imported, "batch.minibatches_per_step") == 4
    assert option(imported, "run.steps") == 13
    # The peak is at optimizer step 16, the first being 0: that is in the third rollout of 8.
    assert option(imported, "optimizer.warmup_steps") == 3
    assert option(imported, "run.checkpoint_every_steps") == 10


def test_trl_epochs_need_the_number_of_problems() -> None:
    assert option(from_trl(num_train_epochs=2), "run.steps") is None
    assert "--problems" in said(from_trl(num_train_epochs=2), "num_train_epochs")
    imported = from_trl(num_train_epochs=2, problems=100, per_device_train_batch_size=32, warmup_ratio=0.1)
    assert option(imported, "run.steps") == 50
    assert option(imported, "optimizer.warmup_steps") == 6


@pytest.mark.parametrize("schedule", ["linear", "cosine", "constant_with_warmup", "constant"])
@pytest.mark.parametrize("warmup", [{"warmup_ratio": 0.1}, {"warmup_steps": 1}, {"warmup_steps": 4}, {}])
def test_trl_learning_rates_are_those_of_transformers(schedule: str, warmup: dict[str, Any]) -> None:
    """From the peak on exactly; before it within the first step's rate, which is 0 in transformers."""
    imported = from_trl(max_steps=10, lr_scheduler_type=schedule, learning_rate=1.0, **warmup)
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=1.0)
    steps = warmup.get("warmup_steps", math.ceil(10 * warmup.get("warmup_ratio", 0)))
    made = get_scheduler(schedule, optimizer, num_warmup_steps=steps, num_training_steps=10)
    theirs = []
    for _ in range(10):
        theirs.append(made.get_last_lr()[0])
        optimizer.step()
        made.step()
    options = TrainConfig.model_validate(imported.config).optimizer
    ours = [lr_factor(s, 10, options.warmup_steps, options.schedule, options.final_lr_fraction) for s in range(10)]
    assert ours[steps:] == pytest.approx(theirs[steps:])
    assert ours[:steps] == pytest.approx(theirs[:steps], abs=0.5 if steps == 1 else 0.21)
    assert min(ours) > 0


@pytest.mark.parametrize(
    ("delta", "expected"),
    [
        (4.0, {"clip_low": 0.2, "clip_high": 0.3, "dual_clip": 4.0}),
        (1.3, {"clip_low": 0.2, "clip_high": 0.3, "dual_clip": 1.3}),
        (1.25, {"clip_low": 0.2, "clip_high": 0.25, "dual_clip": 1.3}),
    ],
)
def test_trl_delta_is_a_dual_clip(delta: float, expected: dict[str, float]) -> None:
    surrogate = from_trl(delta=delta, epsilon_high=0.3).config["objective"]["surrogate"]
    assert {key: surrogate[key] for key in expected} == pytest.approx(expected)


def test_trl_delta_below_one_has_no_counterpart() -> None:
    imported = from_trl(delta=0.5)
    assert option(imported, "objective.surrogate.dual_clip") is None
    assert "below 1" in said(imported, "delta")


def test_trl_cap_of_cispo_is_absolute_and_unusable_by_default() -> None:
    imported = from_trl(loss_type="cispo", epsilon_high=5.0, delta=2.0)
    assert option(imported, "objective.surrogate.cap") == 5.0
    assert option(imported, "objective.surrogate.clip_high") is None
    assert said(imported, "epsilon_high") == "the absolute cap of CISPO's weight, 5.0, not a distance from 1"
    assert said(imported, "delta") == "not read by TRL with loss_type cispo"
    assert "weighted 0.2; usual is 5" in said(from_trl(loss_type="cispo"), "epsilon")


@pytest.mark.parametrize(
    ("mode", "form", "level"),
    [
        ("token_truncate", "tis", "token"),
        ("sequence_truncate", "tis", "sequence_product"),
        ("token_mask", "mis", "token"),
        ("sequence_mask", "mis", "sequence_product"),
    ],
)
def test_trl_engine_correction_acts_with_vllm_only(mode: str, form: str, level: str) -> None:
    options: dict[str, Any] = {"vllm_importance_sampling_mode": mode, "vllm_importance_sampling_clip_max": 2.0}
    correction = from_trl(use_vllm=True, **options).config["engine_correction"]
    bound = "cap" if form == "tis" else "high"
    assert (correction["type"], correction["level"], correction[bound]) == (form, level, 2.0)
    assert correction.get("low") == (0.0 if form == "mis" else None)
    without = from_trl(**options)
    assert "engine_correction" not in without.config
    assert "only with use_vllm" in said(without, "vllm_importance_sampling_mode")


def test_trl_engine_correction_without_an_upper_bound() -> None:
    imported = from_trl(use_vllm=True, vllm_importance_sampling_clip_max=None, vllm_importance_sampling_clip_min=0.5)
    assert imported.config["engine_correction"] == {
        "type": "mis", "level": "sequence_product", "low": 0.5, "high": 1e9
    }  # fmt: skip


@pytest.mark.parametrize(("vllm", "reference"), [(False, "old"), (True, "sampler")])
def test_trl_off_policy_mask(vllm: bool, reference: str) -> None:
    imported = from_trl(off_policy_mask_threshold=0.5, use_vllm=vllm)
    assert imported.config["off_policy_mask"] == {
        "type": "sequence",
        "threshold_nats": 0.5,
        "reference": reference,
    }


def test_trl_kl() -> None:
    imported = from_trl(beta=0.04, sync_ref_model=True, ref_model_sync_steps=100)
    assert imported.config["kl"] == {
        "coefficient": 0.04,
        "estimator": "k3",
        "importance": "token",
        "refresh_reference_every_steps": 100,
    }
    assert "mixes 0.6" in said(imported, "ref_model_mixup_alpha")
    assert "up to 1.9 it was not" in said(imported, "beta")
    assert option(from_trl(beta=0.04, use_bias_correction_kl=False), "kl.importance") == "none"
    sequence = from_trl(beta=0.04, importance_sampling_level="sequence")
    assert "geometric mean" in said(sequence, "use_bias_correction_kl")


@pytest.mark.parametrize(
    ("value", "scale"),
    [("group", "group_std"), (True, "group_std"), ("batch", "batch_std"), ("none", "none"), (False, "none")],
)
def test_trl_scale_rewards(value: str | bool, scale: str) -> None:
    assert option(from_trl(scale_rewards=value), "advantage.estimator.scale") == scale


def test_trl_gdpo_and_reward_functions() -> None:
    imported = from_trl(
        multi_objective_aggregation="normalize_then_sum",
        scale_rewards="batch",
        reward_funcs=["accuracy_reward", "think_format_reward", "my.own"],
        reward_weights=[1.0, 0.2, 0.5],
    )
    assert option(imported, "advantage.estimator") == "gdpo"
    assert "not read by TRL" in said(imported, "scale_rewards")
    assert imported.config["rewards"] == {"correctness": {"weight": 1.0}, "format": {"weight": 0.2}}
    assert "no reward my.own is built in" in said(imported, "reward_funcs")


def test_trl_overlong_penalty_keeps_its_weight() -> None:
    imported = from_trl(reward_funcs=["accuracy_reward", "get_soft_overlong_punishment"], reward_weights=[1.0, 0.5])
    assert option(imported, "rewards.overlong.buffer_tokens") == 256
    assert option(imported, "rewards.overlong.weight") == 0.5
    assert "1280 tokens" in said(imported, "reward_funcs")


def test_trl_truncated_sampling_replays_the_kept_set() -> None:
    imported = from_trl(top_p=0.9)
    assert option(imported, "sampling.replay_mask") is True
    assert "whole vocabulary" in said(imported, "top_p")
    assert option(from_trl(top_p=1.0, min_p=0.0), "sampling.replay_mask") is None


def test_trl_entropy() -> None:
    imported = from_trl(
        top_entropy_quantile=0.2, entropy_coef=0.01, use_adaptive_entropy=True, entropy_target=0.3, loss_type="grpo"
    )
    assert imported.config["entropy"] == {
        "bonus": {
            "type": "target",
            "coefficient": 0.01,
            "target_nats": 0.3,
            "coefficient_step": 0.005,
            "max_coefficient": 1.0,
        },
        "tokens": {"type": "top_entropy", "fraction": 0.2},
    }
    assert "each micro-batch" in said(imported, "top_entropy_quantile")
    assert "mean over tokens" in said(imported, "entropy_coef")


def test_trl_truncated_answers_leave_the_denominator() -> None:
    imported = from_trl(mask_truncated_completions=True, loss_type="grpo")
    assert option(imported, "objective.mask_truncated") is True
    assert "still divides" in said(imported, "mask_truncated_completions")
    assert said(from_trl(mask_truncated_completions=True), "mask_truncated_completions") == ""


@pytest.mark.parametrize(
    ("options", "key", "words"),
    [
        ({"repetition_penalty": 1.1}, "repetition_penalty", "no scorer could replay it"),
        ({"use_peft": True}, "use_peft", "set model.adapter={type: lora"),
        ({"lr_scheduler_type": "polynomial"}, "lr_scheduler_type", "no schedule polynomial"),
        ({"optim": "adafactor"}, "optim", "no optimizer adafactor"),
        ({"dataset_name": "trl-lib/DeepMath-103K"}, "dataset_name", "fetched from a hub"),
        ({"disable_dropout": False}, "disable_dropout", "leaves dropout on"),
        ({"epsilom": 0.1}, "epsilom", "did you mean epsilon?"),
        ({"quux": 1}, "quux", "not recognised as an option of TRL"),
    ],
)
def test_trl_what_has_no_counterpart_is_said(options: dict[str, Any], key: str, words: str) -> None:
    assert words in said(from_trl(**options), key)


def test_options_at_their_defaults_and_options_without_effect_are_not_complained_about() -> None:
    imported = from_trl(repetition_penalty=1.0, logging_steps=1, report_to="wandb")
    assert imported.no_counterpart == from_trl().no_counterpart
    assert "without effect on the algorithm, left out: logging_steps, report_to" in imported.notes


@pytest.mark.parametrize("stated", [True, False])
def test_activation_checkpointing_is_taken_over_where_it_is_stated(stated: bool) -> None:
    assert option(from_trl(gradient_checkpointing=stated), "batch.activation_checkpointing") is stated
    assert option(from_trl(), "batch.activation_checkpointing") is None


def test_trl_weight_decay_spares_what_transformers_spares() -> None:
    imported = from_trl(weight_decay=0.1)
    assert option(imported, "optimizer.decay_exempt") == "norms_and_biases"
    assert option(from_trl(), "optimizer.decay_exempt") is None


@pytest.mark.parametrize("coefficient", [{"entropy_coef": 0.01}, {"use_adaptive_entropy": True}])
def test_trl_entropy_is_a_mean_of_micro_batches(coefficient: dict[str, Any]) -> None:
    assert "each micro-batch" in said(from_trl(loss_type="dapo", **coefficient), "entropy_coef")
    assert "weighted as the policy loss" in said(from_trl(loss_type="grpo", **coefficient), "entropy_coef")


def test_trl_arguments_of_the_chat_template() -> None:
    imported = from_trl(chat_template_kwargs={"enable_thinking": False})
    assert option(imported, "prompt.template_arguments") == {"enable_thinking": False}
