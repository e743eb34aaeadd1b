"""KL-Cov: the tokens that lower the entropy most are penalised for moving."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar, Literal

from groupwise.findings import Finding, warning
from groupwise.lazy import torch
from groupwise.objective.entropy.covariance import KEY, Covariance
from groupwise.options import PositiveFloat
from groupwise.technique import Card

if TYPE_CHECKING:
    from torch import Tensor

    from groupwise.config import TrainConfig


class KlCov(Covariance):
    """A penalty |log π_new - log π_old| on the `fraction` of tokens with the largest covariance (2505.22617)."""

    type: Literal["kl_cov"] = "kl_cov"

    coefficient: PositiveFloat = 1.0
    """Of the penalty."""

    cards: ClassVar[tuple[Card, ...]] = (
        Card(
            name="KL-Cov",
            source="2505.22617",
            what="the tokens that lower the entropy most are penalised for moving",
            equation="- c·|log π_new - log π_old| on the fraction with the largest cov",
            values="fraction 2e-4, c 1",
            keys=(f"{KEY}.fraction", f"{KEY}.coefficient"),
            is_on=lambda c: isinstance(c.entropy.covariance, KlCov),
            cost="one more forward pass, before the step",
            test="objective/test_mask.py::test_kl_cov_takes_the_largest",
            differs="The penalty is 0 below 1e-4 nats, where its slope would be the sign of rounding.",
        ),
    )

    def selected(self, covariance_N: Tensor) -> Tensor:
        """Bool over N, True for the tokens with the largest covariance, at least one."""
        selected_N = torch.zeros_like(covariance_N, dtype=torch.bool)
        count = min(self.count(covariance_N.numel()), covariance_N.numel())
        selected_N[covariance_N.topk(count).indices] = True
        return selected_N

    def findings(self, config: TrainConfig) -> Iterator[Finding]:
        """A penalty without a gradient."""
        yield from super().findings(config)
        if config.ratio_is_one:
            text = (
                f"{KEY}=kl_cov with one optimizer step on each batch of answers: it penalises |log π_new - log π_old|, "
                "whose gradient is 0 where both are the same policy; raise batch.minibatches_per_step or "
                "batch.epochs_per_step, or take clip_cov"
            )
            yield warning((KEY, "batch.minibatches_per_step"), text)
