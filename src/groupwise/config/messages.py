"""What is wrong with a configuration, said in its own words: where, which option, what was found, what is expected."""

import re
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from groupwise.config.describe import annotation_text, type_text
from groupwise.config.hints import renamed, suggest_for
from groupwise.config.schema import Path, Place, as_techniques, locate, options_of
from groupwise.findings import suggest_word

# Of code of the user's own: what cannot be used of it, and a wrong value of an option that it declares.
OWN_ERRORS = ("own_code", "own_option")


def dotted(path: Path) -> str:
    """A path as users write it: `prompt.examples[0].answer`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


def in_quotes(text: str) -> str:
    """With every override `KEY={...}` in it in single quotes, as a shell needs them."""
    return re.sub(r"[\w.]+=\{[^}]*\}", lambda override: f"'{override[0]}'", text)


def explain(model_class: type[BaseModel], detail: ErrorDetails, positions: Mapping[Path, str]) -> str:
    """One line for one error of pydantic; `positions` gives the place of every value."""
    place = locate(model_class, detail["loc"])
    path, key, found = place.path, dotted(place.path), detail["input"]
    if detail["type"] == "missing":
        where = f"{positions[path[:-1]]}: " if path[:-1] in positions else ""
        doc = f" ({place.info.description})" if place.info and place.info.description else ""
        return f"{where}{key} is missing and has no default; expected {_expected(place)}{doc}"
    if detail["type"] == "union_tag_invalid":
        path = (*path, "type")
    where = next((f"{positions[path[:end]]}: " for end in range(len(path), 0, -1) if path[:end] in positions), "")
    if detail["type"] in OWN_ERRORS:
        context = detail["ctx"]
        if "technique" in context:
            option = explain(context["technique"], context["detail"], {})
            return f"{where}{dotted(path[: path.index('options') + 1])} of {context['path']}: {option}"
        return f"{where}{key}: {detail['msg']}"
    new = in_quotes(renamed(place, found))
    hint = f"; since 0.2.0: {new}" if new else ""
    if detail["type"] == "extra_forbidden":
        reason = getattr(place.owner, "refused", {}).get(path[-1])
        return f"{where}{key} is not an option" + (f": {reason}" if reason else hint or _key_hint(model_class, place))
    if detail["type"] == "union_tag_invalid":
        found = found["type"]
        hint = suggest_word(str(found), list(as_techniques(place.annotation)))
    return f"{where}{key}: found {_found(found)}, expected {_expected(place)}{hint or _value_hint(detail)}"


def _expected(place: Place) -> str:
    if place.info is not None:
        return type_text(place.info)
    return "a mapping" if place.annotation is None else annotation_text(place.annotation)


def _key_hint(model_class: type[BaseModel], place: Place) -> str:
    *above, name = map(str, place.path)
    if "." in name:
        return f"; in a file a section is written with its keys indented below it, not as {name!r}"
    if any(isinstance(part, int) for part in place.path):
        return f"; expected {_expected(locate(model_class, place.path[:-1]))}"
    chosen = ""
    if place.techniques:
        chosen = next(which for which, technique in place.techniques.items() if technique is place.owner)
        having = [which for which, technique in place.techniques.items() if name in options_of(technique)]
        if having:
            forms = " or ".join(f"{'.'.join(above)}={{type: {which}, {name}: ...}}" for which in having)
            return (
                f" of {chosen}; {' and '.join(having)} {'has' if len(having) == 1 else 'have'} it: {in_quotes(forms)}"
            )
    close = suggest_for(model_class, [*above, name])
    if close:
        return f"; did you mean {' or '.join(close)}?"
    known = options_of(place.owner) if place.owner else ()
    return f"; the keys here are {', '.join(known)}" if known else f"; {chosen or 'this'} has no options"


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
