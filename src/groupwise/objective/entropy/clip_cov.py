"""Clip-Cov: a few tokens that lower the entropy most lose their gradient."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar, Literal

from groupwise.findings import Finding, error
from groupwise.lazy import torch
from groupwise.objective.entropy.covariance import KEY, Covariance
from groupwise.technique import Card, number

if TYPE_CHECKING:
    from torch import Generator, Tensor

    from groupwise.config import TrainConfig


class ClipCov(Covariance):
    """`fraction` of all tokens, drawn from those with a covariance between `low` and `high`, lose their gradient.

    That of the policy term. 2505.22617; the paper has 2e-4 between 1 and 5.
    """

    type: Literal["clip_cov"] = "clip_cov"

    low: float = 1.0
    """Smallest covariance of a token that may be picked."""

    high: float = 5.0
    """Largest covariance of a token that may be picked."""

    cards: ClassVar[tuple[Card, ...]] = (
        Card(
            name="Clip-Cov",
            source="2505.22617",
            what="a few tokens that lower the entropy most lose their gradient",
            equation="drop a random fraction among cov = (log π - mean)·(A - mean) in (low, high)",
            values="fraction 2e-4 between 1 and 5",
            keys=(f"{KEY}.fraction", f"{KEY}.low", f"{KEY}.high"),
            is_on=lambda c: isinstance(c.entropy.covariance, ClipCov),
            cost="one more forward pass, before the step",
            test="objective/test_mask.py::test_clip_cov_draws_from_the_band",
        ),
    )

    def selected(self, covariance_N: Tensor, generator: Generator) -> Tensor:
        """Bool over N, True for tokens whose policy gradient is dropped: at least one where any is in the band."""
        candidates = ((covariance_N > self.low) & (covariance_N < self.high)).nonzero().squeeze(1)
        order = torch.randperm(candidates.numel(), generator=generator, device=generator.device).to(candidates.device)
        selected_N = torch.zeros_like(covariance_N, dtype=torch.bool)
        selected_N[candidates[order[: self.count(covariance_N.numel())]]] = True
        return selected_N

    def formula(self) -> str:
        band = f"{number(self.low)} … {number(self.high)}"
        return (
            f"0 for {100 * self.fraction:g} % of tokens, drawn among those with a covariance of log π and A in {band}"
        )

    def findings(self, config: TrainConfig) -> Iterator[Finding]:
        """An empty band."""
        yield from super().findings(config)
        if self.low >= self.high:
            text = (
                f"{KEY}.low={self.low} is not below {KEY}.high={self.high}: no covariance lies between them; the paper "
                "has 1 and 5"
            )
            yield error((f"{KEY}.low", f"{KEY}.high"), text)
