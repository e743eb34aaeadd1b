"""The optimal token baseline: at every token, the mean return of the answers that are still going on, weighted by how
much gradient each has had so far."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, ClassVar, Literal

from groupwise.findings import Finding, error, warning
from groupwise.lazy import torch
from groupwise.objective.advantages.beside_tokens import beside_token_advantages
from groupwise.objective.advantages.estimator import AdvantageEstimator, GroupRewards, StepMoments, finite
from groupwise.objective.advantages.group import KEY
from groupwise.objective.corrections.correction import NoCorrection
from groupwise.technique import Card

if TYPE_CHECKING:
    from torch import Tensor

    from groupwise.config import TrainConfig


@dataclass(frozen=True)
class TokenReturns:
    """What the baseline of each token is computed from, over N but for lengths_E and group_E.

    Attributes:
        returns_N: what a token's answer earns from it on.
        logps_N, square_sums_N: log π of the token and Σ_v π(v)², both of one policy at the sampling temperature.
        lengths_E: tokens of each answer. group_E: its group; answers of a group follow one another.
        engine_weights_N: the weight of the engine correction, where it is to count.
    """

    returns_N: Tensor
    logps_N: Tensor
    square_sums_N: Tensor
    lengths_E: Tensor
    group_E: Tensor
    engine_weights_N: Tensor | None = None


class OptimalTokenBaseline(AdvantageEstimator):
    """G_t - B_t, B_t = Σ_i W_it G_it / Σ_i W_it over the answers with a token t (optimal token baseline, 2602.07078).

    W_t = Σ_{j≤t} w_j and w = 1 - 2π + Σ_v π(v)², the squared norm of the gradient of log π towards the logits.
    """

    type: Literal["optimal_token_baseline"] = "optimal_token_baseline"
    of_token: ClassVar[bool] = True

    tail: Literal["zero", "return"] = "zero"
    """The advantage where only the longest answer of a group is left: 0, as the equation gives, or the return itself
    (verl since #5380), which depends on where the reward has its zero."""

    engine_weights: bool = False
    """Multiply w by the square of the weight of `engine_correction`, which multiplies the gradient."""

    cards: ClassVar[tuple[Card, ...]] = (
        Card(
            name="optimal token baseline",
            source="2602.07078; verl",
            what="each token has a baseline, weighted by how much gradient each answer has had up to it",
            equation="A_t = G_t - Σ_i W_it G_it / Σ_i W_it, W_t = Σ_{j≤t} (1 - 2π_j + Σ_v π_j(v)²)",
            values="group of 8, one update on 128 problems in verl's example; no deviation",
            keys=(f"{KEY}.tail", f"{KEY}.engine_weights"),
            is_on=lambda c: isinstance(c.advantage.estimator, OptimalTokenBaseline),
            cost="one more forward pass of the trainer",
            test="objective/test_optimal_token_baseline.py::test_golden",
            differs="verl: the return where only the longest answer is left (`tail=return`), also in a group of one. "
            "Tokens are aligned by their count, as in verl's `tir_` form. Answers without trained tokens are left out. "
            "A KL in the reward is taken off afterwards and is no part of G.",
        ),
    )

    def advantages(self, parts: Sequence[GroupRewards], over_ranks: StepMoments) -> list[Tensor]:  # noqa: ARG002
        """What each answer earns; `of` takes the baselines off, when the trainer has scored the tokens."""
        return [finite(part.totals_PG) for part in parts]

    def of(self, tokens: TokenReturns) -> Tensor:
        """Advantages over N, float64; exactly 0 where all answers that are left have the same return."""
        weights_N = token_weights(tokens.logps_N, tokens.square_sums_N)
        if tokens.engine_weights_N is not None:
            weights_N = weights_N * tokens.engine_weights_N.double().square()
        lengths, group_E = tokens.lengths_E.tolist(), tokens.group_E.tolist()
        returns_EL, weights_EL = tokens.returns_N.double().split(lengths), weights_N.split(lengths)
        made = [weights_N.new_zeros(0)]
        for _, run in groupby(range(len(lengths)), key=group_E.__getitem__):
            own = list(run)
            made += self._of_group([returns_EL[e] for e in own], [weights_EL[e] for e in own])
        return torch.cat(made)

    def _of_group(self, returns_GL: list[Tensor], weights_GL: list[Tensor]) -> list[Tensor]:
        """Of one group: answers in rows, the t-th token of each in column t."""
        pad = torch.nn.utils.rnn.pad_sequence
        returns_GT = pad(returns_GL, batch_first=True)
        alive_GT = pad([torch.ones_like(row_L, dtype=torch.bool) for row_L in returns_GL], batch_first=True)
        until_GT = pad(weights_GL, batch_first=True).cumsum(1) * alive_GT
        # Where no answer has had any gradient there is none to come either, and all count the same.
        until_GT = torch.where(until_GT.sum(0) > 0, until_GT, alive_GT.double())
        advantages_GT = returns_GT - (until_GT * returns_GT).sum(0) / until_GT.sum(0)
        most_T = returns_GT.masked_fill(~alive_GT, -torch.inf).amax(0)
        least_T = returns_GT.masked_fill(~alive_GT, torch.inf).amin(0)
        advantages_GT = advantages_GT.masked_fill(most_T == least_T, 0.0)
        if self.tail == "return":
            advantages_GT = torch.where(alive_GT.sum(0) == 1, returns_GT, advantages_GT)
        return [row_T[: len(row_L)] for row_T, row_L in zip(advantages_GT, returns_GL, strict=True)]

    def without_spans(self) -> str:
        return (
            "its baselines are those of the rewards of answers, and would have to be taken of the scores of spans too"
        )

    def formula(self) -> str:
        squared = "ρ²·" if self.engine_weights else ""
        alone = "0" if self.tail == "zero" else "R"
        return (
            f"R - Σ_i W_it R_i / Σ_i W_it over the group's answers with a token t, W_t = Σ_{{j≤t}} {squared}(1 - 2π_j "
            f"+ Σ_v π_j(v)²); {alone} where one answer is left"
        )

    def findings(self, config: TrainConfig) -> Iterator[Finding]:
        """What takes an advantage to be of a whole answer, and options without effect."""
        yield from beside_token_advantages(config, f"advantage.estimator={self.type}", "their baselines tell apart")
        if self.engine_weights and isinstance(config.engine_correction, NoCorrection):
            text = (
                f"{KEY}.engine_weights=true has no effect with engine_correction=none, whose weights are all 1; set "
                f"engine_correction=tis, or {KEY}.engine_weights=false"
            )
            yield error((f"{KEY}.engine_weights", "engine_correction"), text)
        if self.tail == "return" and config.active_sampling.filter == "none":
            text = (
                f"{KEY}.tail=return with active_sampling.filter=none: in a group of equal rewards the end of the "
                f"longest answer has its reward as advantage although nothing was learned; set {KEY}.tail=zero, or a "
                "filter"
            )
            yield warning((f"{KEY}.tail", "active_sampling.filter"), text)


def token_weights(logps_N: Tensor, square_sums_N: Tensor) -> Tensor:
    """1 - 2π + Σ_v π(v)², the squared norm of one-hot - π, over N, float64.

    It is not negative, and rounding in float32 would make it so where π is close to 1.
    """
    return (1 - 2 * logps_N.double().exp() + square_sums_N.double()).clamp(min=0)
