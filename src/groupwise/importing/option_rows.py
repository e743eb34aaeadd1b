"""What is known about the options of another trainer: one row for each, as data.

The translation, the remarks that it makes and docs/translation.md all read these rows.
"""

import functools
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any, Literal, NamedTuple

from groupwise.config.yaml_document import read_document

Kind = Literal["copied", "translated", "absent", "idle"]
Tool = Literal["trl", "verl"]


class Field(NamedTuple):
    """One option of another trainer.

    default: what the trainer takes where the key is absent. to: the options of groupwise, as text. words: how it is
    translated, or why it has no counterpart. accepts: the types of its values; empty accepts all. when: what a copy
    depends on: `stated` in the file, `given`, which is stated and not empty, or an option of groupwise that the
    translation has set, to any value or as `option=value`. values: what each of its values becomes; otherwise: what any
    other does, and what is said of it; without one it is an error. differs: what is said where it means something
    else, lost: where it has no counterpart; both may hold names in braces, which the translation fills in.

    Kinds: `copied` has the same meaning and goes to `to` as it is; `translated` by a function; `absent` has no
    counterpart, which is said where it is set; `idle` does not change the algorithm.
    """

    key: str
    kind: Kind
    default: Any = None
    to: str = ""
    words: str = ""
    accepts: tuple[type, ...] = ()
    when: str = ""
    values: Mapping[str, Any] = {}
    otherwise: Sequence[Any] = ()
    differs: str = ""
    lost: str = ""


class Loss(NamedTuple):
    """What one name of a loss is made of. ratio, reduction: empty where another key decides."""

    surrogate: str
    ratio: str = ""
    reduction: str = ""
    words: str = ""


_TYPES: dict[str, type] = {
    "bool": bool, "int": int, "float": float, "str": str, "list": list, "dict": dict, "none": type(None)
}  # fmt: skip


@functools.cache
def _table(tool: Tool) -> dict[str, Any]:
    """The table TOOL_fields.yaml next to this file."""
    name = f"{tool}_fields.yaml"
    return read_document(files("groupwise.importing").joinpath(name).read_text(encoding="utf-8"), name).tree


@functools.cache
def fields_of(tool: Tool) -> tuple[Field, ...]:
    """What is known about the options of a trainer."""
    rows = [_field(key, dict(row)) for key, row in _table(tool)["fields"].items()]
    return (*rows, *(Field(key, "idle") for key in _table(tool)["idle"]))


@functools.cache
def losses_of(tool: Tool) -> dict[str, Loss]:
    """What a trainer's names of losses are made of."""
    return {name: Loss(**parts) for name, parts in _table(tool)["losses"].items()}


def _field(key: str, row: dict[str, Any]) -> Field:
    default = row.pop("default", None)
    if "absent" in row:
        return Field(key, "absent", default, words=row["absent"])
    kind: Kind = "copied" if "copied" in row else "translated"
    stated = row.pop("accepts", None)
    accepts = _types_of(default) if stated is None else tuple(_TYPES[name] for name in stated)
    return Field(key, kind, default, row.pop(kind), row.pop("how", ""), accepts, **row)


def _types_of(default: Any) -> tuple[type, ...]:
    if default is None or isinstance(default, (list, dict)):
        return ()
    return (int, float) if type(default) is float else (type(default),)
