"""IPO: tokens are dropped by how far their probability is from the engine's, whatever the sign."""

from __future__ import annotations

from typing import ClassVar, Literal

from groupwise.objective.surrogates.dropping import DroppingSurrogate
from groupwise.objective.surrogates.surrogate import KEY, SurrogateInputs, SurrogateOutputs
from groupwise.options import PositiveFloat
from groupwise.technique import Card, number


class Ipo(DroppingSurrogate):
    """-min(r, cap)·A, dropped where |π - π_engine| > tv, whatever the sign of A or of the change (IPO of prime-rl).

    It has nothing in common with the preference loss of that name. Unlike `dppo` it also drops what moved back: A>0 and
    π fallen. A token that the engine found all but impossible passes as long as π <= tv, so its ratio has no bound but
    `cap`. A tie is kept.
    """

    type: Literal["ipo"] = "ipo"

    tv: PositiveFloat = 0.3
    """How far π may be from the engine's probability, either way."""

    cards: ClassVar[tuple[Card, ...]] = (
        Card(
            name="IPO",
            source="prime-rl #2798, #3418, #3586; no paper",
            what="tokens are dropped by how far their probability is from the engine's, whatever the sign; not the "
            "preference loss of that name",
            equation="r·A, 0 where |π-π_engine| > ε; r = π/π_engine",
            values="ε 0.3, no KL; at first 0.1",
            keys=(f"{KEY}.tv", f"{KEY}.cap"),
            is_on=lambda c: isinstance(c.objective.surrogate, Ipo),
            cost="none",
            test="objective/test_ipo.py::test_golden",
            differs="Here r is that of `objective.ratio`, π/π_engine with `old_logps=sampler`. Earlier versions added "
            "1e-3·(log r)² on every token, dropped ones too, which is left out; later ones have `cap` at 1e4 and leave "
            "tokens with A = 0 out of the denominator.",
        ),
    )

    @property
    def compares_sampler(self) -> bool:
        return True

    def loss(self, inputs: SurrogateInputs) -> SurrogateOutputs:
        moved_N = inputs.new_logps_N.detach().exp() - inputs.behaviour_logps_N("sampler").exp()
        return self.outputs(inputs, moved_N < -self.tv, moved_N > self.tv)

    def formula(self, ratio_is_one: bool) -> str:
        return f"{self.factor(ratio_is_one)}·[|π - π_engine| ≤ {number(self.tv)}]"

    def terms(self, ratio_is_one: bool) -> list[tuple[str, str]]:  # noqa: ARG002 - the same with any
        return [("π_engine", "what the engine recorded")]
