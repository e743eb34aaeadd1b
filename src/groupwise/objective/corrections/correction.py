"""The engine weight π_old/π_sampler: same weights, two programs. Always detached, multiplied onto the policy term.

An inference engine computes the log-probabilities of its samples with other kernels and another precision than the
trainer does. The samples are then drawn from π_sampler, and each token's gradient needs the weight π_old/π_sampler.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

from groupwise.findings import Finding, error, warning
from groupwise.lazy import torch
from groupwise.objective.ratios.ratio import clamp_log_ratio
from groupwise.objective.segments import segment_index, segment_mean, segment_sum
from groupwise.technique import Technique

if TYPE_CHECKING:
    from torch import Tensor

    from groupwise.config import TrainConfig

Level = Literal["token", "sequence_product", "sequence_geometric_mean"]
SYMBOLS: dict[Level, str] = {
    "token": "π_old/π_engine of the token",
    "sequence_product": "Π_t π_old/π_engine of the answer",
    "sequence_geometric_mean": "exp((1/L) Σ_t log π_old/π_engine) of the answer",
}


class NoCorrection(Technique):
    """No correction: the weights of tokens are measured and act on nothing."""

    type: Literal["none"] = "none"

    def weights(self, old_logps_N: Tensor, sampler_logps_N: Tensor, lengths_E: Tensor) -> Tensor:
        """π_old/π_sampler of each token, detached."""
        return engine_weights(old_logps_N, sampler_logps_N, lengths_E, "token")

    def limited(self, weights_N: Tensor) -> Tensor:
        """1 everywhere."""
        return torch.ones_like(weights_N)

    def formula(self) -> str:
        """Nothing."""
        return ""


class EngineCorrection(Technique):
    """Base of the corrections."""

    type: Any

    level: Level = "token"
    """Of the token alone (Yao et al. 2025); of the whole answer, exact, with a spread that grows with the length; or
    the geometric mean over the answer. Others call either of the last two "sequence"."""

    def weights(self, old_logps_N: Tensor, sampler_logps_N: Tensor, lengths_E: Tensor) -> Tensor:
        """Importance weight π_old/π_sampler over N, detached; levels of an answer repeat its value."""
        return engine_weights(old_logps_N, sampler_logps_N, lengths_E, self.level)

    @abstractmethod
    def limited(self, weights_N: Tensor) -> Tensor:
        """What the policy term is multiplied with, over N."""

    @abstractmethod
    def formula(self) -> str:
        """w as text."""

    def findings(self, config: TrainConfig) -> Iterator[Finding]:
        """A weight that is 1 by construction."""
        this = f"engine_correction={self.type}"
        if config.objective.old_logps == "sampler":
            text = (
                f"{this} with objective.old_logps=sampler: both sides of the weight are the engine's own numbers, so "
                "that it is exactly 1; set objective.old_logps=trainer"
            )
            yield error(("engine_correction", "objective.old_logps"), text)
        elif config.engine_is_trainer:
            text = (
                f"{this} with model.compute_dtype=float32: the engine samples with the trainer's own weights and "
                "arithmetic, so that every weight is 1 up to rounding; set model.compute_dtype=bfloat16, or "
                "engine_correction=none"
            )
            yield warning(("engine_correction", "model.compute_dtype"), text)


def engine_weights(old_logps_N: Tensor, sampler_logps_N: Tensor, lengths_E: Tensor, level: Level) -> Tensor:
    """Importance weight π_old/π_sampler over N, detached, at a level of `EngineCorrection`."""
    log_weight_N = old_logps_N.detach() - sampler_logps_N.detach()
    if level != "token":
        pooled = segment_sum if level == "sequence_product" else segment_mean
        log_weight_N = pooled(log_weight_N, lengths_E)[segment_index(lengths_E, log_weight_N.numel())]
    return clamp_log_ratio(log_weight_N).exp()


def effective_sample_fraction(weight_mean: float, weight_square_mean: float) -> float:
    """(Σw)²/(n·Σw²), from 1/n to 1: the fraction of the samples that the weighted average really uses (Kong 1992).

    Takes the two means rather than the weights, because these merge over micro-batches and ranks and the quotient does
    not.
    """
    return weight_mean * weight_mean / weight_square_mean if weight_square_mean > 0 else 0.0
