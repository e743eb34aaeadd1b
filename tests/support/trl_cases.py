"""The options that are compared with TRL, and the same options through groupwise's own code."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch

from groupwise.completion import Completion, Prompt
from groupwise.config import TrainConfig
from groupwise.grading.graded_group import GradedGroup, graded_group
from groupwise.grading.records import Score
from groupwise.importing.record import Source
from groupwise.importing.trl import translate
from groupwise.model.score import Scores
from groupwise.objective.entropy.top_entropy import TopEntropy
from groupwise.objective.loss import policy_loss
from groupwise.problem import Problem
from groupwise.ranks import Ranks
from groupwise.training.advantages import advantages_of
from groupwise.training.step_batch import count_step, step_batch
from groupwise.training.streams import with_selection
from groupwise.training.update import loss_inputs, objective_of
from tests.support.trl_batch import EOS, Batch, Gradients

# Two passes over the completions: the old policy is then another than the new one, in both trainers.
BASE: dict[str, Any] = {
    "num_generations": 4,
    "max_completion_length": 9,
    "per_device_train_batch_size": 16,
    "num_iterations": 2,
    "reward_funcs": ["accuracy_reward", "think_format_reward"],
    "reward_weights": [1.0, 0.5],
    "max_steps": 2,
}
_VLLM = {"use_vllm": True, "vllm_importance_sampling_clip_max": 1.2}


class Case(NamedTuple):
    """Options of TRL that the two trainers are compared with. why: they differ, if they do."""

    name: str
    options: dict[str, Any]
    why: str = ""


# What has to agree.
EQUAL = (
    Case("loss_type=grpo", {"loss_type": "grpo"}),
    Case("loss_type=dapo", {"loss_type": "dapo"}),
    Case("loss_type=dr_grpo", {"loss_type": "dr_grpo", "scale_rewards": "none"}),
    Case("loss_type=bnpo, one micro-batch", {"loss_type": "bnpo"}),
    Case("loss_type=cispo, epsilon_high=5", {"loss_type": "cispo", "epsilon_high": 5.0}),
    Case("loss_type=cispo, epsilon_high=1.2", {"loss_type": "cispo", "epsilon_high": 1.2}),
    Case("loss_type=cispo at its default, cap 0.2", {"loss_type": "cispo"}),
    Case("loss_type=sapo", {"loss_type": "sapo"}),
    Case("loss_type=luspo, sequence", {"loss_type": "luspo", "importance_sampling_level": "sequence"}),
    Case("loss_type=luspo, token", {"loss_type": "luspo"}),
    Case("loss_type=vespo", {"loss_type": "vespo"}),
    Case("epsilon_high=0.28", {"epsilon_high": 0.28}),
    Case(
        "GSPO, 3e-4 / 4e-4",
        {"loss_type": "grpo", "importance_sampling_level": "sequence", "epsilon": 3e-4, "epsilon_high": 4e-4},
    ),
    Case("GSPO, 0.2", {"loss_type": "grpo", "importance_sampling_level": "sequence"}),
    Case("sequence ratio, dapo", {"importance_sampling_level": "sequence"}),
    Case(
        "sequence ratio, cispo", {"loss_type": "cispo", "importance_sampling_level": "sequence", "epsilon_high": 1.05}
    ),
    Case("delta=1.5 (above 1 + epsilon_high)", {"delta": 1.5}),
    Case("delta=1.1 (below 1 + epsilon_high)", {"delta": 1.1}),
    Case("delta=1.1, sequence", {"delta": 1.1, "importance_sampling_level": "sequence", "epsilon": 0.05}),
    Case("beta=0.04, use_bias_correction_kl", {"beta": 0.04}),
    Case("beta=0.04, plain k3", {"beta": 0.04, "use_bias_correction_kl": False}),
    Case(
        "beta=0.04, grpo, GSPO, plain k3",
        {"beta": 0.04, "loss_type": "grpo", "importance_sampling_level": "sequence", "use_bias_correction_kl": False},
    ),
    Case("off_policy_mask_threshold=0.05", {"off_policy_mask_threshold": 0.05}),
    Case("off_policy_mask_threshold with KL", {"off_policy_mask_threshold": 0.05, "beta": 0.1, "loss_type": "grpo"}),
    Case(
        "off_policy_mask_threshold against vLLM",
        {**_VLLM, "off_policy_mask_threshold": 0.05, "vllm_importance_sampling_correction": False},
    ),
    Case("scale_rewards=group", {"scale_rewards": "group"}),
    Case("scale_rewards=batch", {"scale_rewards": "batch"}),
    Case("scale_rewards=none", {"scale_rewards": "none"}),
    Case("normalize_then_sum (GDPO)", {"multi_objective_aggregation": "normalize_then_sum"}),
    Case("vLLM token_truncate, 1.2", {**_VLLM, "vllm_importance_sampling_mode": "token_truncate"}),
    Case("vLLM sequence_truncate, 1.2", {**_VLLM, "vllm_importance_sampling_mode": "sequence_truncate"}),
    Case(
        "vLLM token_mask, 0.8 to 1.2",
        {**_VLLM, "vllm_importance_sampling_mode": "token_mask", "vllm_importance_sampling_clip_min": 0.8},
    ),
    Case("vLLM sequence_mask, 0.5 to 3", {"use_vllm": True, "vllm_importance_sampling_clip_min": 0.5}),
    Case("vLLM sequence_mask, default", {"use_vllm": True}),
    Case(
        "vLLM token_truncate with KL and GSPO",
        {
            **_VLLM,
            "vllm_importance_sampling_mode": "token_truncate",
            "beta": 0.04,
            "loss_type": "grpo",
            "importance_sampling_level": "sequence",
            "use_bias_correction_kl": False,
        },
    ),
    Case("mask_truncated_completions, dapo", {"mask_truncated_completions": True}),
    Case("top_entropy_quantile=0.2", {"top_entropy_quantile": 0.2}),
    Case("entropy_coef=0.01, dapo", {"entropy_coef": 0.01}),
    Case("num_iterations=1: the old policy is the new one", {"num_iterations": 1}),
)
# The gradient of TRL adds up over micro-batches; that of groupwise is always the one of the whole step.
SPLIT = tuple(
    Case(
        f"{loss}, 4 micro-batches of 4",
        {
            "loss_type": loss,
            "epsilon_high": 1.2 if loss == "cispo" else 0.28,
            "per_device_train_batch_size": 4,
            "gradient_accumulation_steps": 4,
        },
    )
    for loss in ("grpo", "dapo", "dr_grpo", "cispo", "sapo", "luspo", "vespo")
)
# Equal when each micro-batch is taken for a step of its own.
OF_MICRO_BATCHES = Case(
    "bnpo, 4 micro-batches of 4",
    {"loss_type": "bnpo", "per_device_train_batch_size": 4, "gradient_accumulation_steps": 4},
    "TRL takes the token mean of each micro-batch; groupwise that of the step",
)
# Where the two differ by definition.
DIFFERENT = (
    OF_MICRO_BATCHES,
    Case(
        "mask_truncated_completions, grpo",
        {"mask_truncated_completions": True, "loss_type": "grpo"},
        "TRL counts masked sequences in the mean over sequences",
    ),
    Case(
        "mask_truncated_completions, dr_grpo", {"mask_truncated_completions": True, "loss_type": "dr_grpo"}, "the same"
    ),
    Case(
        "beta=0.04, use_bias_correction_kl, GSPO",
        {"beta": 0.04, "loss_type": "grpo", "importance_sampling_level": "sequence"},
        "TRL weights the KL by the sequence's ratio; groupwise by the token's",
    ),
    Case(
        "vespo with vLLM token_truncate",
        {**_VLLM, "loss_type": "vespo", "vllm_importance_sampling_mode": "token_truncate"},
        "TRL multiplies the engine weight into W; groupwise onto the loss",
    ),
    Case(
        "vLLM token_truncate, 0.8 to 1.2",
        {**_VLLM, "vllm_importance_sampling_mode": "token_truncate", "vllm_importance_sampling_clip_min": 0.8},
        "TRL also raises small weights; a truncated weight of groupwise has no lower bound",
    ),
    Case(
        "entropy_coef=0.01, grpo",
        {"entropy_coef": 0.01, "loss_type": "grpo"},
        "TRL's bonus is a token mean under every loss; groupwise's is weighted as the policy loss",
    ),
    Case(
        "top_entropy_quantile=0.2, 4 micro-batches of 4",
        {"top_entropy_quantile": 0.2, "per_device_train_batch_size": 4, "gradient_accumulation_steps": 4},
        "TRL takes the quantile of each micro-batch; groupwise of the step",
    ),
)


def options_of(case: Case) -> dict[str, Any]:
    return BASE | case.options


def groupwise_gradients(options: Mapping[str, Any], batch: Batch, mean_of_groups: bool = False) -> Gradients:
    """Loss and gradients of one optimizer step as groupwise computes them with the translation of TRL's options.

    `mean_of_groups` takes each group for a step of its own and the mean of their losses: what TRL's bnpo is when its
    micro-batches are the groups.
    """
    imported = translate(Source("options", dict(options)))
    config = TrainConfig.model_validate(imported.config)
    ranks = Ranks()
    graded = _graded_groups(batch, config)
    advantages_PG = advantages_of(graded, config, ranks)
    step = step_batch(graded, advantages_PG, config)
    # What a pass of the trainer and of the reference would have given them.
    step = replace(step, old_logps_N=batch.old_N, ref_logps_N=batch.ref_N, old_entropies_N=batch.entropies_N)
    if isinstance(config.entropy.tokens, TopEntropy):
        step = with_selection(step, config.entropy, 0, ranks)
    new_N, entropies_N = batch.new_N.clone().requires_grad_(), batch.entropies_N.clone().requires_grad_()
    parts = [step.take(episodes) for episodes in step.groups()] if mean_of_groups else [step]
    lengths = [int(part.lengths_E.sum()) for part in parts]
    total = torch.zeros(())
    for part, new, entropies in zip(parts, new_N.split(lengths), entropies_N.split(lengths), strict=True):
        micro = replace(part, old_logps_N=None) if config.updates_per_step == 1 else part
        scores = Scores(new, entropies, entropies.detach())
        inputs = loss_inputs(micro, scores, count_step(part, ranks), config, config.entropy.bonus.start)
        total = total + policy_loss(objective_of(config), inputs).loss / len(parts)
    total.backward()
    assert new_N.grad is not None
    entropy_grad = torch.zeros_like(new_N) if entropies_N.grad is None else entropies_N.grad
    advantages_B = torch.from_numpy(advantages_PG.reshape(-1))
    return Gradients(float(total.detach()), new_N.grad, entropy_grad, advantages_B)


def difference(ours: Gradients, theirs: Gradients) -> tuple[float, float, float]:
    """Largest absolute difference of the loss, of the gradients, and of the advantages."""
    gradients = (ours.logps_N - theirs.logps_N, ours.entropies_N - theirs.entropies_N)
    return (
        abs(ours.loss - theirs.loss),
        max(float(part.abs().max()) for part in gradients),
        float((ours.advantages_B - theirs.advantages_B).abs().max()),
    )


def _graded_groups(batch: Batch, config: TrainConfig) -> list[GradedGroup]:
    lengths = batch.lengths_B.tolist()
    completions = [
        Completion(ids.numpy(), logps.numpy(), "stop" if ids[-1] == EOS else "length", 0)
        for ids, logps in zip(batch.ids_N.split(lengths), batch.sampler_N.split(lengths), strict=True)
    ]
    scores_BK = [[Score(float(reward), "scored") for reward in row] for row in batch.rewards_BK]
    size = batch.samples_per_prompt
    return [
        graded_group(
            position=start,
            problem=Problem(str(start), (), ""),
            prompt=Prompt(np.array([2]), "", False),
            completions=tuple(completions[start : start + size]),
            texts_G=("",) * size,
            verdicts_G=(None,) * size,
            columns={
                name: [row[k] for row in scores_BK[start : start + size]]
                for k, name in enumerate(("correctness", "format"))
            },
            config=config,
        )
        for start in range(0, len(completions), size)
    ]
