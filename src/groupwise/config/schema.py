"""The tree of options as it is declared: sections, sections that users name, techniques, and what a path leads to."""

import types
import typing
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, Tag
from pydantic.fields import FieldInfo

from groupwise.technique import Technique

Path = tuple[str | int, ...]


class Place(NamedTuple):
    """What stands at a path such as ("prompt", "examples", 0, "answer").

    path: as users write it, without the names of the alternatives that pydantic tried. annotation: its type, None for
    an unknown key. info: its definition; entries of lists and of mappings have none. owner: the section or technique
    that it is in. techniques: those among which the owner was chosen; empty for a section.
    """

    path: Path
    annotation: Any
    info: FieldInfo | None
    owner: type[BaseModel] | None
    techniques: dict[str, type[Technique]]


def locate(model_class: type[BaseModel], location: Sequence[str | int]) -> Place:
    """What a path of a configuration or a location in an error of pydantic leads to.

    A path does not say which technique was chosen; an option is then that of the first technique that has it.
    """
    place = Place((), model_class, None, None, {})
    for part in location:
        techniques = as_techniques(place.annotation)
        alternatives = techniques or _tagged(place.annotation)
        if part == "type" and techniques:
            # The name of a technique is the value of the option that chooses it.
            continue
        if part in alternatives:
            place = place._replace(annotation=alternatives[str(part)], techniques=techniques)
        else:
            place = _below(place, part)
    return place


def _below(place: Place, part: str | int) -> Place:
    path = (*place.path, part)
    models = [form for form in forms(place.annotation) if _is_model(form)]
    if models:
        owner = next((model for model in models if part in model.model_fields), models[0])
        info = owner.model_fields.get(str(part))
        techniques = place.techniques if issubclass(owner, Technique) else {}
        return Place(path, info.annotation if info else None, info, owner, techniques)
    for form in forms(place.annotation):
        origin, arguments = typing.get_origin(form), typing.get_args(form)
        if (origin is list and isinstance(part, int)) or (origin is dict and isinstance(part, str)):
            return Place(path, arguments[-1], None, None, {})
    return Place(path, None, None, None, {})


def as_section(annotation: Any) -> type[BaseModel] | None:
    """The annotation itself, where it is a section; otherwise None."""
    return annotation if _is_model(annotation) and not issubclass(annotation, Technique) else None


def as_named_sections(annotation: Any) -> type[BaseModel] | None:
    """What every entry is, where the annotation is a mapping from names to sections; otherwise None."""
    return as_section(typing.get_args(annotation)[1]) if typing.get_origin(annotation) is dict else None


def as_techniques(annotation: Any) -> dict[str, type[Technique]]:
    """The techniques that an option chooses from, by their names; empty for any other option."""
    models = [form for form in forms(annotation) if _is_model(form) and issubclass(form, Technique)]
    return {model.model_fields["type"].default: model for model in models}


def choices(annotation: Any) -> dict[str, str]:
    """The names that an option can take, with a meaning where there is one; empty for numbers, text and sections."""
    found = {name: (of.__doc__ or "").partition("\n")[0] for name, of in as_techniques(annotation).items()}
    for form in forms(annotation):
        if form is bool:
            found |= {"true": "", "false": ""}
        elif typing.get_origin(form) is typing.Literal:
            found |= {str(name): "" for name in typing.get_args(form)}
    return found


def options_of(owner: type[BaseModel]) -> dict[str, FieldInfo]:
    """The options of a section or technique. The name of a technique is none of its options."""
    hidden = "type" if issubclass(owner, Technique) else None
    return {name: info for name, info in owner.model_fields.items() if name != hidden}


def forms(annotation: Any) -> list[Any]:
    """The alternatives of a type, or the type alone, each without its metadata."""
    parts = typing.get_args(annotation) if _is_union(annotation) else (annotation,)
    return [typing.get_args(part)[0] if typing.get_origin(part) is Annotated else part for part in parts]


def _tagged(annotation: Any) -> dict[str, Any]:
    """The alternatives of a type by the tags that pydantic puts into the location of an error."""
    parts = [typing.get_args(part) for part in typing.get_args(annotation)] if _is_union(annotation) else []
    return {meta.tag: part[0] for part in parts for meta in part[1:] if isinstance(meta, Tag)}


def _is_model(form: Any) -> typing.TypeGuard[type[BaseModel]]:
    return isinstance(form, type) and issubclass(form, BaseModel)


def _is_union(annotation: Any) -> bool:
    return typing.get_origin(annotation) in (typing.Union, types.UnionType)
