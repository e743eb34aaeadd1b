"""What tokens with a high covariance of log-probability and advantage have in common: they lower the entropy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

from groupwise.findings import Finding, error
from groupwise.options import Fraction
from groupwise.technique import Technique

if TYPE_CHECKING:
    from torch import Tensor

    from groupwise.config import TrainConfig

KEY = "entropy.covariance"


class NoCovariance(Technique):
    """Covariances are not computed."""

    type: Literal["none"] = "none"


class Covariance(Technique):
    """Base of what is done about such tokens."""

    type: Any

    fraction: Fraction = 2e-4
    """Of the tokens of an optimizer step; at least one token is picked."""

    def count(self, tokens: int) -> int:
        """How many of these tokens are picked, at least one."""
        return max(int(self.fraction * tokens), 1)

    def findings(self, config: TrainConfig) -> Iterator[Finding]:  # noqa: ARG002
        """Nothing to pick."""
        if self.fraction == 0:
            text = (
                f"{KEY}.fraction=0 with {KEY}={self.type}: at least one token is picked however small the fraction; "
                f"set {KEY}=none"
            )
            yield error((f"{KEY}.fraction", KEY), text)


def token_covariance(logps_N: Tensor, advantages_N: Tensor) -> Tensor:
    """(log π - mean log π)·(A - mean A) of each token, over all tokens of the optimizer step (2505.22617).

    Its mean is how fast the policy's entropy falls. The paper takes the log-probabilities of the current policy;
    those of the old one are the same in the first minibatch, and known before the step is split into micro-batches.
    """
    return (logps_N - logps_N.mean()) * (advantages_N - advantages_N.mean())
