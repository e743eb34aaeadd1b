"""The options of a configuration as a flat list: for `groupwise config`, and for errors that name what is expected."""

import difflib
import types
import typing
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal, NamedTuple

import annotated_types
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined


class OptionRow(NamedTuple):
    """One option. `default` is None where a value has to be given."""

    key: str
    type: str
    default: Any
    doc: str
    required: bool


def describe_options(model_class: type[BaseModel]) -> list[OptionRow]:
    """Every option of a configuration, in the order of its definition."""
    return list(_rows(model_class, ""))


def _rows(model_class: type[BaseModel], prefix: str) -> Iterator[OptionRow]:
    for name, info in model_class.model_fields.items():
        section = as_section(info.annotation)
        if section is not None:
            yield from _rows(section, f"{prefix}{name}.")
            continue
        default = None if info.default is PydanticUndefined else info.default
        yield OptionRow(prefix + name, type_text(info), default, info.description or "", info.is_required())


def all_keys(model_class: type[BaseModel], prefix: str = "") -> list[str]:
    """The dotted names of all sections and options."""
    keys = []
    for name, info in model_class.model_fields.items():
        keys.append(prefix + name)
        section = as_section(info.annotation)
        if section is not None:
            keys += all_keys(section, f"{prefix}{name}.")
    return keys


def as_section(annotation: Any) -> type[BaseModel] | None:
    """The annotation itself, where it is a section; otherwise None."""
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None


def field_at(model_class: type[BaseModel], path: Sequence[str | int]) -> FieldInfo | None:
    """The definition of the option at a path such as ("prompt", "examples", 0, "answer"); None for an unknown one.

    An index stands for an entry of a list; the path of a whole entry has no definition of its own.
    """
    section: type[BaseModel] | None = model_class
    info: FieldInfo | None = None
    for part in path:
        if isinstance(part, int):
            entry = typing.get_args(info.annotation)[:1] if info else ()
            section, info = (as_section(entry[0]) if entry else None), None
            continue
        info = section.model_fields.get(part) if section else None
        section = as_section(info.annotation) if info else None
    return info


def type_text(info: FieldInfo) -> str:
    """What an option accepts, in words: `an integer of at least 1`, `one of none, group_std`."""
    return annotation_text(info.annotation) + _bounds_text(info.metadata)


def annotation_text(annotation: Any) -> str:
    """A type in words. Raises TypeError for a type that has no words yet, so that a new kind of option gets them."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    simple = {bool: "true or false", int: "an integer", float: "a number", str: "text", type(None): "nothing (null)"}
    if annotation in simple:
        return simple[annotation]
    section = as_section(annotation)
    if section is not None:
        return f"a section with the keys {', '.join(section.model_fields)}"
    if origin is Literal:
        return "one of " + ", ".join(str(choice) for choice in arguments)
    if origin is dict:
        return f"a mapping from names to values, each {annotation_text(arguments[1])}"
    if origin is Annotated:
        return annotation_text(arguments[0]) + _bounds_text(_field_bounds(arguments[1:]))
    if origin is list:
        return f"a list, each entry {annotation_text(arguments[0])}"
    if origin in (typing.Union, types.UnionType):
        return " or ".join(annotation_text(argument) for argument in arguments)
    raise TypeError(f"no words for the type {annotation}")


def _field_bounds(metadata: Sequence[object]) -> list[object]:
    """The bounds that are stated inside of a field's annotation."""
    return [bound for part in metadata if isinstance(part, FieldInfo) for bound in part.metadata]


def _bounds_text(metadata: Sequence[object]) -> str:
    words = []
    for bound in metadata:
        if isinstance(bound, annotated_types.Ge):
            words.append(f"at least {bound.ge}")
        elif isinstance(bound, annotated_types.Gt):
            words.append(f"more than {bound.gt}")
        elif isinstance(bound, annotated_types.Le):
            words.append(f"at most {bound.le}")
        elif isinstance(bound, annotated_types.Lt):
            words.append(f"less than {bound.lt}")
    return f" of {' and '.join(words)}" if words else ""


def suggest_keys(unknown: str, keys: Sequence[str]) -> list[str]:
    """The known keys that somebody who wrote `unknown` may have meant, likeliest first; at most three.

    A key with the same last part in another section comes first (`lr` means `optimizer.lr`); after those the closest
    spelling of the last part counts, with a little more for the same section.
    """
    section, _, leaf = unknown.rpartition(".")
    same_leaf = [key for key in keys if key.rpartition(".")[2] == leaf]
    if same_leaf:
        return same_leaf[:3]

    def likeness(key: str) -> float:
        its_section, _, its_leaf = key.rpartition(".")
        last = difflib.SequenceMatcher(None, leaf, its_leaf).ratio() + (0.1 if section == its_section else 0.0)
        # `sampling_temperature` for `sampling.temperature`; with a section of its own the shared part says nothing.
        return last if section else max(last, difflib.SequenceMatcher(None, leaf, key).ratio())

    best = sorted(keys, key=likeness, reverse=True)[:1]
    return [key for key in best if likeness(key) >= 0.7]


def suggest_word(unknown: str, words: Sequence[str]) -> str:
    """`; did you mean WORD?`, or nothing where no word is close."""
    close = difflib.get_close_matches(unknown, words, n=1)
    return f"; did you mean {close[0]}?" if close else ""
