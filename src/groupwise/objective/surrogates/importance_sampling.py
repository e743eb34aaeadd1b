"""Importance sampling: the ratio times the advantage, without any bound."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar, Literal

from groupwise.findings import Finding, warning
from groupwise.objective.surrogates.surrogate import KEY, Surrogate, SurrogateInputs, SurrogateOutputs, unbounded
from groupwise.technique import Card

if TYPE_CHECKING:
    from groupwise.config import TrainConfig


class ImportanceSampling(Surrogate):
    """-r·A without any bound: what tinker calls by this name, and what M2PO (2510.01161 eq. 5) masks.

    It is unbiased where r is π over what sampled. Nothing limits the ratio: a mask has to, or a single optimizer step.
    """

    type: Literal["importance_sampling"] = "importance_sampling"
    bounds_ratio: ClassVar[bool] = False
    keeps_near: ClassVar[bool] = False

    cards: ClassVar[tuple[Card, ...]] = (
        Card(
            name="importance sampling",
            source="tinker; 2510.01161 eq. 5",
            what="the advantage times the ratio, with nothing that bounds it",
            equation="r·A",
            values="one optimizer step on each batch of answers, or a mask such as M2PO's",
            keys=(KEY,),
            is_on=lambda c: isinstance(c.objective.surrogate, ImportanceSampling),
            cost="none",
            test="objective/test_importance_sampling.py::test_golden",
            differs="`reinforce` with a ratio is the same loss under the name that it has without one.",
        ),
    )

    def loss(self, inputs: SurrogateInputs) -> SurrogateOutputs:
        return unbounded(-inputs.advantages_N * inputs.ratio_N)

    def formula(self, ratio_is_one: bool) -> str:
        return "A·log π" if ratio_is_one else "r·A"

    def findings(self, config: TrainConfig) -> Iterator[Finding]:
        """A ratio that is always 1."""
        yield from super().findings(config)
        if config.objective.ratio.type == "none":
            text = (
                f"{KEY}=importance_sampling with objective.ratio=none: the ratio is always 1, and this is "
                f"{KEY}=reinforce; name that, or set objective.ratio=token"
            )
            yield warning(("objective.ratio", KEY), text)
