"""What may have been meant: the known keys closest to an unknown one, and how keys of 0.1.0 are written now."""

import difflib
import functools
import itertools
from collections.abc import Sequence
from importlib.resources import files

from pydantic import BaseModel

from groupwise.config.describe import NAME, all_keys
from groupwise.config.schema import Place, as_named_sections, locate
from groupwise.config.yaml_document import read_document
from groupwise.findings import shown


def suggest_for(model_class: type[BaseModel], path: Sequence[str]) -> list[str]:
    """The known keys that somebody who wrote this path may have meant, likeliest first.

    Inside of an entry that users name, as `rewards.functions.brevity`, these are keys of that entry.
    """
    for depth in range(len(path) - 1, 1, -1):
        entry = as_named_sections(locate(model_class, path[: depth - 1]).annotation)
        if entry is not None:
            own = suggest_keys(".".join(path[depth:]), all_keys(entry))
            return [".".join([*path[:depth], key]) for key in own]
    return suggest_keys(".".join(path), all_keys(model_class))


def suggest_keys(unknown: str, keys: Sequence[str]) -> list[str]:
    """The known keys that somebody who wrote `unknown` may have meant, likeliest first; at most three.

    A key with the same last part in another section comes first (`lr` means `optimizer.lr`), of several those that
    share most sections; after those the closest spelling counts, with a little more for the same section.
    """
    section, _, leaf = unknown.rpartition(".")
    same_leaf = [key for key in keys if key.rpartition(".")[2] == leaf]
    if same_leaf:
        most = max(_shared_sections(unknown, key) for key in same_leaf)
        return [key for key in same_leaf if _shared_sections(unknown, key) == most][:3]

    def likeness(key: str) -> float:
        its_section, _, its_leaf = key.rpartition(".")
        last = difflib.SequenceMatcher(None, leaf, its_leaf).ratio() + (0.1 if section == its_section else 0.0)
        # `sampling_temperature` for `sampling.temperature`, `rewards.format_weight` for `rewards.format.weight`.
        within = key.removeprefix(f"{section}.") if section else key
        is_below = not section or within != key
        return max(last, difflib.SequenceMatcher(None, leaf, within).ratio()) if is_below else last

    best = max(keys, key=likeness, default="")
    return [best] if best and likeness(best) >= 0.7 else []


def _shared_sections(one: str, other: str) -> int:
    """How many sections two keys have in common from the left."""
    pairs = zip(one.split(".")[:-1], other.split(".")[:-1], strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


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
