"""FIPO: PPO's clip, each token weighted by what became of the tokens behind it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Literal

from groupwise.findings import Finding, error, unused, warning
from groupwise.lazy import torch
from groupwise.objective.segments import segment_discounted_to_go
from groupwise.objective.surrogates.ppo_clip import DualClipBounds
from groupwise.objective.surrogates.surrogate import KEY, SurrogateInputs, SurrogateOutputs
from groupwise.options import NonNegativeFloat, PositiveFloat
from groupwise.technique import Card, number

if TYPE_CHECKING:
    from torch import Tensor

    from groupwise.config import TrainConfig


class Fipo(DualClipBounds):
    """PPO's clip with f·A for A, f = clip(e^F, influence_low, influence_high) detached (FIPO, 2603.19835 eq. 3 to 8).

    F_t sums log r over the token and those behind it in the answer, halved every half_life_tokens: above 0 where the
    policy has come to like what follows. Tokens beyond the dual clip count as 0 in it, whatever the sign of A. Distance
    is counted in sampled tokens, over all turns of an episode in their order: what a tool or the next question put
    between two turns is no distance.
    """

    type: Literal["fipo"] = "fipo"
    needs_ratio: ClassVar[str] = "token"

    dual_clip: NonNegativeFloat = 10.0
    """Absolute upper bound of the ratio where A < 0, and of the ratios that F counts; 0 for none."""

    half_life_tokens: PositiveFloat = 32.0
    """After so many tokens log r counts half in F: the paper's τ."""

    influence_low: PositiveFloat = 1.0
    """Lower bound of f. The paper has 1 for 32B and 0.8 for 7B."""

    influence_high: PositiveFloat = 1.2
    """Upper bound of f."""

    safety_ratio: NonNegativeFloat = 10.0
    """The ratio above which `safety` acts where A < 0; 0 for none. The paper has 10 for 32B and 3 for 7B."""

    safety: Literal["set", "clamp"] = "set"
    """What it does: f is 1, as the paper's text says, or at most 1, as in the authors' code."""

    cards: ClassVar[tuple[Card, ...]] = (
        Card(
            name="FIPO",
            source="2603.19835 eq. 3 to 8",
            what="each token is weighted by how the policy has moved on the tokens behind it",
            equation="PPO's clip of f·A; f = sg(clip(e^F, 1-ε, 1+ε)), F_t = Σ_{k≥t} 2^{-(k-t)/τ}·log r_k, r_k ≤ c",
            values="τ 32, clip 0.2 / 0.28, c 10; 32B: f from 1 to 1.2, safety 10; 7B: 0.8 to 1.2, safety 3",
            keys=(
                f"{KEY}.half_life_tokens",
                f"{KEY}.influence_low",
                f"{KEY}.influence_high",
                f"{KEY}.safety_ratio",
                f"{KEY}.safety",
                f"{KEY}.clip_low",
                f"{KEY}.clip_high",
                f"{KEY}.dual_clip",
            ),
            is_on=lambda c: isinstance(c.objective.surrogate, Fipo),
            cost="none; answers are never divided between micro-batches",
            test="objective/test_fipo.py::test_golden",
            differs="The authors' code also leaves an answer with two or more tokens beyond the dual clip out of "
            "numerator and denominator, which is not done here, and counts tokens that are not trained, such as those "
            "of tools, as distance. Its own defaults are others: τ 128, safety 4, c 3. With safety at or above c, as "
            "for 32B, the safety changes the loss alone and no gradient.",
        ),
    )

    def influence(self, inputs: SurrogateInputs) -> Tensor:
        """f of each token, over N, detached."""
        log_ratio_N, ratio_N = inputs.log_ratio_N.detach(), inputs.ratio_N.detach()
        if self.dual_clip:
            log_ratio_N = log_ratio_N.where(ratio_N <= self.dual_clip, 0.0)
        future_N = segment_discounted_to_go(log_ratio_N, inputs.lengths_E, 2 ** (-1 / self.half_life_tokens))
        influence_N = future_N.exp().clamp(self.influence_low, self.influence_high)
        if self.safety_ratio:
            safe_N = influence_N.clamp(max=1.0) if self.safety == "clamp" else torch.ones_like(influence_N)
            above_N = (inputs.advantages_N < 0) & (ratio_N > self.safety_ratio)
            influence_N = torch.where(above_N, safe_N, influence_N)
        return influence_N

    def loss(self, inputs: SurrogateInputs) -> SurrogateOutputs:
        return super().loss(replace(inputs, advantages_N=inputs.advantages_N * self.influence(inputs)))

    def formula(self, ratio_is_one: bool) -> str:  # noqa: ARG002 - it needs token ratios
        return self.clipped("f·A")

    def terms(self, ratio_is_one: bool) -> list[tuple[str, str]]:  # noqa: ARG002 - it needs token ratios
        low, high = number(self.influence_low), number(self.influence_high)
        text = f"sg[clip(e^F, {low}, {high})], F_t = Σ_{{k≥t}} 2^(-(k-t)/{number(self.half_life_tokens)})·log r_k"
        text += f" over r_k ≤ {number(self.dual_clip)}" if self.dual_clip else ""
        if self.safety_ratio:
            safe = "1" if self.safety == "set" else "at most 1"
            text += f"; {safe} where A < 0 and r > {number(self.safety_ratio)}"
        return [("f", text)]

    def findings(self, config: TrainConfig) -> Iterator[Finding]:
        """Bounds without 1 between them, options without effect, and what is no change of the policy and still in F."""
        yield from super().findings(config)
        low, high = self.influence_low, self.influence_high
        if not low <= 1 <= high or low == high:
            text = (
                f"{KEY}.influence_low={low} and {KEY}.influence_high={high}: f is 1 where nothing has moved, so 1 has "
                "to be within its bounds, and they have to differ; the paper has 1 and 1.2, or 0.8 and 1.2"
            )
            yield error((f"{KEY}.influence_low", f"{KEY}.influence_high"), text)
        because = "safety_ratio=0" if not self.safety_ratio else f"influence_low={low}" if low >= 1 else ""
        if because:
            remedy = "with f at least 1, at most 1 is 1" if self.safety_ratio else "set the ratio from which it acts"
            yield from unused(f"{KEY}.safety", self.safety, "set", f"{KEY}.{because}", remedy)
        if config.ratio_is_one:
            text = (
                f"{KEY}=fipo with 1 optimizer step on each batch of answers: nothing has moved, F is 0 and f is 1, and "
                f"this is {KEY}=ppo_clip; the paper makes 8, set batch.minibatches_per_step=8"
            )
            yield warning((KEY, "batch.minibatches_per_step"), text)
        if config.objective.old_logps == "sampler" and not config.engine_is_trainer:
            growth = 1 / (1 - 2 ** (-1 / self.half_life_tokens))
            text = (
                f"{KEY}=fipo with objective.old_logps=sampler and an engine that is not the trainer: what the two "
                f"compute differently at every token adds up in F to {growth:.3g} times as much; set "
                "objective.old_logps=trainer"
            )
            yield warning((KEY, "objective.old_logps"), text)
