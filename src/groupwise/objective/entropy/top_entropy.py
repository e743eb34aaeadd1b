"""Training on the tokens at which the policy was least certain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from groupwise.technique import Card, Technique

if TYPE_CHECKING:
    from torch import Tensor


class AllTokens(Technique):
    """Every token is trained on."""

    type: Literal["all"] = "all"


class TopEntropy(Technique):
    """Only the fraction of tokens with the highest entropy is trained on (2506.01939)."""

    type: Literal["top_entropy"] = "top_entropy"

    fraction: Annotated[float, Field(gt=0, le=1)] = 0.2
    """Train on this fraction of the tokens of an optimizer step."""

    cards: ClassVar[tuple[Card, ...]] = (
        Card(
            name="top-entropy tokens",
            source="2506.01939",
            what="only the tokens at which the policy was least certain are trained on",
            equation="keep tokens with H ≥ quantile(1 - fraction)",
            values="fraction 0.2",
            keys=("entropy.tokens.fraction",),
            is_on=lambda c: isinstance(c.entropy.tokens, TopEntropy),
            cost="one more forward pass, before the step",
            test="objective/test_mask.py::test_top_entropy_tokens",
            differs="The quantile is of the whole optimizer step, over all ranks, and not of a micro-batch.",
        ),
    )

    def threshold(self, entropy_N: Tensor) -> Tensor:
        """Entropy (nats) above which the `fraction` most uncertain tokens lie, linearly interpolated.

        Of all tokens of the optimizer step, so that the split into micro-batches does not matter; the tokens at or
        above it are trained on, as in `entropy_N >= threshold`.
        """
        sorted_N = entropy_N.sort().values
        position = (1 - self.fraction) * (sorted_N.numel() - 1)
        below = int(position)
        above = min(below + 1, sorted_N.numel() - 1)
        return sorted_N[below].lerp(sorted_N[above], position - below)

    def formula(self) -> str:
        return f"1 for the {100 * self.fraction:g} % of tokens with the highest entropy, else 0"
