"""Entropy of the next-token distribution, and the rule that keeps it near a target."""

from torch import Tensor


def token_entropy(logits_NV: Tensor) -> Tensor:
    """Entropy of softmax(logits) in nats, over N, with gradient.

    A logit of -inf stands for a token outside of the kept set. It adds 0, where the formula as written has 0 · inf =
    NaN in value and gradient.
    """
    logps_NV = logits_NV.log_softmax(-1)
    return -(logps_NV.exp() * logps_NV.masked_fill(logits_NV.isneginf(), 0.0)).sum(-1)


def adapted_coefficient(
    coefficient: float, observed: float, target: float, delta: float, bounds: tuple[float, float]
) -> float:
    """Next coefficient of the entropy bonus (Skywork OR1, 2505.22312).

    One step of `delta` up where the observed entropy is below the target, down where it is above, within `bounds`. The
    paper adds the bonus only where the entropy is not above the target.
    """
    low, high = bounds
    step = delta if observed < target else -delta if observed > target else 0.0
    return min(max(coefficient + step, low), high)
