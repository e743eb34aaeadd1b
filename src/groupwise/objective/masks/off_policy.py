"""Which answers the policy term leaves out because the policy has left them already."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar, Literal

from groupwise.findings import Finding
from groupwise.objective.masks.policy_mask import MaskInputs, PolicyMask, never_masks
from groupwise.objective.segments import segment_index, segment_mean
from groupwise.options import PositiveFloat
from groupwise.technique import Card, Technique, number

if TYPE_CHECKING:
    from torch import Tensor

    from groupwise.config import TrainConfig


class NoOffPolicyMask(Technique):
    """Every answer keeps its policy term."""

    type: Literal["none"] = "none"


class SequenceMask(PolicyMask):
    """Answers with A < 0 and (1/L) Σ_t log(π_behaviour/π_new) > threshold are left out of the policy term.

    DeepSeek-V3.2, 2512.02556 eq. 9. A bad answer that the policy has left already teaches nothing and can
    destabilise. In the paper the behaviour policy is the engine's, so that staleness and engine mismatch both count,
    and the mask multiplies the policy term only, not the KL; its threshold is unpublished.
    """

    type: Literal["sequence"] = "sequence"

    reference: Literal["sampler", "old"] = "sampler"
    """Whose log-probabilities the policy is compared with: the engine's, as in the paper, or the trainer's old ones."""

    threshold_nats: PositiveFloat = 0.1
    """Largest mean of log(π/π_new) over the tokens of an answer with negative advantage."""

    cards: ClassVar[tuple[Card, ...]] = (
        Card(
            number=10,
            name="off-policy sequence mask",
            source="DeepSeek-V3.2 2512.02556 eq. 9",
            what="a bad answer that the policy has left already is not pushed down further",
            equation="M_i = 0 iff A_i < 0 and (1/L_i) Σ_t log(π_engine/π_new) > δ",
            values="δ not published; 1e-4 to 0.5 elsewhere",
            keys=("off_policy_mask.reference", "off_policy_mask.threshold_nats"),
            is_on=lambda c: isinstance(c.off_policy_mask, SequenceMask),
            cost="none",
            test="objective/test_mask.py::test_off_policy_mask_golden",
            differs="The seed compares with the trainer's old log-probabilities (`reference=old`); the paper with the "
            "engine's, so that mismatch counts as well as staleness. The denominator keeps the masked answers.",
        ),
    )

    def kept(self, inputs: MaskInputs) -> Tensor:
        """Bool over N, False for the tokens of answers that are left out.

        Raises:
            ValueError: `reference` is the sampler, and its log-probabilities are missing.
        """
        lengths_E = inputs.lengths_E
        behaviour_N = inputs.old_logps_N if self.reference == "old" else inputs.sampler_logps_N
        if behaviour_N is None:
            raise ValueError("the off-policy mask needs sampler_logps_N")
        drift_E = segment_mean(behaviour_N - inputs.new_logps_N, lengths_E)
        kept_E = (segment_mean(inputs.advantages_N, lengths_E) >= 0) | (drift_E <= self.threshold_nats)
        return kept_E[segment_index(lengths_E, behaviour_N.numel())]

    def formula(self) -> str:
        who = "π_engine" if self.reference == "sampler" else "π_old"
        return f"0 where A < 0 and (1/L) Σ_t log({who}/π) > {number(self.threshold_nats)}, else 1"

    def findings(self, config: TrainConfig) -> Iterator[Finding]:
        """A mask that never masks."""
        yield from never_masks(self.reference, config)
