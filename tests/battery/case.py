"""A case of the battery."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """One way to fail, and what has to happen instead.

    tests: what proves it, as pytest names it; all of them have to pass. lacks: what is not there, and why; such a case
    has no points.
    """

    number: int
    points: int
    situation: str
    expected: str
    tests: tuple[str, ...]
    lacks: str = ""
