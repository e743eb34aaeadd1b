"""Linear layers with the norm in front of them, as single steps of autograd that keep little for the backward pass.

A norm keeps its input alone and is computed again, so that what the layers behind it read is not kept; nor is the
product of gate and activation. Weights that are multiplied in a reduced precision are rounded anew in each pass:
autograd would keep a rounded copy of each.

Axes: T tokens, D model width, X outputs of a linear layer, F width of the MLP.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import silu

from groupwise.model.backends.packed_cpu.fused import normed, normed_backward, silu_backward


class _Linear(torch.autograd.Function):
    """x Wᵀ + b."""

    @staticmethod
    def forward(ctx: Any, input_TD: Tensor, weight_XD: Tensor, bias_X: Tensor | None, dtype: torch.dtype) -> Tensor:
        ctx.of_input = input_TD.dtype
        input_TD = input_TD.to(dtype)
        ctx.save_for_backward(input_TD, weight_XD)
        return _product(input_TD, weight_XD, bias_X)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        input_TD, weight_XD = ctx.saved_tensors
        grad_TD = (grads[0] @ weight_XD.to(grads[0].dtype)).to(ctx.of_input) if ctx.needs_input_grad[0] else None
        return grad_TD, *_of_weights(grads[0], input_TD, weight_XD, ctx.needs_input_grad[1:3]), None


class _AdaptedLinear(torch.autograd.Function):
    """x Wᵀ + b + s·(x Aᵀ) Bᵀ with frozen W and b; A and B are of rank R (Hu et al. 2021, 2106.09685)."""

    @staticmethod
    def forward(
        ctx: Any,
        input_TD: Tensor,
        weight_XD: Tensor,
        bias_X: Tensor | None,
        down_RD: Tensor,
        up_XR: Tensor,
        scale: float,
        dtype: torch.dtype,
    ) -> Tensor:
        ctx.of_input, ctx.scale = input_TD.dtype, scale
        input_TD = input_TD.to(dtype)
        low_TR = _product(input_TD, down_RD, None)
        ctx.save_for_backward(input_TD, low_TR, weight_XD, down_RD, up_XR)
        return _product(input_TD, weight_XD, bias_X).addmm_(low_TR, up_XR.to(dtype).T, alpha=scale)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        input_TD, low_TR, weight_XD, down_RD, up_XR = ctx.saved_tensors
        grad_TX, dtype = grads[0], input_TD.dtype
        grad_TR = (grad_TX @ up_XR.to(dtype)).mul_(ctx.scale)
        of_up = (grad_TX.T @ low_TR).to(up_XR.dtype).mul_(ctx.scale) if ctx.needs_input_grad[4] else None
        of_down = (grad_TR.T @ input_TD).to(down_RD.dtype) if ctx.needs_input_grad[3] else None
        grad_TD = None
        if ctx.needs_input_grad[0]:
            grad_TD = (grad_TX @ weight_XD.to(dtype)).addmm_(grad_TR, down_RD.to(dtype)).to(ctx.of_input)
        return grad_TD, None, None, of_down, of_up, None, None


class _NormedLinears(torch.autograd.Function):
    """Several linear layers of one normed input; arguments behind the four of the norm: weight and bias of each."""

    @staticmethod
    def forward(
        ctx: Any, input_TD: Tensor, scale_D: Tensor, epsilon: float, dtype: torch.dtype, *parts: Tensor | None
    ) -> tuple[Tensor, ...]:
        weights, biases = [part for part in parts[::2] if part is not None], parts[1::2]
        normed_TD, inverse_T1 = normed(input_TD, scale_D, epsilon)
        ctx.dtype = dtype
        ctx.save_for_backward(input_TD, scale_D, inverse_T1, *weights)
        normed_TD = normed_TD.to(dtype)
        return tuple(_product(normed_TD, *pair) for pair in zip(weights, biases, strict=True))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        input_TD, scale_D, inverse_T1, *weights = ctx.saved_tensors
        needed = ctx.needs_input_grad
        normed_TD = (input_TD * inverse_T1).mul_(scale_D).to(ctx.dtype)
        of_weights: list[Tensor | None] = []
        for index, (grad_TX, weight_XD) in enumerate(zip(grads, weights, strict=True)):
            own = needed[4 + 2 * index : 6 + 2 * index]
            of_weights += _of_weights(grad_TX, normed_TD, weight_XD, own)
        del normed_TD
        if not any(needed[:2]):
            return None, None, None, None, *of_weights
        grad_TD = _summed(grads, weights)
        return *normed_backward(grad_TD, input_TD, scale_D, inverse_T1, needed[:2]), None, None, *of_weights


class _NormedMLP(torch.autograd.Function):
    """down(silu(gate(n)) · up(n)) of a normed input n, without biases (Shazeer 2020, 2002.05202).

    Arguments behind the four of the norm: the weights of gate, up and down.
    """

    @staticmethod
    def forward(
        ctx: Any, input_TD: Tensor, scale_D: Tensor, epsilon: float, dtype: torch.dtype, *weights: Tensor
    ) -> Tensor:
        gate_FD, up_FD, down_DF = weights
        normed_TD, inverse_T1 = normed(input_TD, scale_D, epsilon)
        normed_TD = normed_TD.to(dtype)
        gate_TF, up_TF = (_product(normed_TD, weight_FD, None) for weight_FD in (gate_FD, up_FD))
        ctx.save_for_backward(input_TD, scale_D, inverse_T1, gate_TF, up_TF, gate_FD, up_FD, down_DF)
        return _product(silu(gate_TF).mul_(up_TF), down_DF, None)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        input_TD, scale_D, inverse_T1, gate_TF, up_TF, gate_FD, up_FD, down_DF = ctx.saved_tensors
        needed, dtype = ctx.needs_input_grad, gate_TF.dtype
        active_TF = silu(gate_TF)
        of_down, _ = _of_weights(grads[0], active_TF * up_TF, down_DF, (needed[6], False))
        slope_TF = grads[0] @ down_DF.to(dtype)
        grad_up_TF = active_TF.mul_(slope_TF)
        grad_gate_TF = silu_backward(slope_TF.mul_(up_TF), gate_TF)
        del slope_TF
        normed_TD = (input_TD * inverse_T1).mul_(scale_D).to(dtype)
        of_gate, _ = _of_weights(grad_gate_TF, normed_TD, gate_FD, (needed[4], False))
        of_up, _ = _of_weights(grad_up_TF, normed_TD, up_FD, (needed[5], False))
        del normed_TD
        if not any(needed[:2]):
            return None, None, None, None, of_gate, of_up, of_down
        grad_TD = _summed((grad_gate_TF, grad_up_TF), (gate_FD, up_FD))
        return *normed_backward(grad_TD, input_TD, scale_D, inverse_T1, needed[:2]), None, None, of_gate, of_up, of_down


def linear(input_TD: Tensor, layer: nn.Linear, dtype: torch.dtype) -> Tensor:
    """A linear layer whose inputs are not kept in another precision than that of the product, `dtype`."""
    output_TX: Tensor = _Linear.apply(input_TD, layer.weight, layer.bias, dtype)
    return output_TX


def adapted_linear(
    input_TD: Tensor, layer: nn.Linear, down_RD: Tensor, up_XR: Tensor, scale: float, dtype: torch.dtype
) -> Tensor:
    """A frozen linear layer with A and B of low rank next to it; of the pass it keeps its input and x Aᵀ alone."""
    output_TX: Tensor = _AdaptedLinear.apply(input_TD, layer.weight, layer.bias, down_RD, up_XR, scale, dtype)
    return output_TX


def normed_linears(
    input_TD: Tensor, scale_D: Tensor, epsilon: float, dtype: torch.dtype, layers: Sequence[nn.Linear]
) -> tuple[Tensor, ...]:
    """Linear layers of one input behind its root-mean-square norm, with products in `dtype`."""
    weights = [weight for layer in layers for weight in (layer.weight, layer.bias)]
    outputs: tuple[Tensor, ...] = _NormedLinears.apply(input_TD, scale_D, epsilon, dtype, *weights)
    return outputs


def normed_mlp(
    input_TD: Tensor, scale_D: Tensor, epsilon: float, dtype: torch.dtype, layers: Sequence[nn.Linear]
) -> Tensor:
    """A gated MLP of gate, up and down, without biases, behind its norm, with products in `dtype`."""
    output_TD: Tensor = _NormedMLP.apply(input_TD, scale_D, epsilon, dtype, *(layer.weight for layer in layers))
    return output_TD


def _product(input_TD: Tensor, weight_XD: Tensor, bias_X: Tensor | None) -> Tensor:
    dtype = input_TD.dtype
    bias_X = None if bias_X is None else bias_X.to(dtype)
    return nn.functional.linear(input_TD, weight_XD.to(dtype), bias_X)


def _of_weights(
    grad_TX: Tensor, input_TD: Tensor, weight_XD: Tensor, needed: Sequence[bool]
) -> tuple[Tensor | None, Tensor | None]:
    """The gradients of a linear layer's weight and bias."""
    of_weight = (grad_TX.T @ input_TD).to(weight_XD.dtype) if needed[0] else None
    return of_weight, grad_TX.sum(0).to(weight_XD.dtype) if needed[1] else None


def _summed(grads: Sequence[Tensor], weights: Sequence[Tensor]) -> Tensor:
    """The gradient of the input of several linear layers, in float32 or wider, which the norm before them needs."""
    parts = (grad_TX @ weight_XD.to(grad_TX.dtype) for grad_TX, weight_XD in zip(grads, weights, strict=True))
    first_TD = next(parts)
    total_TD = first_TD.to(torch.promote_types(first_TD.dtype, torch.float32))
    for part_TD in parts:
        total_TD.add_(part_TD)
    return total_TD
