"""BAPO: PPO's clip, its bounds searched for every optimizer step until good tokens have their part of it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar, Literal

from groupwise.findings import Finding, error, warning
from groupwise.lazy import torch
from groupwise.objective.metric import Metric
from groupwise.objective.step_tokens import StepTokens, StepValues
from groupwise.objective.surrogates.ppo_clip import DualClip
from groupwise.objective.surrogates.surrogate import KEY, SurrogateInputs, SurrogateOutputs
from groupwise.options import PositiveFloat
from groupwise.technique import Card, number

if TYPE_CHECKING:
    from torch import Tensor

    from groupwise.config import TrainConfig


class Bapo(DualClip):
    """-min(r·A, clip(r, low, high)·A) with adaptive bounds of the ratio (BAPO, 2510.18927).

    P is what the tokens with A > 0 weigh together, Q those with A < 0. From low_start and high_start the bounds are
    widened above and narrowed below, step by step, until P has the part `target`, or both are at their ends (algorithm
    1). The search sees all tokens of an optimizer step, over all ranks, before its first gradient. Without a token of
    A < 0 the bounds stay at their start; tokens of A = 0 count nowhere.
    """

    type: Literal["bapo"] = "bapo"
    has_step_values: ClassVar[bool] = True

    target: PositiveFloat = 0.4
    """What the balance has to reach."""

    balance: Literal["share", "odds", "printed"] = "share"
    """What is compared with the target: P/(P+Q), P/Q as in the authors' code, or P/|P-Q| as their equation 8 is
    printed. Targets s, s/(1-s) and s/(1-2s) are one test, but that above 1 the printed one fails again where P is far
    above Q."""

    contributions: Literal["gradient", "clipped"] = "gradient"
    """What a token weighs: r·|A| where it keeps its gradient, else 0; or, as in the authors' sums, its |A| times the
    ratio that the bounds leave, min(r, high) or max(r, low). In these a clipped token still counts, so that raising the
    lower bound makes Q larger and never helps."""

    weighted_by_old: bool = False
    """Multiply the weights by π_old, as in the paper and not in its code. Tokens are drawn from π_old already, so that
    it counts twice."""

    order: Literal["high_first", "low_first"] = "high_first"
    """Which bound moves first, to its end: the upper one as in algorithm 1, or the lower one as in the code."""

    low_start: PositiveFloat = 0.6
    """Lower bound of the ratio, where A < 0, before the search."""

    low_end: PositiveFloat = 0.9
    """The highest that the lower bound may become; the last step is cut there."""

    low_step: PositiveFloat = 0.02
    """By how much the lower bound rises in a step of the search."""

    high_start: PositiveFloat = 1.2
    """Upper bound of the ratio, where A > 0, before the search."""

    high_end: PositiveFloat = 3.0
    """The highest that the upper bound may become; the last step is cut there."""

    high_step: PositiveFloat = 0.05
    """By how much the upper bound rises in a step of the search."""

    cards: ClassVar[tuple[Card, ...]] = (
        Card(
            name="BAPO",
            source="2510.18927 eq. 5, 8, algorithm 1",
            what="the bounds of the clip are searched for every optimizer step, so that good tokens have their part",
            equation="min(r·A, clip(r, a⁻, a⁺)·A); raise a⁺, then a⁻, while ρ < ρ0",
            values="ρ0 0.4, a⁻ 0.6 to 0.9 by 0.02, a⁺ 1.2 to 3 by 0.05",
            keys=tuple(
                f"{KEY}.{name}"
                for name in (
                    "target",
                    "balance",
                    "contributions",
                    "weighted_by_old",
                    "order",
                    "low_start",
                    "high_start",
                )
            ),
            is_on=lambda c: isinstance(c.objective.surrogate, Bapo),
            cost="one forward pass before each optimizer step; none where the ratio is 1 by construction",
            test="objective/test_bapo.py::test_golden",
            differs="The paper prints P/|P-Q| with π_old in both sums, the authors' code P/Q without it. In either a "
            "clipped token still counts (`contributions=clipped`), so that a⁻ cannot help; their text is about the "
            "gradient, which is the default here. Their code searches in every micro-batch, so that the bounds depend "
            "on its size; it keeps verl's dual clip of 3.",
        ),
    )

    @property
    def reads_ratios_alone(self) -> bool:
        return not self.weighted_by_old

    def of_step(self, step: StepTokens) -> StepValues:
        """The bounds of the ratio for this optimizer step, (N, 2): low and high, the same for every token."""
        steps, shares = self.searched(step)
        bounds = self.bounds_after(steps)
        measured = {"low": bounds[0], "high": bounds[1], "steps": float(steps)}
        metrics = {f"policy/bapo_{name}": Metric(value, "mean") for name, value in measured.items()}
        for name, share in zip(("before", "after"), shares, strict=True):
            if share is not None:
                metrics[f"policy/bapo_share_{name}"] = Metric(share, "mean")
        return StepValues(
            torch.tensor([bounds], dtype=step.log_ratio_N.dtype).repeat(len(step.log_ratio_N), 1), metrics
        )

    def searched(self, step: StepTokens) -> tuple[int, tuple[float | None, float | None]]:
        """How many steps the bounds move, and P/(P+Q) before and after; None where nothing weighs anything."""
        advantages_N = step.advantages_N.double()
        size_N = advantages_N.abs() * (step.old_logps_N.double().exp() if self.weighted_by_old else 1.0)
        ratio_N = step.log_ratio_N.double().exp()
        good_N, bad_N = advantages_N > 0, advantages_N < 0
        good, bad = (ratio_N[good_N], size_N[good_N]), (ratio_N[bad_N], size_N[bad_N])
        last = self._steps("low") + self._steps("high") if bad_N.any() else 0
        steps, before = 0, self._weights(good, bad, 0)
        after = before
        while steps < last and self.balance_of(*after) < self.target:
            steps += 1
            after = self._weights(good, bad, steps)
        return steps, (_part(*before), _part(*after))

    def bounds_after(self, steps: int) -> tuple[float, float]:
        """The bounds after so many steps of the search. Steps are counted: adding 0.02 up in floats stops at 0.88."""
        first = "high" if self.order == "high_first" else "low"
        of_first = min(steps, self._steps(first))
        low, high = (of_first if side == first else steps - of_first for side in ("low", "high"))
        return (
            self.low_end if low == self._steps("low") else self.low_start + low * self.low_step,
            self.high_end if high == self._steps("high") else self.high_start + high * self.high_step,
        )

    def balance_of(self, good: float, bad: float) -> float:
        """What is compared with the target, of P and Q; 0 where nothing weighs anything."""
        whole = {"share": good + bad, "odds": bad, "printed": abs(good - bad)}[self.balance]
        return good / whole if whole > 0 else math.inf if good > 0 else 0.0

    def _steps(self, side: str) -> int:
        """How many steps a bound has from its start to its end."""
        start, end, step = (getattr(self, f"{side}_{name}") for name in ("start", "end", "step"))
        return max(math.ceil(round(float((end - start) / step), 6)), 0)

    def _weights(self, good: tuple[Tensor, Tensor], bad: tuple[Tensor, Tensor], steps: int) -> tuple[float, float]:
        """P and Q after so many steps; good and bad tokens as ratios and sizes."""
        low, high = self.bounds_after(steps)
        (above_N, above_size_N), (below_N, below_size_N) = good, bad
        if self.contributions == "clipped":
            above_N, below_N = above_N.clamp(max=high), below_N.clamp(min=low)
        else:
            above_N = above_N.where(above_N <= high, 0.0)
            below_N = below_N.where((below_N >= low) & (below_N <= (self.dual_clip or math.inf)), 0.0)
        return float((above_N * above_size_N).sum()), float((below_N * below_size_N).sum())

    def loss(self, inputs: SurrogateInputs) -> SurrogateOutputs:
        ratio_N, advantages_N = inputs.ratio_N, inputs.advantages_N
        floor_N, ceiling_N = inputs.required_step_N.to(ratio_N.dtype).unbind(-1)
        low_N = (advantages_N < 0) & (ratio_N < floor_N)
        high_N = (advantages_N > 0) & (ratio_N > ceiling_N)
        return self.bounded(inputs, low_N, high_N, torch.where(low_N, floor_N, ceiling_N))

    def formula(self, ratio_is_one: bool) -> str:
        return "A·log π" if ratio_is_one else self.with_dual("min(r·A, clip(r, a⁻, a⁺)·A)")

    def terms(self, ratio_is_one: bool) -> list[tuple[str, str]]:
        if ratio_is_one:
            return []
        part = {"share": "P/(P+Q)", "odds": "P/Q", "printed": "P/|P-Q|"}[self.balance]
        old = "π_old·" if self.weighted_by_old else ""
        weights = {
            "gradient": f"Σ {old}r·|A| of the tokens with A > 0, with A < 0, that keep a gradient",
            "clipped": f"Σ {old}A·min(r, a⁺) where A > 0, Σ {old}|A|·max(r, a⁻) where A < 0",
        }[self.contributions]
        ranges = [
            f"{name} from {number(start)} to {number(end)} by {number(step)}"
            for name, start, end, step in (
                ("a⁺", self.high_start, self.high_end, self.high_step),
                ("a⁻", self.low_start, self.low_end, self.low_step),
            )
        ]
        first, then = ranges if self.order == "high_first" else reversed(ranges)
        return [("a⁺, a⁻", f"{first}, then {then}, until {part} ≥ {number(self.target)}"), ("P, Q", weights)]

    def widest_bound(self) -> tuple[str, float]:
        return f"{KEY}.high_start", max(1 - self.low_start, self.high_start - 1)

    def findings(self, config: TrainConfig) -> Iterator[Finding]:
        """Empty ranges, bounds on the wrong side of 1, a target out of reach, a lower bound that runs away from it."""
        yield from super().findings(config)
        for side in ("low", "high"):
            start, end = getattr(self, f"{side}_start"), getattr(self, f"{side}_end")
            if start > end:
                text = f"{KEY}.{side}_start={start} is above {KEY}.{side}_end={end}: the bound rises in the search"
                yield error((f"{KEY}.{side}_start", f"{KEY}.{side}_end"), f"{text}; lower the start, or raise the end")
        for name, wrong in (("low_end", self.low_end > 1), ("high_start", self.high_start < 1)):
            if wrong:
                text = (
                    f"{KEY}.{name}={getattr(self, name)} is on the wrong side of 1: the bounds are those of the ratio "
                    "itself, and this one clips the policy that sampled; usual values are 0.9 and 1.2"
                )
                yield error((f"{KEY}.{name}",), text)
        if self.balance == "share" and self.target >= 1:
            text = (
                f"{KEY}.target={self.target} with {KEY}.balance=share: no share reaches 1 while there is a bad token, "
                "so that the bounds always run to their ends; take 0.4, or set the balance to odds"
            )
            yield error((f"{KEY}.target", f"{KEY}.balance"), text)
        if self.contributions == "clipped" and self._steps("low"):
            text = (
                f"{KEY}.contributions=clipped: a clipped bad token counts with the lower bound, so that raising it "
                f"takes the balance away from the target; set {KEY}.low_end to {self.low_start}, or "
                f"{KEY}.contributions=gradient"
            )
            yield warning((f"{KEY}.contributions", f"{KEY}.low_end"), text)


def _part(good: float, bad: float) -> float | None:
    return good / (good + bad) if good + bad > 0 else None
