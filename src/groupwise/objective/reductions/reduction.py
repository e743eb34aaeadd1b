"""How the tokens of an optimizer step are weighted: from here on micro-batches and ranks no longer matter.

The denominator of every reduction belongs to the whole optimizer step, over all micro-batches and ranks. It is fixed
once, as one weight per token. From then on every loss is Σ weights_N · loss_N, a plain sum, and the sum of the parts is
the whole whatever the parts are.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from groupwise.lazy import torch
from groupwise.objective.segments import segment_index
from groupwise.technique import Technique

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class StepTotals:
    """What one optimizer step holds, over all micro-batches and ranks.

    Parts add up with `+` (or an all-reduce of the three numbers).

    Attributes:
        sequences: episodes that are trained on, empty ones included.
        tokens: their tokens.
        groups: groups with at least one such token; used by `group_token_mean` only.
    """

    sequences: int
    tokens: int
    groups: int = 0

    def __add__(self, other: StepTotals) -> StepTotals:
        return StepTotals(self.sequences + other.sequences, self.tokens + other.tokens, self.groups + other.groups)


@dataclass(frozen=True)
class ReductionInputs:
    """What the weights are computed from.

    Attributes:
        lengths_E: tokens of each episode at hand, a micro-batch or a rank's part or all.
        totals: of the whole optimizer step, counted with the same mask of trained episodes. Episodes that are not
            forwarded because their advantage is 0 still count if the objective is to be the one of the full batch.
        max_new_tokens: the generation budget.
        group_tokens_E: `group_token_totals` of the whole step at the group of each episode, for `group_token_mean`.
    """

    lengths_E: Tensor
    totals: StepTotals
    max_new_tokens: int = 0
    group_tokens_E: Tensor | None = None

    @property
    def sequences(self) -> int:
        """Episodes of the step, at least 1."""
        return max(self.totals.sequences, 1)

    def alike(self, weight: float) -> Tensor:
        """The same weight for every episode, over E, float64."""
        return torch.full_like(self.lengths_E, weight, dtype=torch.float64)


class Reduction(Technique):
    """Base of the reductions, with S episodes, M tokens and Q groups in the whole step."""

    type: Any

    @abstractmethod
    def weights_of(self, inputs: ReductionInputs) -> Tensor:
        """The weight of each token of an episode, over E, float64.

        Raises:
            ValueError: if a number is missing that it needs.
        """

    @abstractmethod
    def formula(self, max_new_tokens: int) -> str:
        """The sums over answers and tokens, as text."""

    def term(self, answers: int) -> tuple[str, str]:
        """The symbol of the formula and what it counts; `answers`: of an optimizer step."""
        return "S", f"{answers} answers of an optimizer step, L_i tokens each"

    def given(self, policy: Reduction) -> Reduction:  # noqa: ARG002 - see AsPolicy
        """The reduction that weights a term where the policy loss has `policy`: this one."""
        return self

    def token_weights(self, inputs: ReductionInputs, trained_E: Tensor | None = None) -> Tensor:
        """Weight of each token over N, float64, such that the loss of the step is Σ weights_N · loss_N.

        trained_E: False for episodes that leave numerator and denominator both, such as truncated answers that are not
        to be trained on. None keeps all.
        """
        weights_E = self.weights_of(inputs)
        if trained_E is not None:
            weights_E = weights_E * trained_E
        return weights_E[segment_index(inputs.lengths_E, int(inputs.lengths_E.sum()))]


def count_totals(lengths_E: Tensor, trained_E: Tensor | None = None) -> StepTotals:
    """Episodes and tokens of one part of a step; `trained_E` as in `Reduction.token_weights`."""
    trained_E = torch.ones_like(lengths_E, dtype=torch.bool) if trained_E is None else trained_E
    return StepTotals(sequences=int(trained_E.sum()), tokens=int((lengths_E * trained_E).sum()))


def group_token_totals(lengths_E: Tensor, group_E: Tensor, num_groups: int, trained_E: Tensor | None = None) -> Tensor:
    """Tokens of each group, int64 over P; parts of a step add up. `totals.groups` is the number of those above 0."""
    trained_lengths_E = lengths_E if trained_E is None else lengths_E * trained_E
    return lengths_E.new_zeros(num_groups).index_add_(0, group_E, trained_lengths_E)
