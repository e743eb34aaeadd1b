"""GMPO: the geometric mean of token ratios that are bounded first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar, Literal

from groupwise.findings import Finding, warning
from groupwise.lazy import torch
from groupwise.objective.ratios.ratio import clamp_log_ratio
from groupwise.objective.segments import segment_index, segment_mean
from groupwise.objective.surrogates.surrogate import GOLDEN, KEY, Surrogate, SurrogateInputs, SurrogateOutputs
from groupwise.options import NonNegativeFloat
from groupwise.technique import Card, number

if TYPE_CHECKING:
    from groupwise.config import TrainConfig


class Gmpo(Surrogate):
    """-s·A with s the geometric mean of clipped token ratios (GMPO, 2507.20673), repeated for each token.

    Each token's log-ratio is bounded before the mean, on the side that PPO bounds for the sign of A: above at
    log_clip_high where A>0, below at -log_clip_low where A<0.
    """

    type: Literal["gmpo"] = "gmpo"
    needs_ratio: ClassVar[str] = "token"
    compares_old: ClassVar[bool] = True

    log_clip_low: NonNegativeFloat = 0.4
    """log(π_new/π_old) of a token is at least -log_clip_low where A < 0."""

    log_clip_high: NonNegativeFloat = 0.4
    """log(π_new/π_old) of a token is at most log_clip_high where A > 0."""

    cards: ClassVar[tuple[Card, ...]] = (
        Card(
            name="GMPO",
            source="2507.20673",
            what="the geometric mean over an answer of token ratios that are bounded first",
            equation="exp((1/L) Σ_t bounded log r_t)·A",
            values="±0.4 in log r",
            keys=(
                "objective.surrogate.log_clip_low",
                "objective.surrogate.log_clip_high",
                "objective.ratio",
                "objective.reduction",
            ),
            is_on=lambda c: isinstance(c.objective.surrogate, Gmpo),
            cost="none",
            test=GOLDEN + "[gmpo_0.4.seq_mean_token_mean]",
            differs="The paper's is the mean over answers, which is `reduction=sequence_mean_token_mean`; verl's "
            "`geo_mean` always takes that one.",
        ),
    )

    def loss(self, inputs: SurrogateInputs) -> SurrogateOutputs:
        advantages_N = inputs.advantages_N
        log_ratio_N = inputs.new_logps_N - inputs.old_logps_N
        low_N = (advantages_N < 0) & (log_ratio_N < -self.log_clip_low)
        high_N = (advantages_N > 0) & (log_ratio_N > self.log_clip_high)
        bound_N = torch.where(low_N, -self.log_clip_low, torch.full_like(log_ratio_N, self.log_clip_high))
        clipped_N = torch.where(low_N | high_N, bound_N, log_ratio_N)
        mean_N = segment_mean(clipped_N, inputs.lengths_E)[segment_index(inputs.lengths_E, clipped_N.numel())]
        return SurrogateOutputs(-advantages_N * clamp_log_ratio(mean_N).exp(), low_N, high_N)

    def formula(self, ratio_is_one: bool) -> str:  # noqa: ARG002 - it needs token ratios
        return "s·A"

    def terms(self, ratio_is_one: bool) -> list[tuple[str, str]]:  # noqa: ARG002 - it needs token ratios
        low, high = number(self.log_clip_low), number(self.log_clip_high)
        bounds = f"log r at most {high} where A > 0, at least -{low} where A < 0"
        return [("s", f"exp((1/L) Σ_t log r) of the answer, each {bounds}")]

    def findings(self, config: TrainConfig) -> Iterator[Finding]:
        """A reduction that is not the mean over answers."""
        yield from super().findings(config)
        reduction = config.objective.reduction.type
        if reduction != "sequence_mean_token_mean":
            text = (
                f"{KEY}=gmpo with objective.reduction={reduction}: the paper's GMPO weights every answer alike, this "
                "one by its length; set objective.reduction=sequence_mean_token_mean"
            )
            yield warning(("objective.reduction", KEY), text)
