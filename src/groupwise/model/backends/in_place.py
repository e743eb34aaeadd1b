"""Gradients of the widest weights, embedding and output head, added to `.grad` where it stands.

Left to autograd, each pass makes a tensor of the size of the vocabulary for the head and another one for the embedding,
and adds both to the third, which is the gradient: with a large vocabulary and small micro-batches that is most of the
memory and much of the time. It only serves `backward()`: `torch.autograd.grad` would not see these gradients.

Axes: T tokens, V vocabulary, D model width.
"""

from typing import Any

import torch
from torch import Tensor, nn

from groupwise.model.backends.supported import is_bare


def takes_in_place(weight: Tensor) -> bool:
    """Whether the gradient of a weight may be added without autograd: a weight as torch keeps it, unwatched."""
    watched = bool(weight._backward_hooks) or bool(getattr(weight, "_post_accumulate_grad_hooks", None))
    exact = weight.dtype in (torch.float32, torch.float64)
    return type(weight) is nn.Parameter and weight.requires_grad and exact and not watched


def gradient(weight: Tensor) -> Tensor:
    """The weight's gradient, zeros where it had none."""
    if weight.grad is None:
        weight.grad = torch.zeros_like(weight)
    return weight.grad


class _Embedded(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight_VD: Tensor, token_ids_T: Tensor, left_out: int | None) -> Tensor:
        ctx.weight, ctx.left_out = weight_VD, left_out
        ctx.save_for_backward(token_ids_T)
        return weight_VD.index_select(0, token_ids_T)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, None, None]:
        (token_ids_T,) = ctx.saved_tensors
        grad_TD = grads[0]
        if ctx.left_out is not None:
            grad_TD = grad_TD.masked_fill((token_ids_T == ctx.left_out).unsqueeze(1), 0.0)
        gradient(ctx.weight).index_add_(0, token_ids_T, grad_TD)
        return None, None, None


def embedded(embedding: nn.Module, token_ids_T: Tensor, in_place: bool) -> Tensor:
    """Rows of an embedding, (T, D). in_place: its gradient is added to `.grad`, where the embedding allows it."""
    if in_place and isinstance(embedding, nn.Embedding) and _is_plain(embedding) and takes_in_place(embedding.weight):
        rows_TD: Tensor = _Embedded.apply(embedding.weight, token_ids_T, embedding.padding_idx)
        return rows_TD
    found_1TD: Tensor = embedding(token_ids_T.unsqueeze(0))
    return found_1TD[0]


def _is_plain(embedding: nn.Embedding) -> bool:
    changed = embedding.max_norm is not None or embedding.scale_grad_by_freq or embedding.sparse
    return type(embedding) is nn.Embedding and is_bare(embedding) and not changed
