"""Log-probability and entropy of each token straight from its hidden state, without logits that outlive their chunk."""

from typing import Any

import torch
from torch import Tensor, nn


class TokenScores(torch.autograd.Function):
    """(logps_N, entropies_N, entropies_at_1_N) of hidden states under a head without bias; only the first has gradient.

    The gradient of a log-probability towards its logits is (one-hot - softmax) / temperature. Where all N tokens make
    one chunk, their softmax waits for the backward pass, which then works in place on it; where they make several, the
    backward pass computes the logits of each chunk again. No other tensor is as wide as the vocabulary.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden_ND: Tensor,
        weight_VD: Tensor,
        head: nn.Module,
        target_N: Tensor,
        temperature: float,
        chunk: int,
    ) -> tuple[Tensor, Tensor, Tensor]:
        parts = []
        softmax_NV = None
        for hidden_CD, target_C in zip(hidden_ND.split(chunk), target_N.split(chunk), strict=True):
            *scores, softmax_NV = _scores(head(hidden_CD), target_C, temperature)
            parts.append(scores)
        logps_N, entropies_N, at_1_N, logsumexp_N = (torch.cat(part) for part in zip(*parts, strict=True))
        ctx.head, ctx.temperature, ctx.chunk = head, temperature, chunk
        ctx.softmax_NV = softmax_NV if len(parts) == 1 and any(ctx.needs_input_grad) else None
        device = hidden_ND.device.type
        ctx.autocast = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None
        ctx.save_for_backward(hidden_ND, weight_VD, target_N, logsumexp_N)
        ctx.mark_non_differentiable(entropies_N, at_1_N)
        return logps_N, entropies_N, at_1_N

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        hidden_ND, weight_VD, target_N, logsumexp_N = ctx.saved_tensors
        dtype = ctx.autocast or weight_VD.dtype
        product_VD = weight_VD.to(dtype)
        grad_hidden, grad_weight = [], None
        chunks = zip(*(tensor.split(ctx.chunk) for tensor in (hidden_ND, target_N, logsumexp_N, grads[0])), strict=True)
        for hidden_CD, target_C, logsumexp_C, grad_C in chunks:
            softmax_CV = ctx.softmax_NV
            if softmax_CV is None:
                with torch.no_grad(), torch.autocast(hidden_ND.device.type, dtype, enabled=ctx.autocast is not None):
                    logits_CV = ctx.head(hidden_CD).float()
                softmax_CV = logits_CV.div_(ctx.temperature).sub_(logsumexp_C.unsqueeze(1)).exp_()
            ctx.softmax_NV = None
            slope_C1 = (grad_C / ctx.temperature).unsqueeze(1)
            slope_CV = softmax_CV.mul_(-slope_C1).scatter_add_(1, target_C.unsqueeze(1), slope_C1).to(dtype)
            if ctx.needs_input_grad[0]:
                grad_hidden.append((slope_CV @ product_VD).to(hidden_ND.dtype))
            if ctx.needs_input_grad[1]:
                own_VD = slope_CV.T @ hidden_CD.to(dtype)
                grad_weight = own_VD.to(weight_VD.dtype) if grad_weight is None else grad_weight.add_(own_VD)
        return torch.cat(grad_hidden) if grad_hidden else None, grad_weight, None, None, None, None


def _scores(logits_CV: Tensor, target_C: Tensor, temperature: float) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Log-probabilities, entropies, entropies at temperature 1, log-sum-exp of the scaled logits, and the softmax."""
    logits_CV = logits_CV.float()
    at_1_C = None
    if temperature != 1.0:
        at_1_C = _normalise(logits_CV.clone(), target_C)[1]
        logits_CV = logits_CV.div_(temperature)
    logps_C, entropies_C, logsumexp_C, softmax_CV = _normalise(logits_CV, target_C)
    at_1_C = entropies_C.clone() if at_1_C is None else at_1_C
    return logps_C, entropies_C, at_1_C, logsumexp_C, softmax_CV


def _normalise(logits_CV: Tensor, target_C: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Log-probability, entropy log Z - Σ p·l, log-sum-exp, and the softmax; overwrites the logits.

    The logits l are taken below their maximum, so that the logarithm of a probability near 1 is not lost in rounding.
    """
    highest_C1 = logits_CV.amax(dim=1, keepdim=True)
    logits_CV.sub_(highest_C1)
    softmax_CV = logits_CV.exp()
    total_C1 = softmax_CV.sum(dim=1, keepdim=True)
    softmax_CV.div_(total_C1)
    log_total_C = total_C1.log().squeeze(1)
    logps_C = logits_CV.gather(1, target_C.unsqueeze(1)).squeeze(1) - log_total_C
    mean_C = logits_CV.mul_(softmax_CV).sum(dim=1)
    return logps_C, log_total_C - mean_C, highest_C1.squeeze(1) + log_total_C, softmax_CV
