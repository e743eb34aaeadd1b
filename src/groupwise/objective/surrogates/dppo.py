"""DPPO: tokens are dropped by how far their probability moved."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar, Literal

from groupwise.findings import Finding, warning
from groupwise.objective.surrogates.dropping import DroppingSurrogate
from groupwise.objective.surrogates.surrogate import GOLDEN, KEY, SurrogateInputs, SurrogateOutputs
from groupwise.options import NonNegativeFloat
from groupwise.technique import Card, number

if TYPE_CHECKING:
    from groupwise.config import TrainConfig


class Dppo(DroppingSurrogate):
    """-min(r, cap)·A, dropped where the probability itself has moved too far (DPPO with binary TV, 2602.04879).

    A>0 is dropped where π_new - π_old > tv_high, A<0 where π_new - π_old < -tv_low. Unlike a ratio bound this leaves
    rare tokens free, whose ratio moves a lot while hardly any probability does.
    """

    type: Literal["dppo"] = "dppo"

    tv_low: NonNegativeFloat = 0.2
    """How far π may fall where A < 0, as a probability. 0.2 is prime-rl's default; the paper has 0.15 or 0.2."""

    tv_high: NonNegativeFloat = 0.2
    """How far π may rise where A > 0, as a probability."""

    cards: ClassVar[tuple[Card, ...]] = (
        Card(
            name="DPPO",
            source="2602.04879 sec. 4.3",
            what="tokens are dropped by how far their probability moved, not by its ratio: rare tokens stay free",
            equation="min(r, C)·A, 0 where A > 0 and π_new-π_old > δ_high, or A < 0 and π_new-π_old < -δ_low",
            values="δ 0.15 or 0.2, the default of prime-rl; verl's script: 0.15. C as for `dppo_kl`",
            keys=tuple(f"{KEY}.{name}" for name in ("tv_low", "tv_high", "cap")),
            is_on=lambda c: isinstance(c.objective.surrogate, Dppo),
            cost="none",
            test=GOLDEN + "[dppo_tv_0.1.token_mean]",
            differs="The paper compares with the engine's policy: `old_logps=sampler`.",
        ),
    )

    def loss(self, inputs: SurrogateInputs) -> SurrogateOutputs:
        advantages_N = inputs.advantages_N
        moved_N = inputs.new_logps_N.detach().exp() - inputs.old_logps_N.exp()
        low_N = (advantages_N < 0) & (moved_N < -self.tv_low)
        high_N = (advantages_N > 0) & (moved_N > self.tv_high)
        return self.outputs(inputs, low_N, high_N)

    def formula(self, ratio_is_one: bool) -> str:
        high, low = number(self.tv_high), number(self.tv_low)
        return f"{self.factor(ratio_is_one)}·[A > 0: π - π_old ≤ {high}; A < 0: ≥ -{low}]"

    def findings(self, config: TrainConfig) -> Iterator[Finding]:
        """Bounds that cannot act."""
        yield from super().findings(config)
        for name, moves in (("tv_low", "falls"), ("tv_high", "rises")):
            if getattr(self, name) >= 1:
                text = f"{KEY}.{name}={getattr(self, name)} never binds: no probability {moves} by 1 or more; take 0.2"
                yield warning((f"{KEY}.{name}",), text)
