"""Routers of a mixture of experts: the model's own auxiliary loss, and how evenly tokens are divided.

Axes: T tokens that were read, X experts.
"""

import inspect
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from groupwise.model.backends.head import forward_behind
from groupwise.model.backends.protocol import Routed, Scores

ASKED = "output_router_logits"


def has_router_loss(model: PreTrainedModel) -> bool:
    """Whether the model gives the logits of its routers, and a loss of them."""
    parameters = inspect.signature(type(model).forward).parameters
    return ASKED in parameters and bool(_experts_of_a_token(model.config))


def with_routed(scores: Scores, model: PreTrainedModel, logits: Sequence[Tensor]) -> Scores:
    """The scores with what the routers did, by their logits of every layer, (T, X) each; unchanged without any."""
    if not logits:
        return scores
    hidden_11D = logits[0].new_zeros(1, 1, int(model.config.hidden_size))
    loss: Tensor = forward_behind(model, hidden_11D, tuple(logits), **{ASKED: True}).aux_loss
    most, loads, entropies = _experts_of_a_token(model.config), [], []
    for logits_TX in logits:
        shares_TX = logits_TX.detach().float().softmax(-1)
        load_X = shares_TX.topk(most, dim=-1).indices.flatten().bincount(minlength=shares_TX.shape[1])
        loads.append(load_X.max() * len(load_X) / load_X.sum())
        entropies.append(torch.special.entr(shares_TX).sum(-1).mean())
    return replace(scores, routed=Routed(loss, torch.stack(loads).max(), torch.stack(entropies).mean()))


def _experts_of_a_token(config: Any) -> int:
    return int(getattr(config, "num_experts_per_tok", None) or 0)
