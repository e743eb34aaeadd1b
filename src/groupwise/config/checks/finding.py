"""What a check says, and the most frequent thing that one has to say."""

from collections.abc import Iterator
from typing import Any

from groupwise.config import SftConfig, TrainConfig
from groupwise.findings import Finding, error, shown


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
