"""Entropy of the next-token distribution."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def token_entropy(logits_NV: Tensor) -> Tensor:
    """Entropy of softmax(logits) in nats, over N, with gradient.

    A logit of -inf is a token outside of the kept set. It adds 0, where the formula as written has 0 · inf = NaN in
    value and gradient.
    """
    logps_NV = logits_NV.log_softmax(-1)
    return -(logps_NV.exp() * logps_NV.masked_fill(logits_NV.isneginf(), 0.0)).sum(-1)
