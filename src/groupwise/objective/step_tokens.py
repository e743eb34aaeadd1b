"""What some techniques compute from all tokens of an optimizer step at once, before its first gradient.

Bounds that are searched over a batch, a budget that the tokens of a step share, a loss of whole groups: a micro-batch
or a rank alone would give each of them another value. So they are computed once, from one more pass without gradient,
and lie on the token axis from then on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from groupwise.objective.metric import Metric


@dataclass(frozen=True)
class StepTokens:
    """The trained tokens of one optimizer step, over all ranks, under the policy as it is before that step.

    Attributes:
        log_ratio_N: of the objective's ratio level. new_logps_N, old_logps_N, sampler_logps_N: as in the loss; the
            first two are 0 where no pass was needed, see `TrainConfig.makes_step_pass`.
        advantages_N: as in the loss: for a surrogate with what a KL penalty in the reward takes off, for a mask before.
        lengths_E: tokens of each episode. group_E: int64, the group of each, numbered from 0 over all ranks.
        rewards_E: the total reward of each.
    """

    log_ratio_N: Tensor
    new_logps_N: Tensor
    old_logps_N: Tensor
    sampler_logps_N: Tensor
    advantages_N: Tensor
    lengths_E: Tensor
    group_E: Tensor
    rewards_E: Tensor


@dataclass(frozen=True)
class StepValues:
    """For each token of a StepTokens a number, or a row of them, whose meaning its technique knows; and metrics."""

    values_N: Tensor
    metrics: Mapping[str, Metric] = field(default_factory=dict)
