"""DPPO by the binary KL: tokens are dropped by the divergence between sampled and not sampled."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from groupwise.lazy import torch
from groupwise.objective.surrogates.dropping import DroppingSurrogate
from groupwise.objective.surrogates.surrogate import KEY, SurrogateInputs, SurrogateOutputs
from groupwise.options import NonNegativeFloat
from groupwise.technique import Card, number

if TYPE_CHECKING:
    from torch import Tensor


class DppoKl(DroppingSurrogate):
    """-min(r, cap)·A, dropped where π has moved on too far (DPPO with binary KL, 2602.04879 eq. 12, 14 and 23).

    The divergence is D = μ·log(μ/π) + (1-μ)·log((1-μ)/(1-π)), of the token against all others, μ being what sampled.
    A>0 is dropped where π > μ and D > kl_high, A<0 where π < μ and D > kl_low; what moved back is kept. D is not
    symmetric: a token that all but vanishes costs more than one that appears.
    """

    type: Literal["dppo_kl"] = "dppo_kl"

    reference: Literal["sampler", "old"] = "sampler"
    """What μ is: the engine's policy, on which the paper insists, or the trainer's old one."""

    kl_low: NonNegativeFloat = 0.05
    """Largest D in nats for a token with A < 0 whose π fell."""

    kl_high: NonNegativeFloat = 0.05
    """Largest D in nats for a token with A > 0 whose π rose."""

    cards: ClassVar[tuple[Card, ...]] = (
        Card(
            name="DPPO, binary KL",
            source="2602.04879 eq. 12, 14, 23",
            what="tokens are dropped by the KL between drawing them and not, where they have moved on",
            equation="min(r, C)·A, 0 where D(μ‖π) > δ and A·(π-μ) > 0; D = μ·log(μ/π) + (1-μ)·log((1-μ)/(1-π))",
            values="δ 0.05; C 5, or none; A without std",
            keys=tuple(f"{KEY}.{name}" for name in ("reference", "kl_low", "kl_high", "cap")),
            is_on=lambda c: isinstance(c.objective.surrogate, DppoKl),
            cost="none",
            test="objective/test_dppo_kl.py::test_golden",
            differs="verl compares with the trainer's old policy unless bypass_mode is on (`reference=old`), which "
            "collapses in the paper; it writes sg(min(r, C))·A·log π, the same gradient with another value, has C 3 by "
            "default, and adds 1e-8 inside the logarithms. Here D is the bare equation: infinite for π = 1 > μ, which "
            "is a token without a gradient to lose.",
        ),
    )

    @property
    def compares_sampler(self) -> bool:
        return self.reference == "sampler"

    def loss(self, inputs: SurrogateInputs) -> SurrogateOutputs:
        advantages_N, new_N = inputs.advantages_N, inputs.new_logps_N.detach()
        behaviour_N = inputs.behaviour_logps_N(self.reference).to(new_N.dtype)
        divergence_N = binary_kl(behaviour_N, new_N)
        low_N = (advantages_N < 0) & (new_N < behaviour_N) & (divergence_N > self.kl_low)
        high_N = (advantages_N > 0) & (new_N > behaviour_N) & (divergence_N > self.kl_high)
        return self.outputs(inputs, low_N, high_N)

    def formula(self, ratio_is_one: bool) -> str:
        mu = self._behaviour()
        high, low = number(self.kl_high), number(self.kl_low)
        return f"{self.factor(ratio_is_one)}·[A > 0: π ≤ {mu} or D ≤ {high}; A < 0: π ≥ {mu} or D ≤ {low}]"

    def terms(self, ratio_is_one: bool) -> list[tuple[str, str]]:  # noqa: ARG002 - the same with any
        mu = self._behaviour()
        return [("D", f"{mu}·log({mu}/π) + (1 - {mu})·log((1 - {mu})/(1 - π)) of the token")]

    def _behaviour(self) -> str:
        return "π_engine" if self.reference == "sampler" else "π_old"


def binary_kl(behaviour_logps_N: Tensor, new_logps_N: Tensor) -> Tensor:
    """KL in nats between two coins, given the log-probabilities of heads; infinite where only the second is sure."""
    mu_N, rest_N = behaviour_logps_N.exp(), -behaviour_logps_N.clamp(max=0).expm1()
    tails_N = rest_N.log() - (-new_logps_N.clamp(max=0).expm1()).log()
    # 0·log 0 is 0.
    return mu_N * (behaviour_logps_N - new_logps_N) + torch.where(rest_N > 0, rest_N * tails_N, 0.0)
