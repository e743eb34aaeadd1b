"""M2PO: the second moment of the log-ratio over an optimizer step is kept below a budget."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar, Literal

from groupwise.findings import Finding
from groupwise.lazy import torch
from groupwise.objective.masks.policy_mask import MaskInputs, PolicyMask, never_masks
from groupwise.objective.metric import Metric
from groupwise.objective.step_tokens import StepTokens, StepValues
from groupwise.options import PositiveFloat
from groupwise.technique import Card, number

if TYPE_CHECKING:
    from torch import Tensor

    from groupwise.config import TrainConfig


class M2po(PolicyMask):
    """Tokens with the largest (log r)² are left out until the mean of the others is within `threshold`.

    M2PO, 2510.01161 algorithm 1. It counts and drops only tokens that moved on: A>0 and r>1, or A<0 and r<1, where A is
    the advantage before any KL in the reward. The budget is of all trained tokens of one optimizer step, over all
    ranks. The paper has no other bound: `objective.surrogate=reinforce`.
    """

    type: Literal["m2po"] = "m2po"
    has_step_values: ClassVar[bool] = True
    keeps_near: ClassVar[bool] = True

    reference: Literal["sampler", "old"] = "sampler"
    """What r compares the policy with: the engine's log-probabilities, or the trainer's old ones."""

    threshold: PositiveFloat = 0.04
    """Largest mean of (log r)² over the tokens that moved on and are kept, in nats²."""

    cards: ClassVar[tuple[Card, ...]] = (
        Card(
            name="M2PO",
            source="2510.01161 algorithm 1, eq. 5",
            what="tokens that moved on furthest are left out until the second moment of the others is in its budget",
            equation="T = {A·log r > 0}; while mean_T (log r)² > τ: drop the largest; J = (1/N) Σ M·r·A",
            values="τ 0.04 everywhere; A by group mean and deviation; no clip; data up to 256 updates old",
            keys=("off_policy_mask.reference", "off_policy_mask.threshold"),
            is_on=lambda c: isinstance(c.off_policy_mask, M2po),
            cost="one more forward pass, before every optimizer step",
            test="objective/test_m2po.py::test_golden",
            differs="Tokens as far as the first that is dropped go with it, so that no order of equal tokens decides; "
            "algorithm 1 keeps some of them. AReaL measures π_old against the engine's policy, on tokens of any "
            "sign, keeps one at least and the clip as well, and divides by the tokens that are kept. The authors' "
            "released code turns the budget into one clip range for each micro-batch, which is stricter. Of the "
            "test's nine tokens they and AReaL keep 4, this 5.",
        ),
    )

    def of_step(self, step: StepTokens) -> StepValues:
        """Bool over N, False for the tokens that are left out."""
        behaviour_N = step.old_logps_N if self.reference == "old" else step.sampler_logps_N
        log_ratio_N = step.new_logps_N.double() - behaviour_N.double()
        moved_on_N = step.advantages_N.sign() * log_ratio_N > 0
        square_N = log_ratio_N.square()
        rising = square_N[moved_on_N].sort().values
        # The mean of the smallest k grows with k: the longest prefix in the budget is what algorithm 1 ends with.
        means = rising.cumsum(0) / torch.arange(1, len(rising) + 1, device=rising.device)
        within = int((means <= self.threshold).sum())
        left_out_N = moved_on_N & (square_N >= rising[within]) if within < len(rising) else torch.zeros_like(moved_on_N)
        kept = square_N[moved_on_N & ~left_out_N]
        metrics = {
            f"policy/second_moment{name}": Metric(float(values.sum()) / max(len(values), 1), "mean", len(values))
            for name, values in (("", rising), ("_kept", kept))
        }
        return StepValues(~left_out_N, metrics)

    def kept(self, inputs: MaskInputs) -> Tensor:
        """Raises ValueError without what `of_step` gave."""
        if inputs.step_N is None:
            raise ValueError("off_policy_mask=m2po needs what it computes from the whole optimizer step, step_N")
        return inputs.step_N

    def formula(self) -> str:
        who = "π_engine" if self.reference == "sampler" else "π_old"
        return (
            f"0 for the largest (log(π/{who}))² of the step's tokens with A·log(π/{who}) > 0, until the mean of the "
            f"others is within {number(self.threshold)}, else 1"
        )

    def findings(self, config: TrainConfig) -> Iterator[Finding]:
        """A mask that never masks."""
        yield from never_masks(self.reference, config)
