"""What is known about the options of another trainer: one row for each, as data.

The translation, the remarks that it makes and docs/translation.md all read these rows.
"""

import functools
from importlib.resources import files
from typing import Any, Literal, NamedTuple

from groupwise.config.yaml_document import read_document

Kind = Literal["copied", "translated", "absent", "idle"]


class Field(NamedTuple):
    """One option of another trainer.

    default: what the trainer takes where the key is absent. to: the options of groupwise, as text. words: how it is
    translated, or why it has no counterpart. accepts: the types of its values; empty accepts all.

    Kinds: `copied` has the same meaning and goes to `to` as it is; `translated` by a function; `absent` has no
    counterpart, which is said where it is set; `idle` does not change the algorithm.
    """

    key: str
    kind: Kind
    default: Any = None
    to: str = ""
    words: str = ""
    accepts: tuple[type, ...] = ()


_TYPES: dict[str, type] = {
    "bool": bool, "int": int, "float": float, "str": str, "list": list, "dict": dict, "none": type(None)
}  # fmt: skip


@functools.cache
def fields_of(tool: Literal["trl", "verl"]) -> tuple[Field, ...]:
    """What is known about the options of a trainer, from the table TOOL_fields.yaml next to this file."""
    text = files("groupwise.importing").joinpath(f"{tool}_fields.yaml").read_text(encoding="utf-8")
    table = read_document(text, f"{tool}_fields.yaml").tree
    rows = [_field(key, row) for key, row in table["fields"].items()]
    return (*rows, *(Field(key, "idle") for key in table["idle"]))


def _field(key: str, row: dict[str, Any]) -> Field:
    default = row.get("default")
    if "absent" in row:
        return Field(key, "absent", default, "", row["absent"])
    kind: Kind = "copied" if "copied" in row else "translated"
    accepts = tuple(_TYPES[name] for name in row["accepts"]) if "accepts" in row else _types_of(default)
    return Field(key, kind, default, row[kind], row.get("how", ""), accepts)


def shown(value: Any) -> str:
    """A value as it stands in YAML."""
    return str(value).lower() if isinstance(value, bool) else "null" if value is None else str(value)


def _types_of(default: Any) -> tuple[type, ...]:
    if default is None or isinstance(default, (list, dict)):
        return ()
    return (int, float) if type(default) is float else (type(default),)
