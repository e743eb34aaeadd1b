"""What updates the weights: AdamW for all, or Muon for the matrices within layers beside it."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from groupwise.config import TrainConfig
from groupwise.model.load import Policy

# Embeddings and head are matrices, but look-ups: Muon is not for them.
OUTER = ("embed", "lm_head")


def is_inner_matrix(name: str, weight: nn.Parameter) -> bool:
    """Whether Muon is for a weight (Jordan et al. 2024)."""
    return weight.ndim == 2 and not any(part in name for part in OUTER)


class Joined(torch.optim.Optimizer):
    """Several optimizers of different weights as one: its groups and its state are theirs."""

    def __init__(self, parts: Sequence[torch.optim.Optimizer]) -> None:
        self.parts = parts
        super().__init__([group for part in parts for group in part.param_groups], {})
        for part in parts:
            part.state = self.state

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]  # noqa: ARG002
        """A step of each."""
        for part in self.parts:
            part.step()


def make_optimizer(policy: Policy, config: TrainConfig) -> torch.optim.Optimizer:
    """The optimizer of a run over the trained weights.

    Muon's step is scaled by 0.2·√max(rows, columns), so that it is as long as one of AdamW, and one learning rate and
    weight decay fit both (Liu et al. 2025, 2502.16982, equation 4).
    """
    options = config.optimizer
    inner = {id(w) for name, w in policy.trainable() if options.type == "muon" and is_inner_matrix(name, w)}
    others = [weight for _, weight in policy.trainable() if id(weight) not in inner]
    matrices = [weight for _, weight in policy.trainable() if id(weight) in inner]
    groups: list[dict[str, Any]] = [{"params": others}]
    if options.decay_exempt != "none":
        # Gains and biases are the vectors among the weights; what else a layer has is a matrix.
        parted = ([w for w in others if (w.ndim > 1) == is_matrix] for is_matrix in (True, False))
        groups = [{"params": next(parted)}, {"params": next(parted), "weight_decay": 0.0}]
    parts: list[torch.optim.Optimizer] = []
    if any(group["params"] for group in groups):
        adamw = torch.optim.AdamW(
            [group for group in groups if group["params"]],
            lr=options.lr,
            betas=(options.beta1, options.beta2),
            eps=options.epsilon,
            weight_decay=options.weight_decay,
            fused=True,
        )
        parts.append(adamw)
    if matrices:
        muon = torch.optim.Muon(
            matrices,
            lr=options.lr,
            weight_decay=options.weight_decay,
            momentum=options.momentum,
            adjust_lr_fn="match_rms_adamw",
        )
        parts.append(muon)
    return parts[0] if len(parts) == 1 else Joined(parts)
