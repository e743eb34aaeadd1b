"""What is wrong between options, as data."""

import difflib
import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel


@dataclass(frozen=True, slots=True)
class Finding:
    """What is to be known of the options `keys`, why, and what to do.

    An `error` is refused, a `warning` can be run. A `note` is nothing wrong: a choice that cannot act as it stands.
    """

    level: Literal["error", "warning", "note"]
    keys: tuple[str, ...]
    message: str


def error(keys: tuple[str, ...], message: str) -> Finding:
    """Something that cannot be run, or that would not be what it says."""
    return Finding("error", keys, message)


def warning(keys: tuple[str, ...], message: str) -> Finding:
    """Something that can be run and is hardly what was wanted."""
    return Finding("warning", keys, message)


def note(keys: tuple[str, ...], message: str) -> Finding:
    """A choice that cannot act in this configuration, where that is not wrong."""
    return Finding("note", keys, message)


def unused(
    key: str, value: Any, default: Any, because: str, remedy: str, called: str = "its default"
) -> Iterator[Finding]:
    """An error where the option `key` was changed although nothing reads it, because of `because`, as `option=value`.

    What counts as set is what differs from the default: a file may state a default next to anything.
    """
    if value != default:
        text = (
            f"{key}={shown(value)} has no effect with {because}; {remedy}, or set {key} back to {called}, "
            f"{shown(default)}"
        )
        yield error((key, because.partition("=")[0]), text)


def unused_option(options: BaseModel, key: str, because: str, remedy: str) -> Iterator[Finding]:
    """As `unused`, of the option with this dotted name below `options`."""
    *sections, name = key.split(".")
    owner: Any = functools.reduce(getattr, sections, options)
    yield from unused(key, getattr(owner, name), type(owner).model_fields[name].default, because, remedy)


def shown(value: Any) -> str:
    """A value as it is written in a configuration."""
    if isinstance(value, BaseModel):
        return shown(value.model_dump())
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {shown(entry)}" for key, entry in value.items()) + "}"
    if isinstance(value, list):
        return f"[{', '.join(map(shown, value))}]"
    return "''" if value == "" else str(value)


def suggest_word(unknown: str, words: Sequence[str]) -> str:
    """`; did you mean WORD?`, or nothing where no word is close."""
    close = difflib.get_close_matches(unknown, words, n=1)
    return f"; did you mean {close[0]}?" if close else ""
