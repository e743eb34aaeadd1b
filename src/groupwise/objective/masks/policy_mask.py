"""What every mask of the policy term has: which tokens keep it.

A mask leaves the denominator as it is. Truncated answers that are not to be trained on leave numerator and denominator
both: see `trained_E` of `reductions.reduction.Reduction.token_weights`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from groupwise.findings import Finding, warning
from groupwise.technique import Technique

if TYPE_CHECKING:
    from torch import Tensor

    from groupwise.config import TrainConfig
    from groupwise.objective.step_tokens import StepTokens, StepValues


@dataclass(frozen=True)
class MaskInputs:
    """What a mask looks at, detached, over N but for `lengths_E`, the tokens of each episode.

    step_N: what `of_step` gave each token, None for masks without it.
    """

    new_logps_N: Tensor
    old_logps_N: Tensor
    sampler_logps_N: Tensor | None
    advantages_N: Tensor
    lengths_E: Tensor
    step_N: Tensor | None = None


class PolicyMask(Technique):
    """Base of the masks.

    has_step_values: it is computed from the whole optimizer step, see `of_step`. keeps_near: it stops several optimizer
    steps on the same answers from moving far, whatever the surrogate.
    """

    type: Any
    keeps_near: ClassVar[bool] = False
    has_step_values: ClassVar[bool] = False

    @abstractmethod
    def kept(self, inputs: MaskInputs) -> Tensor:
        """Bool over N, False for tokens whose policy term is left out."""

    @abstractmethod
    def formula(self) -> str:
        """The factor of the policy term, as text."""

    def of_step(self, step: StepTokens) -> StepValues:
        """What each token is given as `step_N`, for those with `has_step_values`; once, before the first gradient."""
        raise TypeError(f"{self.type} takes nothing from the whole step, got {len(step.lengths_E)} episodes")


def never_masks(reference: Literal["sampler", "old"], config: TrainConfig) -> Iterator[Finding]:
    """A mask by the distance to a policy that is the one that is scored."""
    rescored = reference == "old" and config.objective.old_logps == "trainer"
    if config.updates_per_step == 1 and (config.engine_is_trainer or rescored):
        text = (
            f"off_policy_mask.reference={reference} with one optimizer step on each batch of answers: the "
            "policy that is scored is the one that sampled, so that the mask never masks; raise "
            "batch.minibatches_per_step or batch.epochs_per_step, or set off_policy_mask=none"
        )
        yield warning(("off_policy_mask.reference", "batch.minibatches_per_step"), text)
