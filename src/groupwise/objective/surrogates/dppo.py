"""DPPO: tokens are dropped by how far their probability moved."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar, Literal

from groupwise.findings import Finding, warning
from groupwise.lazy import torch
from groupwise.objective.surrogates.surrogate import GOLDEN, KEY, Surrogate, SurrogateInputs, SurrogateOutputs, bounded
from groupwise.options import NonNegativeFloat
from groupwise.technique import Card, number

if TYPE_CHECKING:
    from groupwise.config import TrainConfig


class Dppo(Surrogate):
    """-r·A, dropped where the probability itself has moved too far (DPPO with binary total variation, 2602.04879).

    A>0 is dropped where π_new - π_old > tv_high, A<0 where π_new - π_old < -tv_low. Unlike a ratio bound this leaves
    rare tokens free, whose ratio moves a lot while hardly any probability does.
    """

    type: Literal["dppo"] = "dppo"
    compares_old: ClassVar[bool] = True

    tv_low: NonNegativeFloat = 0.2
    """How far π may fall where A < 0, as a probability. 0.2 is prime-rl's default; the paper publishes no value."""

    tv_high: NonNegativeFloat = 0.2
    """How far π may rise where A > 0, as a probability."""

    cards: ClassVar[tuple[Card, ...]] = (
        Card(
            name="DPPO",
            source="2602.04879",
            what="tokens are dropped by how far their probability moved, not by its ratio: rare tokens stay free",
            equation="r·A, 0 where A > 0 and π_new-π_old > δ_high, or A < 0 and π_new-π_old < -δ_low",
            values="δ not published; prime-rl: 0.2",
            keys=("objective.surrogate.tv_low", "objective.surrogate.tv_high"),
            is_on=lambda c: isinstance(c.objective.surrogate, Dppo),
            cost="none",
            test=GOLDEN + "[dppo_tv_0.1.token_mean]",
        ),
    )

    def loss(self, inputs: SurrogateInputs) -> SurrogateOutputs:
        advantages_N = inputs.advantages_N
        moved_N = inputs.new_logps_N.detach().exp() - inputs.old_logps_N.exp()
        low_N = (advantages_N < 0) & (moved_N < -self.tv_low)
        high_N = (advantages_N > 0) & (moved_N > self.tv_high)
        return bounded(inputs, low_N, high_N, torch.zeros_like(moved_N))

    def formula(self, ratio_is_one: bool) -> str:
        factor = "A·log π" if ratio_is_one else "r·A"
        return f"{factor}·[A > 0: π - π_old ≤ {number(self.tv_high)}; A < 0: ≥ -{number(self.tv_low)}]"

    def findings(self, config: TrainConfig) -> Iterator[Finding]:
        """Bounds that cannot act."""
        yield from super().findings(config)
        for name, moves in (("tv_low", "falls"), ("tv_high", "rises")):
            if getattr(self, name) >= 1:
                text = f"{KEY}.{name}={getattr(self, name)} never binds: no probability {moves} by 1 or more; take 0.2"
                yield warning((f"{KEY}.{name}",), text)
