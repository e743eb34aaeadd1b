"""How the tokens of an optimizer step are weighted: the place where micro-batches and ranks stop to matter.

The denominator of every reduction belongs to the whole optimizer step, over all micro-batches and ranks. It is fixed
here, once, as one weight per token. From then on every loss is Σ weights_N · loss_N, a plain sum, and the sum of the
parts is the whole whatever the parts are.
"""

from dataclasses import dataclass
from typing import Literal, assert_never

import torch
from torch import Tensor

from groupwise.objective.segments import sequence_index

Reduction = Literal[
    "token_mean", "sequence_mean_token_mean", "sequence_mean_token_sum", "constant_length", "group_token_mean"
]


@dataclass(frozen=True)
class StepTotals:
    """What one optimizer step holds, over all micro-batches and ranks.

    Parts add up with `+` (or an all-reduce of the three numbers).

    Attributes:
        sequences: sequences that are trained on, empty ones included.
        tokens: their tokens.
        groups: groups with at least one such token; used by `group_token_mean` only.
    """

    sequences: int
    tokens: int
    groups: int = 0

    def __add__(self, other: "StepTotals") -> "StepTotals":
        return StepTotals(self.sequences + other.sequences, self.tokens + other.tokens, self.groups + other.groups)


def count_totals(lengths_B: Tensor, kept_B: Tensor | None = None) -> StepTotals:
    """Sequences and tokens of one part of a step; `kept_B` as in `token_weights`."""
    kept_B = torch.ones_like(lengths_B, dtype=torch.bool) if kept_B is None else kept_B
    return StepTotals(sequences=int(kept_B.sum()), tokens=int((lengths_B * kept_B).sum()))


def group_token_totals(lengths_B: Tensor, group_B: Tensor, num_groups: int, kept_B: Tensor | None = None) -> Tensor:
    """Tokens of each group, int64 over P; parts of a step add up. `totals.groups` is the number of those above 0."""
    kept_lengths_B = lengths_B if kept_B is None else lengths_B * kept_B
    return lengths_B.new_zeros(num_groups).index_add_(0, group_B, kept_lengths_B)


def token_weights(
    lengths_B: Tensor,
    reduction: Reduction,
    totals: StepTotals,
    *,
    kept_B: Tensor | None = None,
    constant_length: int = 0,
    group_tokens_B: Tensor | None = None,
) -> Tensor:
    """Weight of each token over N, float64, such that the loss of the step is Σ weights_N · loss_N.

    Reductions, with S sequences, M tokens and Q groups in the whole step:
        token_mean: 1/M (DAPO, 2503.14476, over the step instead of the group).
        sequence_mean_token_mean: 1/(S·L) for a sequence of L tokens (GRPO, 2402.03300 eq. 3).
        sequence_mean_token_sum: 1/S (Dr. GRPO as printed, RLOO).
        constant_length: 1/(S·C) with C tokens, the generation budget (Dr. GRPO's code, 2503.20783).
        group_token_mean: 1/(Q·M_g), M_g being the tokens of the token's group: DAPO eq. 12 as printed, whose
            denominator is the group, and the mean over groups.

    Args:
        lengths_B: tokens of each sequence at hand, a micro-batch or a rank's part or all.
        totals: of the whole optimizer step, counted with the same mask of kept sequences. Sequences that are not
            forwarded because their advantage is 0 still count if the objective is to be the one of the full batch.
        kept_B: False for sequences that leave numerator and denominator both, such as truncated answers that are
            not to be trained on. None keeps all.
        constant_length: C of `constant_length`.
        group_tokens_B: `group_token_totals` of the whole step at the group of each sequence, for `group_token_mean`.

    Raises:
        ValueError: `constant_length` without C, `group_token_mean` without its totals.
    """
    sequences, tokens, groups = (max(n, 1) for n in (totals.sequences, totals.tokens, totals.groups))
    match reduction:
        case "token_mean":
            weights_B = torch.full_like(lengths_B, 1 / tokens, dtype=torch.float64)
        case "sequence_mean_token_mean":
            weights_B = 1 / (sequences * lengths_B.clamp(min=1).double())
        case "sequence_mean_token_sum":
            weights_B = torch.full_like(lengths_B, 1 / sequences, dtype=torch.float64)
        case "constant_length":
            if constant_length < 1:
                raise ValueError(f"reduction constant_length needs a length of at least 1 token, got {constant_length}")
            weights_B = torch.full_like(lengths_B, 1 / (sequences * constant_length), dtype=torch.float64)
        case "group_token_mean":
            if group_tokens_B is None or totals.groups < 1:
                raise ValueError("reduction group_token_mean needs group_tokens_B and totals.groups of the whole step")
            weights_B = 1 / (groups * group_tokens_B.clamp(min=1).double())
        case _:
            assert_never(reduction)
    if kept_B is not None:
        weights_B = weights_B * kept_B
    return weights_B[sequence_index(lengths_B, int(lengths_B.sum()))]
