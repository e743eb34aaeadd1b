"""Options that a program gives as a mapping, in place of the text of a file or of a command line."""

from collections.abc import Iterator, Mapping
from os import PathLike, fspath
from typing import Any

from pydantic import BaseModel

from groupwise.config.merge import merged
from groupwise.config.schema import Path, as_section, locate
from groupwise.config.yaml_document import Document, YamlError
from groupwise.findings import shown
from groupwise.objective.own.bind import stated
from groupwise.technique import Technique

OWN_KEYS = ("objective.surrogate", "advantage.estimator", "off_policy_mask")
"""Options that functions and classes of the user's own can be, as objects too."""


def read_mapping(owner: type[BaseModel], given: Mapping[str, Any]) -> Document:
    """A mapping of options, nested by sections, or with dotted keys, or both; later keys win.

    A section may be an options object of groupwise, a list a tuple, a path a `Path`, a number one of NumPy. The place
    of a value in an error is `key=value`, as on a command line. Raises YamlError for what no option could hold.
    """
    whole, messages = Document(), []
    for key, value in given.items():
        faults: list[str] = []
        tree = nested(str(key), _plain(value, str(key), faults))
        messages += faults
        if not faults:
            places = {path: _place(owner, tree, tuple(str(key).split(".")), path) for path in paths_in(tree)}
            whole = Document(merged(owner, whole.tree, tree), {**whole.positions, **places})
    if messages:
        raise YamlError(messages)
    return whole


def nested(key: str, value: Any) -> dict[str, Any]:
    """A value below the sections of its dotted key."""
    tree = value
    for name in reversed(key.split(".")):
        tree = {name: tree}
    return dict(tree)


def paths_in(tree: Any, above: Path = ()) -> Iterator[Path]:
    """The paths of all values in a tree."""
    children = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for part, value in children:
        yield (*above, part)
        yield from paths_in(value, (*above, part))


def _place(owner: type[BaseModel], tree: Any, key: Path, path: Path) -> str:
    """What gives the value at a path, as a command line has it: `optimizer.lr=1e-3`, also where a section was given."""
    end = len(key)
    while end < len(path) and as_section(locate(owner, path[:end]).annotation):
        end += 1
    option = path[:end] if len(path) > len(key) else key
    for part in option:
        tree = tree[part]
    return f"{'.'.join(map(str, option))}={shown(tree)}"


def _plain(value: Any, key: str, faults: list[str]) -> Any:
    """The value as YAML would hold it."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if key in OWN_KEYS:
        value = stated(value)
    if isinstance(value, BaseModel):
        named = {"type": value.model_dump()["type"]} if isinstance(value, Technique) else {}
        return {**named, **value.model_dump(exclude_unset=True)}
    if isinstance(value, Mapping):
        tree: dict[str, Any] = {}
        for name, item in value.items():
            tree = merged(None, tree, nested(str(name), _plain(item, f"{key}.{name}", faults)))
        return tree
    if isinstance(value, list | tuple):
        return [_plain(item, f"{key}[{index}]", faults) for index, item in enumerate(value)]
    if isinstance(value, PathLike):
        return str(fspath(value))
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        return _plain(value.item(), key, faults)
    faults.append(
        f"{key}: found {type(value).__name__}, expected text, a number, true or false, None, a list or a mapping"
    )
    return None
