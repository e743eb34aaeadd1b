"""The options of a configuration as a flat list: for `groupwise config`, and for errors that name what is expected."""

import difflib
import itertools
import types
import typing
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal, NamedTuple

import annotated_types
from pydantic import BaseModel, Tag
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined


class OptionRow(NamedTuple):
    """One option. `default` is None where a value has to be given."""

    key: str
    type: str
    default: Any
    doc: str
    required: bool


# Stands for the name of an entry, where entries are sections that users name: `rewards.functions.NAME.path`.
NAME = "NAME"


def describe_options(model_class: type[BaseModel]) -> list[OptionRow]:
    """Every option of a configuration, in the order of its definition.

    A section that has been listed already stands as one row: `domains.NAME.rewards` has the keys of `rewards`.
    """
    return list(_rows(model_class, "", {}))


def _rows(model_class: type[BaseModel], prefix: str, listed: dict[type[BaseModel], str]) -> Iterator[OptionRow]:
    for name, info in model_class.model_fields.items():
        key, section, entry = prefix + name, as_section(info.annotation), as_named_sections(info.annotation)
        if section in listed:
            yield OptionRow(key, f"a section with the keys of {listed[section]}", {}, info.description or "", False)
        elif section is not None:
            listed[section] = key
            yield from _rows(section, f"{key}.", listed)
        elif entry is not None:
            yield from _rows(entry, f"{key}.{NAME}.", listed)
        else:
            default = None if info.default is PydanticUndefined else info.default
            yield OptionRow(key, type_text(info), default, info.description or "", info.is_required())


def all_keys(model_class: type[BaseModel], prefix: str = "") -> list[str]:
    """The dotted names of all sections and options; what differs by domain has those of its section."""
    return [prefix + key for key in _keys(model_class, "", set())]


def _keys(model_class: type[BaseModel], prefix: str, listed: set[type[BaseModel]]) -> Iterator[str]:
    for name, info in model_class.model_fields.items():
        key, section, entry = prefix + name, as_section(info.annotation), as_named_sections(info.annotation)
        yield key
        if section is not None and section not in listed:
            listed.add(section)
            yield from _keys(section, f"{key}.", listed)
        elif entry is not None:
            yield from _keys(entry, f"{key}.{NAME}.", listed)


def as_section(annotation: Any) -> type[BaseModel] | None:
    """The annotation itself, where it is a section; otherwise None."""
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None


def as_named_sections(annotation: Any) -> type[BaseModel] | None:
    """What every entry is, where the annotation is a mapping from names to sections; otherwise None."""
    return as_section(typing.get_args(annotation)[1]) if typing.get_origin(annotation) is dict else None


def field_at(model_class: type[BaseModel], path: Sequence[str | int]) -> FieldInfo | None:
    """The definition of the option at a path such as ("prompt", "examples", 0, "answer"); None for an unknown one.

    An index stands for an entry of a list; the path of a whole entry has no definition of its own.
    """
    return _at(model_class, path)[1]


def annotation_at(model_class: type[BaseModel], path: Sequence[str | int]) -> Any:
    """The type of what stands at a path, which may be a section or an entry; None for an unknown one."""
    return _at(model_class, path)[0]


def _at(model_class: type[BaseModel], path: Sequence[str | int]) -> tuple[Any, FieldInfo | None]:
    annotation: Any = model_class
    info: FieldInfo | None = None
    for part in path:
        annotation, info = _below(annotation, part)
    return annotation, info


def _below(annotation: Any, part: str | int) -> tuple[Any, FieldInfo | None]:
    section = as_section(annotation)
    if section is not None:
        info = section.model_fields.get(str(part))
        return (info.annotation if info else None), info
    for form in _forms(annotation):
        origin, arguments = typing.get_origin(form), typing.get_args(form)
        if origin is list and isinstance(part, int):
            return arguments[0], None
        if origin is dict and isinstance(part, str):
            return arguments[1], None
    return None, None


def _forms(annotation: Any) -> list[Any]:
    """The alternatives of a type, or the type alone, each without its metadata."""
    parts = typing.get_args(annotation) if _is_union(annotation) else (annotation,)
    return [typing.get_args(part)[0] if typing.get_origin(part) is Annotated else part for part in parts]


def _is_union(annotation: Any) -> bool:
    return typing.get_origin(annotation) in (typing.Union, types.UnionType)


def takes_text(annotation: Any) -> Literal["only", "also", "never"]:
    """Whether a value may be text."""
    forms = _forms(annotation)
    return ("only" if len(forms) == 1 else "also") if str in forms else "never"


def option_path(model_class: type[BaseModel], location: Sequence[str | int]) -> tuple[str | int, ...]:
    """The path of the option that an error of pydantic is about, which also says which form of a value it tried."""
    annotation: Any = model_class
    path: list[str | int] = []
    for part in location:
        tagged = {meta.tag: form for form in typing.get_args(annotation) for meta in _tags(form)}
        if _is_union(annotation) and part in tagged:
            annotation = typing.get_args(tagged[str(part)])[0]
            continue
        path.append(part)
        annotation, _ = _below(annotation, part)
    return tuple(path)


def _tags(form: Any) -> list[Tag]:
    metadata = typing.get_args(form)[1:] if typing.get_origin(form) is Annotated else ()
    return [part for part in metadata if isinstance(part, Tag)]


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


def suggest_for(model_class: type[BaseModel], path: Sequence[str]) -> list[str]:
    """The known keys that somebody who wrote this path may have meant, likeliest first.

    Inside of an entry that users name, as `rewards.functions.brevity`, these are keys of that entry.
    """
    prefix, owner = _entry_above(model_class, path)
    keys = suggest_keys(".".join(path[len(prefix) :]), all_keys(owner))
    return [".".join([*prefix, key]) for key in keys]


def siblings_of(model_class: type[BaseModel], path: Sequence[str]) -> list[str]:
    """The keys of the section that a path is in."""
    section = as_section(annotation_at(model_class, path[:-1]))
    return list(section.model_fields) if section else []


def _entry_above(model_class: type[BaseModel], path: Sequence[str]) -> tuple[Sequence[str], type[BaseModel]]:
    """The innermost entry with a name of the user's that a path leads through, and what it is."""
    for depth in range(len(path) - 1, 1, -1):
        entry = as_named_sections(annotation_at(model_class, path[: depth - 1]))
        if entry is not None:
            return path[:depth], entry
    return (), model_class


def suggest_keys(unknown: str, keys: Sequence[str]) -> list[str]:
    """The known keys that somebody who wrote `unknown` may have meant, likeliest first; at most three.

    A key with the same last part in another section comes first (`lr` means `optimizer.lr`), of several those that
    share most sections; after those the closest spelling counts, with a little more for the same section.
    """
    section, _, leaf = unknown.rpartition(".")
    same_leaf = [key for key in keys if key.rpartition(".")[2] == leaf]
    if same_leaf:
        most = max(_shared_sections(unknown, key) for key in same_leaf)
        return [key for key in same_leaf if _shared_sections(unknown, key) == most][:3]

    def likeness(key: str) -> float:
        its_section, _, its_leaf = key.rpartition(".")
        last = difflib.SequenceMatcher(None, leaf, its_leaf).ratio() + (0.1 if section == its_section else 0.0)
        # `sampling_temperature` for `sampling.temperature`, `rewards.format_weight` for `rewards.format.weight`.
        within = key.removeprefix(f"{section}.") if section else key
        is_below = not section or within != key
        return max(last, difflib.SequenceMatcher(None, leaf, within).ratio()) if is_below else last

    best = sorted(keys, key=likeness, reverse=True)[:1]
    return [key for key in best if likeness(key) >= 0.7]


def _shared_sections(one: str, other: str) -> int:
    """How many sections two keys have in common from the left."""
    pairs = zip(one.split(".")[:-1], other.split(".")[:-1], strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


def suggest_word(unknown: str, words: Sequence[str]) -> str:
    """`; did you mean WORD?`, or nothing where no word is close."""
    close = difflib.get_close_matches(unknown, words, n=1)
    return f"; did you mean {close[0]}?" if close else ""
