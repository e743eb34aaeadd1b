"""Values of a configuration by the keys that `groupwise config --keys` lists."""

from collections.abc import Iterator
from typing import Any

from groupwise.config import TrainConfig
from groupwise.config.describe import NAME
from groupwise.technique import Technique


def values_at(config: TrainConfig, key: str) -> dict[str, Any]:
    """The value of an option by its key; of `rewards.functions.NAME.path` that of every function.

    An option that chooses a technique has its name as its value; an option of a technique that is not chosen has none.
    An option of `rewards` stands there once more for every domain in which it differs; of `domains.NAME.rewards`, which
    has many options, there is what the domain states.
    """
    if key == f"domains.{NAME}.rewards":
        stated: dict[str, Any] = config.model_dump()["domains"]
        return {f"domains.{name}.rewards": domain["rewards"] for name, domain in stated.items() if "rewards" in domain}
    found = dict(_below(config, key.split("."), ""))
    if key.startswith("rewards."):
        for name in config.domains:
            prefix = f"domains.{name}."
            own = _below(config.rewards_of(name), key.split(".")[1:], f"{prefix}rewards.")
            found |= {path: value for path, value in own if found.get(path.removeprefix(prefix), _ABSENT) != value}
    return {path: value for path, value in found.items() if value is not None}


_ABSENT = object()


def _below(value: Any, parts: list[str], path: str) -> Iterator[tuple[str, Any]]:
    if not parts:
        name = type(value).model_fields["type"].default if isinstance(value, Technique) else value
        yield path.removesuffix("."), name
    elif isinstance(value, dict):
        for name in value if parts[0] == NAME else parts[:1]:
            yield from _below(value[name], parts[1:], f"{path}{name}.")
    elif hasattr(value, parts[0]) or not isinstance(value, Technique):
        yield from _below(getattr(value, parts[0]), parts[1:], f"{path}{parts[0]}.")
