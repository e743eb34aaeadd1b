"""YAML as configuration files use it: the scalars of YAML 1.2, no duplicate keys, and the line of every value.

PyYAML speaks YAML 1.1, where `1e-5` is text, `on` is true, `12:30` is 750 and the last of two equal keys wins silently.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

Path = tuple[str | int, ...]

_TAG = "tag:yaml.org,2002:"
# Longer integers stay text and are refused by type: int() itself raises beyond a few thousand digits.
_SCALARS = {
    "null": re.compile(r"(?:null|Null|NULL|~|)\Z"),
    "bool": re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z"),
    "int": re.compile(r"[-+]?[0-9]{1,300}\Z"),
    "float": re.compile(
        r"(?:[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?"
        r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))\Z"
    ),
}


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers: dict[Any, Any] = {}


class _Dumper(yaml.SafeDumper):
    """Quotes whatever either version of YAML would not read as text, so that every reader agrees with ours."""


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    """Text as a scalar; line breaks that are not \\n survive only where they are escaped."""
    style = '"' if any(char in text for char in "\x85\u2028\u2029") else None
    return dumper.represent_scalar(_TAG + "str", text, style=style)


_Dumper.add_representer(str, _text)

for _name, _pattern in _SCALARS.items():
    _Loader.add_implicit_resolver(_TAG + _name, _pattern, None)
    _Dumper.add_implicit_resolver(_TAG + _name, _pattern, None)


@dataclass
class Document:
    """A mapping read from one place, with the place of every key: `positions[("optimizer", "lr")] == "my.yaml:3"`."""

    tree: dict[str, Any] = field(default_factory=dict)
    positions: dict[Path, str] = field(default_factory=dict)


class YamlError(Exception):
    """All that is wrong with a text; each of `messages` begins with its place."""

    def __init__(self, messages: list[str]) -> None:
        super().__init__("\n".join(messages))
        self.messages = messages


def read_document(text: str, name: str) -> Document:
    """Read a YAML mapping; `name` is how its places are called, as in `name:3`.

    Raises YamlError for broken syntax, a text that is not a mapping, duplicate keys, tags and aliases.
    """
    root = _compose(text, name)
    if root is None:
        return Document()
    if not isinstance(root, yaml.MappingNode):
        raise YamlError([f"{_place(root, name)}: expected `key: value` lines, found {_node_kind(root)}"])
    value, positions = _read_root(root, name)
    return Document(value, positions)


def read_value(text: str, name: str) -> Any:
    """Read one value, as it stands behind the `=` of an override. Raises YamlError as `read_document` does."""
    try:
        root = _compose(text, "")
        return None if root is None else _read_root(root, "")[0]
    except YamlError as error:
        # There is only one line, so its number would say nothing.
        raise YamlError([f"{name}: {message.partition(': ')[2]}" for message in error.messages]) from None


def quoted_text(text: str) -> str | None:
    """The text inside, where all of `text` is one quoted YAML scalar; otherwise None."""
    if text[:1] not in ("'", '"'):
        return None
    try:
        root = _compose(text, "")
    except YamlError:
        return None
    return str(root.value) if isinstance(root, yaml.ScalarNode) and root.style is not None else None


def write_yaml(tree: dict[str, Any]) -> str:
    """The tree as YAML that `read_document` reads back exactly."""
    return yaml.dump(tree, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=2**30)


def _compose(text: str, name: str) -> yaml.Node | None:
    try:
        for token in yaml.scan(text, Loader=_Loader):
            # An alias may stand for itself, or for a tree that grows without bound.
            if isinstance(token, yaml.AliasToken):
                raise YamlError([f"{name}:{token.start_mark.line + 1}: aliases (*{token.value}) are not supported"])
        root: yaml.Node | None = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        reason = ", ".join(part for part in (error.context, error.problem) if part)
        raise YamlError([f"{name}:{line}: not valid YAML: {reason}"]) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        reason = f"character U+{ord(text[error.position]):04X} is not allowed"
        raise YamlError([f"{name}:{line}: not valid YAML: {reason}"]) from None
    except RecursionError:
        raise YamlError([f"{name}:1: nested too deeply"]) from None
    return root


def _read_root(root: yaml.Node, name: str) -> tuple[Any, dict[Path, str]]:
    reader = _Reader(name)
    value = reader.value(root, ())
    if reader.messages:
        raise YamlError(reader.messages)
    return value, reader.positions


def _place(node: yaml.Node, name: str) -> str:
    return f"{name}:{node.start_mark.line + 1}"


def _node_kind(node: yaml.Node) -> str:
    if isinstance(node, yaml.SequenceNode):
        return "a list"
    return f"only the value {node.value[:40]!r}" if isinstance(node, yaml.ScalarNode) else "a mapping"


class _Reader:
    """Turns nodes into values, and keeps where each stood and what was wrong with it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.positions: dict[Path, str] = {}
        self.messages: list[str] = []

    def value(self, node: yaml.Node, path: Path) -> Any:
        if isinstance(node, yaml.MappingNode):
            return self.mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self._placed(child, (*path, index)) for index, child in enumerate(node.value)]
        return self._scalar(node)

    def mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key_node, value_node in self._pairs(node):
            key = str(key_node.value)
            where = _place(key_node, self.name)
            if key in values:
                first = self.positions[(*path, key)]
                self.messages.append(f"{where}: the key `{key}` stands here a second time; the first is at {first}")
                continue
            self.positions[(*path, key)] = where
            values[key] = self.value(value_node, (*path, key))
        return values

    def _pairs(self, node: yaml.MappingNode) -> Iterator[tuple[yaml.ScalarNode, yaml.Node]]:
        for key_node, value_node in node.value:
            if isinstance(key_node, yaml.ScalarNode):
                yield key_node, value_node
            else:
                self.messages.append(f"{_place(key_node, self.name)}: a key must be text, found {_node_kind(key_node)}")

    def _placed(self, node: yaml.Node, path: Path) -> Any:
        self.positions[path] = _place(node, self.name)
        return self.value(node, path)

    def _scalar(self, node: yaml.Node) -> Any:
        text = str(node.value)
        kind = node.tag.removeprefix(_TAG)
        if kind == "str":
            return text
        # An explicit tag (`!!int x`, `!!python/name:os.system`) need not fit the text behind it.
        if kind not in _SCALARS or not _SCALARS[kind].match(text):
            self.messages.append(f"{_place(node, self.name)}: the tag {node.tag} is not supported")
            return None
        if kind == "null":
            return None
        if kind == "bool":
            return text.lower() == "true"
        if kind == "int":
            return int(text)
        return float(text.replace(".inf", "inf").replace(".nan", "nan") if text[-1].isalpha() else text)
