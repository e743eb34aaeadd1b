"""What options of verl become: the numbers, and the words about what is different."""

from typing import Any

import numpy as np
import pytest

from groupwise.config import TrainConfig
from groupwise.config.compose import compose_train_config
from groupwise.grading.totals import combine
from tests.support.importing import ACTOR, ROLLOUT, from_verl, option, said


def test_verl_defaults_are_written_out() -> None:
    imported = from_verl({})
    expected = {
        "batch.prompts_per_step": 1024,
        "batch.minibatches_per_step": 4,
        "sampling.max_new_tokens": 512,
        "objective.surrogate": "ppo_clip",
        "objective.ratio": "token",
        "objective.surrogate.clip_low": 0.2,
        "objective.surrogate.clip_high": 0.2,
        "objective.surrogate.dual_clip": 3.0,
        "objective.reduction": "token_mean",
        "objective.old_logps": "trainer",
        "advantage.estimator.scale": "group_std",
        "advantage.estimator.std_epsilon": 1e-6,
        "optimizer.weight_decay": 0.01,
        "optimizer.beta2": 0.999,
        "optimizer.schedule": "constant",
        "active_sampling.filter": "none",
    }
    assert {key: option(imported, key) for key in expected} == expected
    assert "kl" not in imported.config


@pytest.mark.parametrize("key", ["lr_warmup_steps", "lr_warmup_steps_ratio"])
def test_verl_begins_to_warm_up_at_0(key: str) -> None:
    """step / warm-up from step 0 on, so that the peak comes at step 10, which is the eleventh."""
    stated = {f"{ACTOR}.optim.{key}": 10 if key == "lr_warmup_steps" else 0.1, "trainer.total_training_steps": 100}
    assert option(from_verl(stated), "optimizer.warmup_steps") == 11
    none = {f"{ACTOR}.optim.{key}": 0, "trainer.total_training_steps": 100}
    assert not option(from_verl(none), "optimizer.warmup_steps")


def test_verl_reads_clip_ratio_only_where_its_sides_are_null() -> None:
    shadowed = from_verl({f"{ACTOR}.clip_ratio": 0.3})
    assert option(shadowed, "objective.surrogate.clip_high") == 0.2
    assert "not read by verl" in said(shadowed, f"{ACTOR}.clip_ratio")
    sides = {f"{ACTOR}.clip_ratio_low": None, f"{ACTOR}.clip_ratio_high": 0.28}
    read = from_verl({f"{ACTOR}.clip_ratio": 0.3} | sides)
    assert (option(read, "objective.surrogate.clip_low"), option(read, "objective.surrogate.clip_high")) == (0.3, 0.28)


@pytest.mark.parametrize(
    ("mode", "surrogate", "ratio", "reduction", "dual_clip"),
    [
        ("vanilla", "ppo_clip", "token", "token_mean", 3.0),
        ("gspo", "ppo_clip", "gspo_token", "sequence_mean_token_mean", None),
        ("sapo", "sapo", "token", "sequence_mean_token_mean", None),
        ("geo_mean", "gmpo", "token", "sequence_mean_token_mean", None),
        ("cispo", "cispo", "token", "token_mean", None),
        ("clip-cov", "ppo_clip", "token", "token_mean", None),
        ("kl_cov", "reinforce", "token", "token_mean", None),
        ("gpg", "reinforce", "none", "token_mean", None),
        ("dppo_tv", "dppo", "token", "token_mean", None),
        ("dppo_kl", "dppo_kl", "token", "token_mean", None),
    ],
)
def test_verl_loss_modes(mode: str, surrogate: str, ratio: str, reduction: str, dual_clip: float | None) -> None:
    imported = from_verl({f"{ACTOR}.policy_loss.loss_mode": mode})
    assert option(imported, "objective.surrogate") == surrogate
    assert option(imported, "objective.ratio") == ratio
    assert option(imported, "objective.reduction") == reduction
    assert option(imported, "objective.surrogate.dual_clip") == dual_clip


@pytest.mark.parametrize(("mode", "bound"), [("dppo_tv", "tv"), ("dppo_kl", "kl")])
def test_verl_dppo(mode: str, bound: str) -> None:
    options = {f"{ACTOR}.policy_loss.loss_mode": mode, f"{ACTOR}.clip_ratio_low": 0.05}
    imported = from_verl(options)
    wanted = {f"{bound}_low": 0.05, f"{bound}_high": 0.2, "cap": 3.0}
    assert {name: option(imported, f"objective.surrogate.{name}") for name in wanted} == wanted
    assert option(imported, "objective.old_logps") == "trainer"
    assert option(imported, "objective.surrogate.reference") == ("old" if mode == "dppo_kl" else None)
    capped = from_verl({**options, f"{ACTOR}.clip_ratio_c": 10000.0})
    assert option(capped, "objective.surrogate.cap") == 10000


def test_verl_bounds_of_cispo_are_distances_from_one() -> None:
    options = {f"{ACTOR}.policy_loss.loss_mode": "cispo", f"{ACTOR}.clip_ratio_low": 10, f"{ACTOR}.clip_ratio_high": 4}
    imported = from_verl(options)
    assert (option(imported, "objective.surrogate.floor"), option(imported, "objective.surrogate.cap")) == (0.0, 5)


def test_verl_covariance_losses() -> None:
    imported = from_verl({f"{ACTOR}.policy_loss.loss_mode": "kl_cov", f"{ACTOR}.policy_loss.kl_cov_ratio": 0.002})
    assert imported.config["entropy"] == {
        "covariance": {"type": "kl_cov", "fraction": 0.002, "coefficient": 0.1}
    }  # fmt: skip


@pytest.mark.parametrize(
    ("mode", "reduction"),
    [
        ("token-mean", "token_mean"),
        ("seq-mean-token-sum", "sequence_mean_token_sum"),
        ("seq-mean-token-mean", "sequence_mean_token_mean"),
        ("seq-mean-token-sum-norm", "constant_length"),
    ],
)
def test_verl_reductions(mode: str, reduction: str) -> None:
    assert option(from_verl({f"{ACTOR}.loss_agg_mode": mode}), "objective.reduction") == reduction


def test_verl_constant_of_the_length() -> None:
    imported = from_verl({f"{ACTOR}.loss_agg_mode": "seq-mean-token-sum-norm", f"{ACTOR}.loss_scale_factor": 3000})
    assert option(imported, "objective.reduction.tokens") == 3000
    assert "by the constant alone" in said(imported, f"{ACTOR}.loss_agg_mode")


def test_verl_reduction_that_is_not_read_and_one_that_is_unknown() -> None:
    forced = {f"{ACTOR}.policy_loss.loss_mode": "gspo", f"{ACTOR}.loss_agg_mode": "token-mean"}
    assert "not read by verl" in said(from_verl(forced), f"{ACTOR}.loss_agg_mode")
    assert "no reduction token-sum" in said(
        from_verl({f"{ACTOR}.loss_agg_mode": "token-sum"}), f"{ACTOR}.loss_agg_mode"
    )


@pytest.mark.parametrize(
    ("name", "estimator"),
    [("kl", "k1"), ("mse", "k2"), ("low_var_kl", "k3"), ("k3", "k3"), ("k3+", "k2"), ("abs", "k2")],
)
def test_verl_kl_in_the_loss(name: str, estimator: str) -> None:
    imported = from_verl({f"{ACTOR}.use_kl_loss": True, f"{ACTOR}.kl_loss_type": name})
    assert imported.config["kl"] == {"coefficient": 0.001, "estimator": estimator, "importance": "none"}
    assert bool(said(imported, f"{ACTOR}.kl_loss_type")) == (name in ("k3+", "abs"))


def test_verl_kl_in_the_reward() -> None:
    imported = from_verl({"algorithm.use_kl_in_reward": True, "algorithm.kl_ctrl.type": "adaptive"})
    assert imported.config["kl"] == {"coefficient": 0.001, "in_reward": True}
    assert "after the group mean" in said(imported, "algorithm.use_kl_in_reward")
    assert "stays as it is" in said(imported, "algorithm.kl_ctrl.type")


@pytest.mark.parametrize(
    ("metric", "chosen"), [("acc", "correctness"), ("seq_reward", "total"), (None, "total"), ("tool_use", "total")]
)
def test_verl_filter(metric: str | None, chosen: str) -> None:
    imported = from_verl(
        {
            "algorithm.filter_groups.enable": True,
            "algorithm.filter_groups.metric": metric,
            "algorithm.filter_groups.max_num_gen_batches": 10,
            "data.train_batch_size": 512,
            "data.gen_batch_size": 1536,
        }
    )
    assert imported.config["active_sampling"] == {
        "filter": chosen, "refill": True, "max_prompts_per_step_factor": 30.0
    }  # fmt: skip
    assert bool(said(imported, "algorithm.filter_groups.metric")) == (metric == "tool_use")


@pytest.mark.parametrize(
    ("options", "correction"),
    [
        ({"rollout_is": "token"}, {"type": "tis", "level": "token", "cap": 2.0}),
        (
            {"rollout_is": "sequence", "rollout_is_threshold": 5},
            {"type": "tis", "level": "sequence_product", "cap": 5.0},
        ),
        (
            {"rollout_is": "token", "rollout_is_threshold": "0.5_5.0"},
            {"type": "mis", "level": "token", "low": 0.5, "high": 5.0},
        ),
        ({"rollout_is": "token", "bypass_mode": True}, None),
        ({}, None),
    ],
)
def test_verl_rollout_correction(options: dict[str, Any], correction: dict[str, Any] | None) -> None:
    imported = from_verl({f"algorithm.rollout_correction.{key}": value for key, value in options.items()})
    assert imported.config.get("engine_correction") == correction
    assert option(imported, "objective.old_logps") == ("sampler" if options.get("bypass_mode") else "trainer")


def test_verl_reinforce_in_bypass_mode_is_cispo() -> None:
    section = "algorithm.rollout_correction"
    options = {f"{section}.bypass_mode": True, f"{section}.loss_type": "reinforce", f"{section}.rollout_is": "token"}
    objective = from_verl(options).config["objective"]
    assert (objective["surrogate"], objective["old_logps"]) == ({"type": "cispo", "cap": 2.0}, "sampler")


@pytest.mark.parametrize(
    ("name", "estimator", "baseline", "scale"),
    [
        ("grpo", "group", "group_mean", "group_std"),
        ("rloo", "group", "leave_one_out", "none"),
        ("gdpo", "gdpo", None, None),
        ("opo", "opo", None, None),
        ("gae", "group", "group_mean", "group_std"),
    ],
)
def test_verl_advantages(name: str, estimator: str, baseline: str, scale: str) -> None:
    imported = from_verl({"algorithm.adv_estimator": name})
    keys = ("advantage.estimator", "advantage.estimator.baseline", "advantage.estimator.scale")
    assert tuple(option(imported, key) for key in keys) == (estimator, baseline, scale)
    assert ("value function" in said(imported, "algorithm.adv_estimator")) == (name == "gae")


@pytest.mark.parametrize(
    ("name", "baseline"), [("reinforce_plus_plus", "none"), ("reinforce_plus_plus_baseline", "group_mean")]
)
@pytest.mark.parametrize("samples", [1, 8])
def test_verl_reinforce_plus_plus(name: str, baseline: str, samples: int) -> None:
    """Over tokens with N-1 and 1e-8 in the variance; in a group of one both names keep the reward."""
    imported = from_verl({"algorithm.adv_estimator": name, f"{ROLLOUT}.n": samples})
    assert imported.config["advantage"]["estimator"] == {
        "type": "reinforce_plus_plus",
        "baseline": baseline if samples > 1 else "none",
        "unit": "token",
        "std_ddof": 1,
        "epsilon": 1e-8,
        "epsilon_in": "variance",
    }


@pytest.mark.parametrize("name", ["optimal_token_baseline", "tir_optimal_token_baseline"])
@pytest.mark.parametrize("corrected", [False, True])
def test_verl_optimal_token_baseline(name: str, corrected: bool) -> None:
    """verl hands its engine weights to the estimator, and has no baseline where one answer is left."""
    weights = {"algorithm.rollout_correction.rollout_is": "token"} if corrected else {}
    estimator = from_verl({"algorithm.adv_estimator": name, **weights}).config["advantage"]["estimator"]
    expected = {"type": "optimal_token_baseline", "tail": "return"}
    assert estimator == (expected | {"engine_weights": True} if corrected else expected)


@pytest.mark.parametrize("name", ["grpo", "opo", "optimal_token_baseline"])
def test_verl_group_of_one_has_its_reward_as_advantage(name: str) -> None:
    imported = from_verl({"algorithm.adv_estimator": name, f"{ROLLOUT}.n": 1})
    assert option(imported, "advantage.estimator") == "group"
    assert option(imported, "advantage.estimator.baseline") == "none"
    assert "no baseline" in said(imported, f"{ROLLOUT}.n")


def test_verl_unknown_keys_and_idle_sections() -> None:
    imported = from_verl({f"{ACTOR}.clip_ratio_hihg": 0.3, "critic.optim.lr": 1e-5, f"{ACTOR}.profiler.enable": True})
    assert f"did you mean {ACTOR}.clip_ratio_high?" in said(imported, f"{ACTOR}.clip_ratio_hihg")
    assert said(imported, "critic.optim.lr") == ""
    assert f"left out: critic.optim.lr, {ACTOR}.profiler.enable" in imported.notes[-1]


def test_verl_overlong_penalty_keeps_its_factor() -> None:
    section = "reward_model.reward_kwargs.overlong_buffer_cfg"
    options = {f"{section}.enable": True, f"{section}.len": 4096, "data.max_response_length": 20480}
    assert option(from_verl(options), "rewards.overlong.buffer_tokens") == 4096
    assert option(from_verl({**options, f"{section}.penalty_factor": 0.5}), "rewards.overlong.weight") == 0.5


MANAGER, BUFFER = "reward_model.reward_manager", "reward_model.reward_kwargs.overlong_buffer_cfg"


@pytest.mark.parametrize(
    ("stated", "weight"),
    [
        ({MANAGER: "dapo"}, 2.0),
        ({"reward.reward_manager.name": "dapo"}, 2.0),
        # The trainer of DAPO, which has the penalty, takes this manager without a word.
        ({f"{BUFFER}.enable": True, f"{BUFFER}.len": 16}, 2.0),
        ({MANAGER: "naive"}, None),
        ({MANAGER: "naive", f"{BUFFER}.enable": True, f"{BUFFER}.len": 16}, None),
        ({MANAGER: "dapo", "custom_reward_function.path": "reward.py"}, None),
        ({}, None),
    ],
)
def test_verl_rewards_of_1_and_minus_1_are_as_far_apart_as_0_and_the_weight(
    stated: dict[str, Any], weight: float | None
) -> None:
    imported = from_verl(stated)
    assert option(imported, "rewards.correctness.weight") == weight
    told = said(imported, MANAGER) + said(imported, "reward.reward_manager.name")
    assert ("1 and -1" in told) == (weight is not None)
    assert not any("without effect" in note and MANAGER in note for note in imported.notes) or weight is None


def test_verl_script_of_dapo_rewards_as_the_recipe() -> None:
    """Right and wrong, cut off or not: the same advantages as from verl's own rewards."""
    stated = {f"{BUFFER}.enable": True, f"{BUFFER}.len": 4096, f"{BUFFER}.penalty_factor": 1.0}
    imported = TrainConfig.model_validate(from_verl({MANAGER: "dapo", **stated}).config).rewards
    recipe = compose_train_config(["dapo"]).rewards
    assert imported.weights == recipe.weights == {"correctness": 2.0, "format": 0.0, "overlong": 1.0}
    theirs = np.array([1.0, -1.0, 1.0 - 0.5, -1.0 - 1.0])
    rewards = np.array([[1, 0, 0], [0, 0, 0], [1, 0, -0.5], [0, 0, -1.0]])
    ours = combine(rewards, imported, ("correctness", "format", "overlong"))
    np.testing.assert_allclose(ours - ours.mean(), theirs - theirs.mean(), rtol=1e-12)


def test_verl_several_files() -> None:
    one = from_verl({"data.train_files": ["a.parquet"], "data.val_files": "v.parquet"})
    assert (option(one, "problems.train"), option(one, "problems.eval")) == ("a.parquet", "v.parquet")
    several = from_verl({"data.train_files": ["a.parquet", "b.parquet"], "data.val_files": ["v.parquet", "w.parquet"]})
    assert option(several, "problems.train") is None
    assert "problems.train={a.parquet: 2, b.parquet: 1}" in said(several, "data.train_files")
    assert option(several, "problems.eval") == ["v.parquet", "w.parquet"]


def test_verl_function_of_the_users_own_is_said_to_have_another_form() -> None:
    imported = from_verl({"custom_reward_function.path": "reward.py"})
    assert "rewards.functions" in said(imported, "custom_reward_function.path")


@pytest.mark.parametrize("stated", [True, False])
def test_activation_checkpointing_is_taken_over_where_it_is_stated(stated: bool) -> None:
    imported = from_verl({"actor_rollout_ref.model.enable_gradient_checkpointing": stated})
    assert option(imported, "batch.activation_checkpointing") is stated
    assert option(from_verl({}), "batch.activation_checkpointing") is None


def test_verl_arguments_of_the_chat_template() -> None:
    stated = {"data.apply_chat_template_kwargs.enable_thinking": False, "data.apply_chat_template_kwargs.level": "low"}
    imported = from_verl(stated)
    assert option(imported, "prompt.template_arguments") == {"enable_thinking": False, "level": "low"}
    assert not said(imported, "data.apply_chat_template_kwargs")
