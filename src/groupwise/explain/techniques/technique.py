"""One technique as data: `groupwise explain`, `groupwise recipes` and docs/techniques.md are made of it."""

from collections.abc import Callable
from dataclasses import dataclass

from groupwise.config import TrainConfig


@dataclass(frozen=True)
class Technique:
    """A technique, where it comes from, and when a configuration has it.

    number: in the table of fifteen, None for the additions. what: in one line. equation: as its source has it.
    values: the numbers of the source itself. keys: the options that make it up; is_on: whether they do. cost: memory
    and passes. test: `file::function` below tests/, with the case in brackets. differs: how others, under the same
    name, mean something else; empty where nobody does.
    """

    number: int | None
    name: str
    source: str
    what: str
    equation: str
    values: str
    keys: tuple[str, ...]
    is_on: Callable[[TrainConfig], bool]
    cost: str
    test: str
    differs: str = ""
