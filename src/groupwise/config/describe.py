"""The options of a configuration as a flat list, and their types in words."""

import types
import typing
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from groupwise.config.schema import as_named_sections, as_section, as_techniques, options_of

# The name of an entry, where entries are sections that users name: `rewards.functions.NAME.path`.
NAME = "NAME"


class OptionRow(NamedTuple):
    """One option. `default` is None where a value has to be given; `technique` is the one that the option belongs to.

    The options of an option that chooses a technique follow it: `objective.surrogate.cap`, technique `cispo`.
    """

    key: str
    type: str
    default: Any
    doc: str
    required: bool
    technique: str = ""


def describe_options(model_class: type[BaseModel]) -> list[OptionRow]:
    """Every option of a configuration, in the order of its definition.

    A section that has been listed already is one row: `domains.NAME.rewards` has the keys of `rewards`.
    """
    return [row for row in _rows(model_class, "", {}, "") if row.type]


def all_keys(model_class: type[BaseModel]) -> list[str]:
    """The dotted names of all sections and options; what differs by domain has those of its section."""
    return list(dict.fromkeys(row.key for row in _rows(model_class, "", {}, "")))


def key_lines(model_class: type[BaseModel]) -> Iterator[str]:
    """Every option with its type, default and meaning, for people. Behind an option of a technique stands its name."""
    for row in describe_options(model_class):
        name = f"{row.key} ({row.technique})" if row.technique else row.key
        yield f"{name}: {row.type} " + ("required" if row.required else f"= {row.default}")
        yield from (f"    {text}" for text in row.doc.splitlines())


def _rows(
    owner: type[BaseModel], prefix: str, listed: dict[type[BaseModel], str], technique: str
) -> Iterator[OptionRow]:
    """One row for each option, and one without a type for the heading of a section."""
    for name, info in options_of(owner).items():
        key, doc, techniques = prefix + name, info.description or "", as_techniques(info.annotation)
        section, entry = as_section(info.annotation), as_named_sections(info.annotation)
        if section and section in listed:
            yield OptionRow(key, f"a section with the keys of {listed[section]}", {}, doc, False, technique)
        elif section or entry:
            yield OptionRow(key, "", {}, doc, False, technique)
        else:
            default: Any = None if info.default is PydanticUndefined else info.default
            if techniques:
                default = default.type
                doc = "\n".join([doc, *(f"{its_name}: {_first_line(of)}" for its_name, of in techniques.items())])
            yield OptionRow(key, type_text(info), default, doc.strip(), info.is_required(), technique)
        if section and section not in listed:
            listed[section] = key
            yield from _rows(section, f"{key}.", listed, technique)
        elif entry:
            yield from _rows(entry, f"{key}.{NAME}.", listed, technique)
        for its_name, of in techniques.items():
            yield from _rows(of, f"{key}.", listed, its_name)


def _first_line(model: type[BaseModel]) -> str:
    return (model.__doc__ or "").strip().partition("\n")[0]


def type_text(info: FieldInfo) -> str:
    """What an option accepts, in words: `an integer of at least 1`, `one of none, group_std`."""
    return annotation_text(info.annotation) + _bounds_text(info.metadata)


def annotation_text(annotation: Any) -> str:
    """A type in words. Raises TypeError for a type that has no words yet, so that a new kind of option gets them."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    simple = {
        bool: "true or false",
        int: "an integer",
        float: "a number",
        str: "text",
        type(None): "nothing (null)",
        Any: "any",
    }
    if annotation in simple:
        return simple[annotation]
    if techniques := as_techniques(annotation):
        return f"one of {', '.join(techniques)}"
    if section := as_section(annotation):
        return f"a section with the keys {', '.join(section.model_fields)}"
    if origin is Literal:
        return f"one of {', '.join(map(str, arguments))}"
    if origin is dict:
        return f"a mapping from names to values, each {annotation_text(arguments[1])}"
    if origin is Annotated:
        bounds = [bound for part in arguments[1:] if isinstance(part, FieldInfo) for bound in part.metadata]
        return annotation_text(arguments[0]) + _bounds_text(bounds)
    if origin is list:
        return f"a list, each entry {annotation_text(arguments[0])}"
    if origin in (typing.Union, types.UnionType):
        return " or ".join(map(annotation_text, arguments))
    raise TypeError(f"no words for the type {annotation}")


_BOUNDS = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}


def _bounds_text(metadata: Sequence[Any]) -> str:
    words = [
        f"{of} {getattr(bound, name)}" for bound in metadata for name, of in _BOUNDS.items() if hasattr(bound, name)
    ]
    return f" of {' and '.join(words)}" if words else ""
