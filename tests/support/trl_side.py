"""TRL's own code on tensors of ours: its advantages, its engine weights and its loss, with nothing but the network and
the sampling replaced by what the batch says.

Importing this needs TRL.
"""

from collections import defaultdict
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor, nn
from trl import GRPOConfig, GRPOTrainer

from tests.support.trl_batch import EOS, PAD, Batch, Gradients, padded

# Options of TRL's command line that its configuration class does not have.
_OF_THE_SCRIPT = ("reward_funcs",)


class _Scorer(GRPOTrainer):
    """A GRPOTrainer that was never constructed: its methods run on what is set here."""

    def __init__(self, args: GRPOConfig, batch: Batch, use_vllm: bool) -> None:
        names = (
            "num_generations max_completion_length steps_per_generation num_iterations beta loss_type scale_rewards "
            "multi_objective_aggregation importance_sampling_level top_entropy_quantile off_policy_mask_threshold "
            "mask_truncated_completions use_adaptive_entropy entropy_coef vllm_importance_sampling_correction "
            "vllm_importance_sampling_mode vllm_importance_sampling_clip_max vllm_importance_sampling_clip_min"
        )
        model: Any = nn.Linear(1, 1)
        model.is_gradient_checkpointing = False
        rewards = ["correctness", "format"]
        logs: defaultdict[str, Any] = defaultdict(list)
        logs["rewards"], logs["extra"] = defaultdict(list), defaultdict(list)
        state: dict[str, Any] = {name: getattr(args, name) for name in names.split()} | {
            "args": args,
            "batch": batch,
            "leaf": padded(batch.new_N, batch.lengths_B).requires_grad_(),
            "entropy_leaf": padded(batch.entropies_N, batch.lengths_B).requires_grad_(),
            "use_vllm": use_vllm,
            "epsilon_low": args.epsilon,
            "epsilon_high": args.epsilon if args.epsilon_high is None else args.epsilon_high,
            "accelerator": Accelerator(cpu=True),
            "model": model,
            "ref_model": nn.Linear(1, 1),
            "current_gradient_accumulation_steps": args.gradient_accumulation_steps,
            "_tokenizer": SimpleNamespace(pad_token_id=PAD),
            "eos_token_ids": [EOS],
            "pad_to_multiple_of": None,
            "environment_factories": None,
            "environments": None,
            "tools": [],
            "aux_loss_enabled": False,
            "log_multimodal": False,
            "_entropy_bonus_enabled": args.entropy_coef != 0.0,
            "reward_func_names": rewards,
            "reward_funcs": rewards,
            "reward_weights": torch.tensor(args.reward_weights),
            "_metrics": {"train": defaultdict(list)},
            "_logs": logs,
            "_pending_extra_logs": {},
            "_pending_metrics": {},
        }
        for name, value in state.items():
            setattr(self, name, value)

    def _generate(self, _prompts: list[Any]) -> tuple[Any, ...]:
        batch = self.batch
        sampler = [row.tolist() for row in batch.sampler_N.split(batch.lengths_B.tolist())] if self.use_vllm else None
        ids = [row.tolist() for row in batch.ids_N.split(batch.lengths_B.tolist())]
        return [[row] for row in range(len(ids))], ids, None, ids, sampler, {}, None, None

    def _calculate_rewards(self, *_: Any) -> Tensor:
        rewards_BK: Tensor = self.batch.rewards_BK.float()
        return rewards_BK

    def _get_per_token_logps_and_entropies(
        self, model: Any, input_ids: Tensor, *_: Any, compute_entropy: bool = False, **__: Any
    ) -> tuple[Tensor, Tensor | None, None]:
        """The streams of the batch, for the rows whose number stands in the place of the prompt."""
        rows = input_ids[:, 0]
        if compute_entropy:
            return self.leaf[rows], self.entropy_leaf[rows], None
        stream_N = self.batch.ref_N if model is self.ref_model else self.batch.old_N
        return padded(stream_N, self.batch.lengths_B)[rows], None, None


def trl_gradients(options: Mapping[str, Any], batch: Batch) -> Gradients:
    """Loss and gradients of one optimizer step as TRL computes them with these options."""
    given = {name: value for name, value in options.items() if name not in _OF_THE_SCRIPT}
    use_vllm = given.pop("use_vllm", False)
    args = GRPOConfig(output_dir="unused", use_cpu=True, bf16=False, report_to="none", **given)
    scorer = _Scorer(args, batch, use_vllm)
    inputs = scorer._generate_and_score_completions([{"prompt": ""}] * batch.lengths_B.numel())
    total = torch.zeros(())
    for rows in torch.arange(batch.lengths_B.numel()).split(args.per_device_train_batch_size):
        part = {
            name: value[rows] if value.dim() and value.shape[0] == batch.lengths_B.numel() else value
            for name, value in inputs.items()
        }
        loss = scorer._compute_loss(scorer.model, part)
        loss.backward()
        total += loss.detach()
    mask = padded(torch.ones_like(batch.new_N), batch.lengths_B).bool()
    entropy_grad = scorer.entropy_leaf.grad
    return Gradients(
        loss=float(total),
        logps_N=scorer.leaf.grad[mask],
        entropies_N=torch.zeros_like(batch.new_N) if entropy_grad is None else entropy_grad[mask],
        advantages_B=inputs["advantages"],
    )
