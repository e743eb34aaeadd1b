"""REINFORCE: no bound at all."""

from __future__ import annotations

from typing import ClassVar, Literal

from groupwise.objective.surrogates.surrogate import Surrogate, SurrogateInputs, SurrogateOutputs, unbounded
from groupwise.technique import Card


class Reinforce(Surrogate):
    """-r·A without any bound. With ratio level `none` this is REINFORCE: the value -A, the gradient -A·∇log π.

    With another level nothing limits the ratio: it is what tinker calls importance sampling, and what M2PO (2510.01161
    eq. 5) masks.
    """

    type: Literal["reinforce"] = "reinforce"
    bounds_ratio: ClassVar[bool] = False
    keeps_near: ClassVar[bool] = False

    cards: ClassVar[tuple[Card, ...]] = (
        Card(
            name="REINFORCE",
            source="Williams 1992; 2510.01161 eq. 5",
            what="no bound at all: the advantage times the gradient of the log-probability",
            equation="r·A, or A·log π with `ratio=none`",
            values="one optimizer step on each batch of answers, or a mask such as M2PO's",
            keys=("objective.surrogate", "objective.ratio"),
            is_on=lambda c: isinstance(c.objective.surrogate, Reinforce),
            cost="none",
            test="objective/test_surrogate.py::test_reinforce_is_the_advantage_times_the_score",
        ),
    )

    def loss(self, inputs: SurrogateInputs) -> SurrogateOutputs:
        return unbounded(-inputs.advantages_N * inputs.ratio_N)

    def formula(self, ratio_is_one: bool) -> str:
        return "A·log π" if ratio_is_one else "r·A"
