"""CE-GPPO: PPO's clip whose clipped tokens keep a bounded gradient."""

from __future__ import annotations

from typing import ClassVar, Literal

from groupwise.lazy import torch
from groupwise.objective.surrogates.ppo_clip import DualClipBounds
from groupwise.objective.surrogates.surrogate import KEY, SurrogateInputs, SurrogateOutputs
from groupwise.options import NonNegativeFloat
from groupwise.technique import Card, number


class CeGppo(DualClipBounds):
    """-r·A within PPO's clip; beyond it the bound times a coefficient, with a gradient (CE-GPPO, 2509.20712).

    A bad token below 1-clip_low weighs coefficient_low·(1-clip_low): an unlikely token is pushed down further, which
    lowers entropy. A good one above 1+clip_high weighs coefficient_high·(1+clip_high): an unlikely token rises further,
    which raises it. The ratio itself cancels out of both. A token beyond the dual clip has no gradient. All count as
    clipped.
    """

    type: Literal["ce_gppo"] = "ce_gppo"
    bounds_stop_gradient: ClassVar[bool] = False

    dual_clip: NonNegativeFloat = 10.0
    """Absolute upper bound of the ratio where A < 0, where the gradient ends; 0 for none."""

    coefficient_low: NonNegativeFloat = 0.75
    """Of bad tokens below the lower bound: the paper's β1, 0.75 for 7B and 0.5 for 1.5B; 0 for none, as in PPO."""

    coefficient_high: NonNegativeFloat = 1.0
    """Of good tokens above the upper bound: the paper's β2, 1."""

    cards: ClassVar[tuple[Card, ...]] = (
        Card(
            name="CE-GPPO",
            source="2509.20712",
            what="clipped tokens keep a gradient, bounded by the clip and scaled for each side",
            equation="w·A·r/sg(r), w = β1·(1-ε) below, β2·(1+ε) above, else r",
            values="β1 0.75 (7B) or 0.5 (1.5B), β2 1; their scripts: clip 0.2 / 0.2, dual clip 10",
            keys=(
                f"{KEY}.coefficient_low",
                f"{KEY}.coefficient_high",
                f"{KEY}.clip_low",
                f"{KEY}.clip_high",
                f"{KEY}.dual_clip",
            ),
            is_on=lambda c: isinstance(c.objective.surrogate, CeGppo),
            cost="none",
            test="objective/test_ce_gppo.py::test_golden",
            differs="`clip_high` is DAPO's 0.28 by default, as for `ppo_clip`. Only the dual clip ends a gradient.",
        ),
    )

    def loss(self, inputs: SurrogateInputs) -> SurrogateOutputs:
        low_N, high_N = self.outside(inputs)
        dual_N, ratio_N = self.beyond_dual(inputs), inputs.ratio_N
        below, above = self.coefficient_low * (1 - self.clip_low), self.coefficient_high * (1 + self.clip_high)
        one_N = (inputs.log_ratio_N - inputs.log_ratio_N.detach()).exp()
        beyond_N = torch.where(low_N, below, torch.full_like(ratio_N, above)) * one_N
        effective_N = torch.where(low_N | high_N, beyond_N, ratio_N)
        effective_N = torch.where(dual_N, self.dual_clip, effective_N)
        return SurrogateOutputs(-inputs.advantages_N * effective_N, low_N, high_N | dual_N)

    def formula(self, ratio_is_one: bool) -> str:
        return "A·log π" if ratio_is_one else "ω·A·r/sg[r]"

    def terms(self, ratio_is_one: bool) -> list[tuple[str, str]]:
        low, high = number(1 - self.clip_low), number(1 + self.clip_high)
        below, above = number(self.coefficient_low), number(self.coefficient_high)
        text = f"{below}·{low} where A < 0 and r < {low}, {above}·{high} where A > 0 and r > {high}, else sg[r]"
        text += f"; no gradient where A < 0 and r > {number(self.dual_clip)}" if self.dual_clip else ""
        return [] if ratio_is_one else [("ω", text)]
