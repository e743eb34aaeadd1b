"""What a check says, and the most frequent thing that one has to say."""

from collections.abc import Iterator
from typing import Any

from groupwise.config import SftConfig, TrainConfig
from groupwise.findings import Finding, unused


def unused_option(config: TrainConfig | SftConfig, key: str, because: str, remedy: str) -> Iterator[Finding]:
    """An error where `key` was changed although, under the option `because`, nothing reads it.

    What counts as set is what differs from the default: a file may state a default next to anything.
    """
    yield from unused(key, value_of(config, key), default_of(config, key), because, remedy)


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
