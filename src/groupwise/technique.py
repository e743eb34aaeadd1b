"""What a technique is made of: options, a function, its part of the equation, its checks, and its row in the docs.

One module holds one technique. Its class derives from the base class of its room, such as
`objective.surrogates.surrogate.Surrogate`, which declares the function that the room calls. The room's
`__init__.py` lists its techniques as one union, which is an option of the configuration: `objective.surrogate: {type:
cispo, cap: 5}`, or `cispo` alone for its defaults.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel, BeforeValidator, SerializerFunctionWrapHandler, model_serializer

from groupwise.findings import Finding
from groupwise.options import Options
from groupwise.own_code import Origin

if TYPE_CHECKING:
    from groupwise.config import TrainConfig


@dataclass(frozen=True, kw_only=True)
class Card:
    """What a technique says of itself: `explain`, `recipes` and docs/techniques.md are made of cards.

    Attributes:
        name: the name in the literature.
        source: paper and equation.
        what: in one line.
        equation: as the source has it.
        values: the source's own numbers; `none` where it states none.
        keys: the options that make it up.
        is_on: whether a configuration has it.
        cost: memory and passes.
        test: `file::function` below tests/, with the case in brackets.
        differs: how others, under the same name, mean something else; empty where nobody does.
        number: in the table of the fifteen techniques; None for the others.
    """

    name: str
    source: str
    what: str
    equation: str
    values: str = "none"
    keys: tuple[str, ...]
    is_on: Callable[[TrainConfig], bool]
    cost: str = "none"
    test: str
    differs: str = ""
    number: int | None = None


class Section(Options):
    """Base of the sections of a configuration that hold techniques themselves: their cards and checks."""

    cards: ClassVar[tuple[Card, ...]] = ()

    def findings(self, config: TrainConfig) -> Iterator[Finding]:  # noqa: ARG002 - of those that check something
        """What contradicts itself, does nothing, or is known to be unsound in this configuration."""
        yield from ()

    def notes(self, config: TrainConfig) -> Iterator[Finding]:  # noqa: ARG002 - of those that have one
        """What cannot act in this configuration although nothing is wrong, for `explain`."""
        yield from ()


class Technique(Section):
    """Base of all techniques: a frozen record of options with a field `type`, and what follows from them.

    origin: of one that is the user's own, whose options stand below its path.
    """

    origin: ClassVar[Origin | None] = None

    @model_serializer(mode="wrap")
    def _name_alone(self, handler: SerializerFunctionWrapHandler) -> Any:
        """Always with its name; a technique without options is written as its name alone."""
        tree = handler(self)
        if self.origin is not None:
            tree.pop("type", None)
            return {"type": "function", "path": self.origin.path, **({"options": tree} if tree else {})}
        name = type(self).model_fields["type"].default
        return name if len(type(self).model_fields) == 1 else {"type": name, **tree}


def by_name(default: type[Technique]) -> BeforeValidator:
    """Accept a technique's name in place of its options, and options without a name as those of `default`."""

    def named(value: Any) -> Any:
        if isinstance(value, str):
            return {"type": value}
        if isinstance(value, dict) and "type" not in value:
            return {"type": default.model_fields["type"].default, **value}
        return value

    return BeforeValidator(named)


def sections_in(model_class: type[BaseModel]) -> Iterator[type[Section]]:
    """Every section and technique that a configuration of this class can have, in the order of its options."""
    if issubclass(model_class, Section):
        yield model_class
    for info in model_class.model_fields.values():
        yield from _sections_below(info.annotation)


def _sections_below(annotation: Any) -> Iterator[type[Section]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield from sections_in(annotation)
    else:
        for argument in typing.get_args(annotation):
            yield from _sections_below(argument)


def sections_of(options: BaseModel) -> Iterator[Section]:
    """These options, their sections, and the techniques that they have chosen, in order."""
    if isinstance(options, Section):
        yield options
    for name in type(options).model_fields:
        value = getattr(options, name)
        for part in value.values() if isinstance(value, dict) else [value]:
            if isinstance(part, BaseModel):
                yield from sections_of(part)


def number(value: float) -> str:
    """A number as one writes it by hand, for equations: 0.0001, 1.28, 11."""
    return f"{value:.6g}"
