"""The tokens of an answer."""

from dataclasses import dataclass

from groupwise.grading.math.tree import Num
from groupwise.grading.math.units import Unit


@dataclass(frozen=True, slots=True)
class Token:
    """kind: `number`, `letter`, `name` (a command or function), `unit`, `label`, `join` (and, or), or a sign itself."""

    kind: str
    text: str = ""
    number: Num | None = None
    unit: Unit | None = None
    spaced: bool = False
