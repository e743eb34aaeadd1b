"""YAML as configuration files use it: the scalars of YAML 1.2, no duplicate keys, and the line of every value.

ruamel.yaml parses; values are built from its events, so that no text can name a Python object to construct.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from io import StringIO
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.events import AliasEvent, CollectionEndEvent, Event, MappingStartEvent, NodeEvent, ScalarEvent
from ruamel.yaml.nodes import ScalarNode
from ruamel.yaml.reader import ReaderError
from ruamel.yaml.representer import SafeRepresenter

from groupwise.config.schema import Path

_TAG = "tag:yaml.org,2002:"
_DEEPEST = 100
# ruamel.yaml also reads 1_000, 0x1F and dates. Longer integers stay text and are refused by their type: int() itself
# raises beyond a few thousand digits.
_SCALARS: tuple[tuple[re.Pattern[str], Callable[[str], Any]], ...] = (
    (re.compile(r"null|Null|NULL|~|"), lambda _: None),
    (re.compile(r"true|True|TRUE|false|False|FALSE"), lambda text: text.lower() == "true"),
    (re.compile(r"[-+]?[0-9]{1,300}"), int),
    (re.compile(r"[-+]?(\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?=[eE]))([eE][-+]?[0-9]+)?"), float),
    (re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"), lambda text: float(text.replace(".", ""))),
    (re.compile(r".*", re.DOTALL), str),
)
# Text that YAML 1.1 and 1.2 both read as text when it is not quoted.
_PLAIN = re.compile(r"(?!(?:null|true|false|yes|no|on|off|y|n)\Z)(?:[a-z/]|\.\.?/).*", re.IGNORECASE)


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
    reader = _Reader(text, name)
    tree = reader.root()
    if tree is None:
        return Document()
    if not isinstance(tree, dict):
        raise YamlError([f"{reader.first_place}: expected `key: value` lines, found {_kind(tree)}"])
    return Document(tree, reader.positions)


def read_value(text: str, name: str) -> Any:
    """Read one value, as it stands behind the `=` of an override. Raises YamlError as `read_document` does."""
    return _Reader(text, name, numbers_lines=False).root()


def quoted_text(text: str) -> str | None:
    """The text inside, where all of `text` is one quoted YAML scalar; otherwise None."""
    try:
        value = read_value(text, "") if text.startswith(("'", '"')) else None
    except YamlError:
        return None
    return value if isinstance(value, str) else None


def write_yaml(tree: dict[str, Any]) -> str:
    """The tree as YAML that `read_document` reads back exactly, and every reader of YAML 1.1 as well."""
    yaml: Any = YAML(typ="safe", pure=True)
    yaml.Representer = _Representer
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False
    yaml.width = 2**30
    stream = StringIO()
    yaml.dump(tree, stream)
    return stream.getvalue()


class _Representer(SafeRepresenter):
    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - equal values are written out
        return True

    def text(self, text: str) -> ScalarNode:
        # Line breaks are escaped: those that are not \n survive in no other way.
        has_breaks = any(char in text for char in "\n\x85\u2028\u2029")
        style = '"' if has_breaks else None if _PLAIN.match(text) else "'"
        return self.represent_scalar(_TAG + "str", text, style=style)

    def number(self, value: float) -> ScalarNode:
        # YAML 1.1 reads 1e-05 as text.
        text = repr(value)
        return self.represent_scalar(_TAG + "float", text if "." in text else text.replace("e", ".0e"))


_Representer.add_representer(str, _Representer.text)
_Representer.add_representer(float, _Representer.number)


class _Reader:
    """Turns the events of a text into values, and keeps where each stood and what was wrong with it."""

    def __init__(self, text: str, name: str, numbers_lines: bool = True) -> None:
        self.positions: dict[Path, str] = {}
        self.first_place = ""
        self._name = name
        self._numbers_lines = numbers_lines
        self._messages: list[str] = []
        self._events = self._parse(text)

    def root(self) -> Any:
        """The value of the whole text; None where it is empty. Raises YamlError."""
        event = next(self._events, None)
        if event is None:
            return None
        self.first_place = self._place(event)
        value = self._value(event, ())
        if second := next(self._events, None):
            self._messages.append(f"{self._place(second)}: not valid YAML: expected a single document")
        if self._messages:
            raise YamlError(self._messages)
        return value

    def _parse(self, text: str) -> Iterator[Event]:
        """The first events of scalars, lists and mappings, and the last ones of lists and mappings."""
        try:
            for event in YAML(typ="safe", pure=True).parse(text):
                if isinstance(event, AliasEvent):
                    # It may name what it is part of, or a tree that grows without bound.
                    raise YamlError([f"{self._place(event)}: aliases (*{event.anchor}) are not supported"])
                if isinstance(event, NodeEvent | CollectionEndEvent):
                    yield event
            return
        except MarkedYAMLError as error:
            line = error.problem_mark.line if error.problem_mark else 0
            reason = ", ".join(part for part in (error.context, error.problem) if part)
        except ReaderError as error:
            line = text.count("\n", 0, error.position)
            reason = f"character U+{ord(text[error.position]):04X} is not allowed"
        raise YamlError([f"{self._line(line)}: not valid YAML: {reason}"])

    def _place(self, event: Event) -> str:
        return self._line(event.start_mark.line)

    def _line(self, index: int) -> str:
        return f"{self._name}:{index + 1}" if self._numbers_lines else self._name

    def _value(self, event: Any, path: Path) -> Any:
        if len(path) > _DEEPEST:
            raise YamlError([f"{self._place(event)}: nested too deeply"])
        if event.tag not in (None, f"{_TAG}str"):
            self._messages.append(f"{self._place(event)}: the tag {event.tag} is not supported")
        if isinstance(event, ScalarEvent):
            is_text = event.tag is not None or event.style is not None
            return event.value if is_text else _plain_value(event.value)
        return self._mapping(path) if isinstance(event, MappingStartEvent) else self._list(path)

    def _children(self) -> Iterator[Event]:
        """The first event of each node of the list or mapping that has begun; the node is read before the next."""
        while isinstance(event := next(self._events), NodeEvent):
            yield event

    def _list(self, path: Path) -> list[Any]:
        values = []
        for index, event in enumerate(self._children()):
            self.positions[(*path, index)] = self._place(event)
            values.append(self._value(event, (*path, index)))
        return values

    def _mapping(self, path: Path) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for event in self._children():
            where = self._place(event)
            if not isinstance(event, ScalarEvent):
                self._messages.append(f"{where}: a key must be text, found {_kind(self._value(event, (*path, 0)))}")
                self._value(next(self._events), (*path, 0))
                continue
            key = str(event.value)
            here = (*path, key)
            if key in values:
                first = self.positions[here]
                self._messages.append(f"{where}: the key `{key}` stands here a second time; the first is at {first}")
            else:
                self.positions[here] = where
            values.setdefault(key, self._value(next(self._events), here))
        return values


def _plain_value(text: str) -> Any:
    """The value of a scalar without quotes."""
    return next(read(text) for pattern, read in _SCALARS if pattern.fullmatch(text))


def _kind(value: Any) -> str:
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "a mapping"
    return f"only the value {str(value)[:40]!r}"
