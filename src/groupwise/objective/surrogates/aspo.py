"""ASPO: the ratio of good tokens turned over, so that the rare ones weigh most."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar, Literal

from groupwise.findings import Finding, error
from groupwise.lazy import torch
from groupwise.objective.surrogates.ppo_clip import ClipBounds
from groupwise.objective.surrogates.surrogate import KEY, SurrogateInputs, SurrogateOutputs
from groupwise.options import NonNegativeFloat, PositiveFloat
from groupwise.technique import Card, number

if TYPE_CHECKING:
    from groupwise.config import TrainConfig


class Aspo(ClipBounds):
    """-w·A·log π in gradient, w = min(1/r, cap) where A > 0, else min(r, cap), detached (ASPO, 2510.06062).

    PPO weights a good token by its ratio, so that one that has become likelier is pushed further; here it is the one
    that has fallen behind. As in PPO a good token stops above 1+clip_high and a bad one below 1-clip_low; the cap,
    their soft dual clip, limits the weight and leaves the gradient. Its tokens count as clipped low where A > 0, and
    as clipped high where A < 0, where PPO has no bound. The loss value is -w·A.
    """

    type: Literal["aspo"] = "aspo"
    bounds_stop_gradient: ClassVar[bool] = False

    clip_high: NonNegativeFloat = 0.2
    """The ratio is clipped above at 1 + clip_high, where A > 0."""

    cap: PositiveFloat = 3.0
    """Absolute upper bound of the weight, 1/r where A > 0 and r where A < 0; no token loses its gradient to it."""

    cards: ClassVar[tuple[Card, ...]] = (
        Card(
            name="ASPO",
            source="2510.06062",
            what="good tokens are weighted by 1/r, so that those that have fallen behind are pushed most",
            equation="sg(w)·A·log π, w = min(1/r, c) where A > 0, else min(r, c); 0 beyond PPO's clip",
            values="clip 0.2 / 0.2, c 3; 0.4 for the fifth of an answer's tokens with the highest entropy",
            keys=(f"{KEY}.clip_low", f"{KEY}.clip_high", f"{KEY}.cap"),
            is_on=lambda c: isinstance(c.objective.surrogate, Aspo),
            cost="none",
            test="objective/test_aspo.py::test_golden",
            differs="The paper's wider clip and missing KL on tokens of high entropy are not here: one pair of bounds "
            "holds for all. With one optimizer step on each batch of answers every weight is 1.",
        ),
    )

    def loss(self, inputs: SurrogateInputs) -> SurrogateOutputs:
        low_N, high_N = self.outside(inputs)
        good_N, log_ratio_N = inputs.advantages_N > 0, inputs.log_ratio_N.detach()
        full_N = torch.where(good_N, -log_ratio_N, log_ratio_N).exp()
        live_N = full_N.clamp(max=self.cap) * (inputs.log_ratio_N - log_ratio_N).exp()
        bound_N = torch.where(low_N, 1 - self.clip_low, torch.full_like(full_N, 1 / (1 + self.clip_high)))
        loss_N = -inputs.advantages_N * torch.where(low_N | high_N, bound_N, live_N)
        capped_N = full_N > self.cap
        return SurrogateOutputs(loss_N, low_N | (capped_N & good_N), high_N | (capped_N & (inputs.advantages_N < 0)))

    def formula(self, ratio_is_one: bool) -> str:
        return "A·log π" if ratio_is_one else "sg[ω]·A·log π"

    def terms(self, ratio_is_one: bool) -> list[tuple[str, str]]:
        cap, low, high = number(self.cap), number(1 - self.clip_low), number(1 + self.clip_high)
        text = f"min(1/r, {cap}) where A > 0, 0 above r = {high}; else min(r, {cap}), 0 below r = {low}"
        return [] if ratio_is_one else [("ω", text)]

    def findings(self, config: TrainConfig) -> Iterator[Finding]:
        """A cap that weights the policy that sampled."""
        yield from super().findings(config)
        if self.cap <= 1:
            text = (
                f"{KEY}.cap={self.cap} is not above 1: it is an absolute bound of the weight, and would weigh the "
                "policy that sampled; the paper has 3"
            )
            yield error((f"{KEY}.cap",), text)
