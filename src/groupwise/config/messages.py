"""What is wrong with a configuration, said in its own words: where, which option, what was found, what is expected."""

import re
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from groupwise.config.describe import (
    annotation_at,
    annotation_text,
    field_at,
    option_path,
    siblings_of,
    suggest_for,
    suggest_word,
    type_text,
)
from groupwise.config.yaml_document import Path


def dotted(path: Path) -> str:
    """A path as users write it: `prompt.examples[0].answer`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


def explain(model_class: type[BaseModel], detail: ErrorDetails, positions: Mapping[Path, str]) -> str:
    """One line for one error of pydantic; `positions` gives the place of every value."""
    path = option_path(model_class, detail["loc"])
    key = dotted(path)
    place = next((positions[path[:depth]] for depth in range(len(path), 0, -1) if path[:depth] in positions), None)
    prefix = f"{place}: " if place else ""
    if detail["type"] == "missing":
        owner = f"{positions[path[:-1]]}: " if path[:-1] in positions else ""
        info = field_at(model_class, path)
        doc = f" ({info.description})" if info and info.description else ""
        return f"{owner}{key} is missing and has no default; expected {_expected(model_class, path)}{doc}"
    if detail["type"] == "extra_forbidden":
        return f"{prefix}{key} is not an option{_key_hint(model_class, path)}"
    found = detail["input"]
    return f"{prefix}{key}: found {_found(found)}, expected {_expected(model_class, path)}{_value_hint(detail)}"


def _expected(model_class: type[BaseModel], path: Path) -> str:
    info = field_at(model_class, path)
    if info is not None:
        return type_text(info)
    annotation = annotation_at(model_class, path)
    return "a mapping" if annotation is None else annotation_text(annotation)


def _key_hint(model_class: type[BaseModel], path: Path) -> str:
    name = str(path[-1])
    if "." in name:
        return f"; in a file a section is written with its keys indented below it, not as {name!r}"
    if any(isinstance(part, int) for part in path):
        return f"; expected {_expected(model_class, path[:-1])}"
    names = [str(part) for part in path]
    close = suggest_for(model_class, names)
    if close:
        return f"; did you mean {' or '.join(close)}?"
    return f"; the keys here are {', '.join(siblings_of(model_class, names))}"


def _found(value: Any) -> str:
    if value is None:
        return "nothing (null)"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "a section" + (f" with the keys {', '.join(map(str, list(value)[:5]))}" if value else "")
    if isinstance(value, list):
        return f"a list of {len(value)}"
    text = repr(value)
    shown = text if len(text) <= 60 else text[:57] + "..."
    kind = {int: "integer", float: "number", str: "text"}[type(value)]
    return f"the {kind} {shown}"


def _value_hint(detail: ErrorDetails) -> str:
    """What to write instead, where a look at the value tells."""
    found, kind = detail["input"], detail["type"]
    if kind == "literal_error" and isinstance(found, str):
        choices = re.findall(r"'([^']*)'", str(detail.get("ctx", {}).get("expected", "")))
        return suggest_word(found, choices)
    if kind == "string_type" and isinstance(found, int | float):
        return "; put it in quotes"
    if kind == "int_type" and isinstance(found, float) and found.is_integer():
        return f"; write {int(found)}"
    if kind in ("int_type", "float_type") and isinstance(found, str) and re.fullmatch(r"[-+]?[0-9.]{1,300}", found):
        return "; take it out of its quotes"
    return ""
