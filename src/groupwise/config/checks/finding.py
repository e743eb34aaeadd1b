"""What a check says, and the most frequent thing that one has to say."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from groupwise.config import SftConfig, TrainConfig


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong between the options `keys`, why, and what to do. A `warning` can be run, an `error` is refused."""

    level: Literal["error", "warning"]
    keys: tuple[str, ...]
    message: str


def error(keys: tuple[str, ...], message: str) -> Finding:
    """Something that cannot be run, or that would not be what it says."""
    return Finding("error", keys, message)


def warning(keys: tuple[str, ...], message: str) -> Finding:
    """Something that can be run and hardly is what was wanted."""
    return Finding("warning", keys, message)


def unused(config: TrainConfig | SftConfig, key: str, because: str, remedy: str) -> Iterator[Finding]:
    """An error where `key` was changed although, under the option `because`, nothing reads it.

    What counts as set is what differs from the default: a file may state a default beside anything.
    """
    value, default = value_of(config, key), default_of(config, key)
    if value != default:
        text = (
            f"{key}={shown(value)} has no effect with {because}; {remedy}, or set {key} back to its "
            f"default, {shown(default)}"
        )
        yield error((key, because.partition("=")[0]), text)


def value_of(config: TrainConfig | SftConfig, key: str) -> Any:
    """The value of an option by its dotted name."""
    value: Any = config
    for name in key.split("."):
        value = getattr(value, name)
    return value


def default_of(config: TrainConfig | SftConfig, key: str) -> Any:
    """The default of an option by its dotted name."""
    section, _, name = key.rpartition(".")
    owner = type(value_of(config, section)) if section else type(config)
    return owner.model_fields[name].default


def shown(value: Any) -> str:
    """A value as it is written in a configuration."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {shown(entry)}" for key, entry in value.items()) + "}"
    if isinstance(value, list):
        return f"[{', '.join(map(shown, value))}]"
    return "''" if value == "" else str(value)
