"""What the keys of 0.1.0 are called now."""

import functools
from importlib.resources import files

from groupwise.config.describe import NAME
from groupwise.config.schema import Place
from groupwise.config.yaml_document import read_document
from groupwise.findings import shown


@functools.cache
def renamed_keys() -> dict[str, str]:
    """Keys of 0.1.0, some with a value, as they are written since 0.2.0: the table renamed.yaml next to this file."""
    text = files("groupwise.config").joinpath("renamed.yaml").read_text(encoding="utf-8")
    return read_document(text, "renamed.yaml").tree


def renamed(place: Place, value: object) -> str:
    """How an old key, or an old value of a key, is written now; empty for what never was one.

    `rewards` is also that of a domain.
    """
    parts, prefix, name = [str(part) for part in place.path], "", ""
    if parts[0] == "domains" and len(parts) > 2:
        prefix, parts = f"domains.{parts[1]}.", parts[2:]
    if parts[:2] == ["rewards", "functions"] and len(parts) == 4:
        name, parts[2] = parts[2], NAME
    key = ".".join(parts)
    new = renamed_keys().get(f"{key}={shown(value)}") or (renamed_keys().get(key, "") if place.info is None else "")
    return new.replace(NAME, name) if " " in new else prefix + new.replace(NAME, name) if new else ""
