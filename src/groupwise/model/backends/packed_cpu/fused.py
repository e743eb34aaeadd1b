"""Norm, rotary embedding and gated activation with backward passes by hand.

Left to autograd, each of them is many passes over memory that keep many intermediate results. Here each keeps its
inputs alone and computes the rest again. Sums and rotations are in float32 or, for float64 inputs, in float64.

Axes: T tokens, H heads, D width of a row or of a head, F width of the MLP.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import silu


def normed(input_TD: Tensor, weight_D: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    """x / sqrt(mean(x²) + epsilon) · weight (Zhang and Sennrich 2019, 1910.07467), and the factor before the weight.

    Both in float32, or in float64 for such an input; `normed_backward` takes the second.
    """
    x_TD = _precise(input_TD)
    inverse_T1 = x_TD.square().mean(dim=-1, keepdim=True).add_(epsilon).rsqrt_()
    return (x_TD * inverse_T1).mul_(weight_D), inverse_T1


def normed_backward(
    grad_TD: Tensor, input_TD: Tensor, weight_D: Tensor, inverse_T1: Tensor, needed: Sequence[bool]
) -> tuple[Tensor | None, Tensor | None]:
    """The gradients of input and weight, as far as they are needed."""
    width = input_TD.shape[-1]
    grad_TD = _precise(grad_TD).to(inverse_T1.dtype)
    normed_TD = _precise(input_TD) * inverse_T1
    grad_weight_D = (grad_TD * normed_TD).view(-1, width).sum(0).to(weight_D.dtype) if needed[1] else None
    if not needed[0]:
        return None, grad_weight_D
    slope_TD = grad_TD * weight_D
    along_T1 = torch.linalg.vecdot(slope_TD, normed_TD).unsqueeze(-1).div_(width)
    return slope_TD.addcmul_(normed_TD, along_T1, value=-1).mul_(inverse_T1).to(input_TD.dtype), grad_weight_D


class _RMSNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, input_TD: Tensor, weight_D: Tensor, epsilon: float, dtype: torch.dtype) -> Tensor:
        normed_TD, inverse_T1 = normed(input_TD, weight_D, epsilon)
        ctx.save_for_backward(input_TD, weight_D, inverse_T1)
        return normed_TD.to(dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        input_TD, weight_D, inverse_T1 = ctx.saved_tensors
        return *normed_backward(grads[0], input_TD, weight_D, inverse_T1, ctx.needs_input_grad[:2]), None, None


def rms_norm(input_TD: Tensor, weight_D: Tensor, epsilon: float, dtype: torch.dtype) -> Tensor:
    """Root-mean-square norm over the last axis, handed on in `dtype`."""
    normed_TD: Tensor = _RMSNorm.apply(input_TD, weight_D, epsilon, dtype)
    return normed_TD


class _Rotary(torch.autograd.Function):
    """Rotates pairs (i, i + D / 2) of every head; the backward pass rotates back."""

    @staticmethod
    def forward(ctx: Any, input_TX: Tensor, cosine_TX: Tensor, sine_TX: Tensor, width: int) -> Tensor:
        ctx.save_for_backward(cosine_TX, sine_TX)
        ctx.width, ctx.dtype = width, input_TX.dtype
        return _turned(input_TX, cosine_TX, sine_TX, width, 1.0)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        cosine_TX, sine_TX = ctx.saved_tensors
        return _turned(grads[0], cosine_TX, sine_TX, ctx.width, -1.0).to(ctx.dtype), None, None, None


def _turned(input_TX: Tensor, cosine_TX: Tensor, sine_TX: Tensor, width: int, direction: float) -> Tensor:
    x_TX = input_TX.to(cosine_TX.dtype)
    columns = x_TX.shape[1]
    x_THD = x_TX.reshape(x_TX.shape[0], -1, width)
    half = width // 2
    other_TX = torch.cat([x_THD[..., half:], x_THD[..., :half]], dim=-1).view_as(x_TX).mul_(sine_TX[:, :columns])
    return torch.addcmul(other_TX if direction == 1.0 else other_TX.neg_(), x_TX, cosine_TX[:, :columns])


def rotary(input_TX: Tensor, cosine_TX: Tensor, sine_TX: Tensor, width: int) -> Tensor:
    """Heads of `width`, side by side in one row, turned by the angles of `rotary_table`."""
    turned_TX: Tensor = _Rotary.apply(input_TX, cosine_TX, sine_TX, width)
    return turned_TX


def rotary_table(cosine_TD: Tensor, sine_TD: Tensor, heads: int) -> tuple[Tensor, Tensor]:
    """Cosines and signed sines for up to `heads` heads side by side: long rows make for long inner loops."""
    half = cosine_TD.shape[1] // 2
    signed_TD = torch.cat([-sine_TD[:, :half], sine_TD[:, half:]], dim=1)
    return _precise(cosine_TD).repeat(1, heads), _precise(signed_TD).repeat(1, heads)


class _SwiGLU(torch.autograd.Function):
    """silu(gate) · up (Shazeer 2020, 2002.05202)."""

    @staticmethod
    def forward(ctx: Any, gate_TF: Tensor, up_TF: Tensor) -> Tensor:
        ctx.save_for_backward(gate_TF, up_TF)
        return silu(gate_TF).mul_(up_TF)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        gate_TF, up_TF = ctx.saved_tensors
        grad_TF = grads[0]
        grad_up_TF = silu(gate_TF).mul_(grad_TF)
        return silu_backward(grad_TF * up_TF, gate_TF), grad_up_TF


def silu_backward(grad_TF: Tensor, gate_TF: Tensor) -> Tensor:
    """The gradient of the input of silu."""
    slope_TF: Tensor = torch.ops.aten.silu_backward(grad_TF, gate_TF)
    return slope_TF


def swiglu(gate_TF: Tensor, up_TF: Tensor) -> Tensor:
    """The gated activation of an MLP."""
    gated_TF: Tensor = _SwiGLU.apply(gate_TF, up_TF)
    return gated_TF


def _precise(values: Tensor) -> Tensor:
    return values.to(torch.promote_types(values.dtype, torch.float32))
