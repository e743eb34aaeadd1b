"""The outcome of a translation, and the draft that the translations fill in."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from groupwise.config import TrainConfig
from groupwise.config.checks import contradictions
from groupwise.config.hints import suggest_keys
from groupwise.config.messages import explain
from groupwise.config.schema import Path
from groupwise.errors import DataError
from groupwise.findings import shown
from groupwise.importing.option_rows import Field


@dataclass(frozen=True)
class Remark:
    """Something to know about one key of the other trainer."""

    key: str
    text: str


@dataclass(frozen=True)
class Imported:
    """A translated configuration.

    config: the options of groupwise, by section. no_counterpart: what the file sets and groupwise cannot do.
    differs: keys that mean something else, or something slightly else, here. notes: what else there is to know.
    """

    config: dict[str, Any]
    no_counterpart: list[Remark]
    differs: list[Remark]
    notes: list[str]


@dataclass(frozen=True)
class Source:
    """The file of another trainer: its values by dotted key, the place of each, and those that it leaves open."""

    name: str
    values: dict[str, Any]
    places: dict[str, str] = field(default_factory=dict)
    unresolved: dict[str, str] = field(default_factory=dict)

    def place(self, key: str) -> str:
        return self.places.get(key, self.name)


class Draft:
    """A translation in the making.

    Reading a key gives the file's value, or what the trainer takes without one. A null means an absent key, except
    where the trainer gives null another meaning.
    """

    def __init__(self, tool: str, fields: Sequence[Field], source: Source) -> None:
        self.tool = tool
        self.source = source
        self._fields: Mapping[str, Field] = {row.key: row for row in fields}
        self._set: dict[str, Any] = {}
        self._origin: dict[str, str] = {}
        self._absent: list[Remark] = []
        self._differs: list[Remark] = []
        self._notes: list[str] = []
        self._check_types()

    def __getitem__(self, key: str) -> Any:
        row = self._fields[key]
        value = self.source.values.get(key)
        if value is None and (key not in self.source.values or type(None) not in row.accepts):
            return row.default
        return value

    def states(self, *keys: str) -> bool:
        """Whether the file sets one of these keys."""
        return any(key in self.source.values for key in keys)

    def set(self, option: str, value: Any, origin: str) -> None:
        """Set an option of groupwise because of a key of the file."""
        self._set[option] = value
        self._origin[option] = origin

    def set_in(self, section: str, origin: str, **options: Any) -> None:
        """Set options of one section because of a key of the file."""
        for name, value in options.items():
            self.set(f"{section}.{name}", value, origin)

    def get(self, option: str) -> Any:
        """What an option of groupwise was set to so far; None where it was not."""
        return self._set.get(option)

    def drop(self, option: str) -> None:
        """Leave an option at groupwise's default after all."""
        self._set.pop(option, None)

    def absent(self, key: str, text: str = "", **parts: Any) -> None:
        """Say that a key has no counterpart; without a text with that of its row, these parts put in."""
        self._absent.append(Remark(key, text or self._fields[key].lost.format(**parts) or self._fields[key].words))

    def differs(self, key: str, text: str = "", **parts: Any) -> None:
        """Say where a key means something else; without a text with that of its row, these parts put in."""
        self._differs.append(Remark(key, text or self._fields[key].differs.format(**parts)))

    def note(self, text: str) -> None:
        """Say something about the translation as a whole."""
        self._notes.append(text)

    def choose(self, key: str, values: Mapping[str, Any] | None = None) -> Any:
        """What the value of a key becomes by its row, or by `values`. Raises DataError for one that nobody knows."""
        row, name = self._fields[key], shown(self[key])
        values = row.values if values is None else values
        if name in values:
            return values[name]
        if not row.otherwise:
            expected = ", ".join(values)
            raise DataError(f"{self.source.place(key)}: {key}: found {name!r}, expected one of {expected}")
        taken, text = row.otherwise
        self.absent(key, text.format(name))
        return taken

    def copy_and_sort(self) -> None:
        """Copy what means the same, and say what has no counterpart and what is not known."""
        for key, row in self._fields.items():
            if row.kind == "copied" and not row.when:
                self._copy(row)
            elif row.kind == "absent" and self.states(key) and self[key] != row.default:
                self.absent(key)
        for key in self.source.values:
            if self._row(key) is None:
                close = suggest_keys(key, list(self._fields))
                hint = f"; did you mean {' or '.join(close)}?" if close else ""
                self.absent(key, f"not recognised as an option of {self.tool}{hint}")
        for key, text in self.source.unresolved.items():
            if key in self._fields and self._fields[key].kind != "idle":
                self.note(f"{key}={text} is left out: the file does not say what it is")

    def finish(self) -> Imported:
        """The outcome. Raises DataError for values that no option of groupwise takes."""
        for copied in self._fields.values():
            if copied.when and self._depends_on_what_holds(copied):
                self._copy(copied)
        order = list(TrainConfig.model_fields)
        tree: dict[str, Any] = {}
        for option in sorted(self._set, key=lambda option: order.index(option.partition(".")[0])):
            *sections, name = option.split(".")
            owner = tree
            for section in sections:
                owner = owner.setdefault(section, {})
            owner[name] = self._set[option]
        places: dict[Path, str] = {
            tuple(option.split(".")): f"{self.source.place(key)}: {key}" for option, key in self._origin.items()
        }
        try:
            config = TrainConfig.model_validate(tree)
        except ValidationError as error:
            lines = [explain(TrainConfig, detail, places) for detail in error.errors()]
            raise DataError("values that groupwise cannot take:\n" + "\n".join(f"- {line}" for line in lines)) from None
        for finding in contradictions(config):
            word = "refuses" if finding.level == "error" else "warns"
            self.note(f"groupwise {word}: {finding.message}")
        quiet = [key for key in self.source.values if (row := self._row(key)) and row.kind == "idle"]
        if quiet:
            self.note(f"without effect on the algorithm, left out: {', '.join(quiet)}")
        return Imported(_named_alone(tree), self._absent, self._differs, self._notes)

    def _copy(self, row: Field) -> None:
        if self[row.key] is not None:
            self.set(row.to, self[row.key], row.key)

    def _depends_on_what_holds(self, row: Field) -> bool:
        if row.when in ("stated", "given"):
            return self.states(row.key) and (row.when == "stated" or bool(self[row.key]))
        option, _, value = row.when.partition("=")
        return option in self._set and value in ("", self._set[option])

    def _row(self, key: str) -> Field | None:
        """The row of a key, or of the whole section that it stands in, such as `critic` for `critic.optim.lr`."""
        parts = key.split(".")
        rows = (self._fields.get(".".join(parts[:end])) for end in range(len(parts), 0, -1))
        return next((row for row in rows if row is not None), None)

    def _check_types(self) -> None:
        wrong = [
            f"{self.source.place(key)}: {key}: found {shown(value)!r}, expected {_words_of(row.accepts)}"
            for key, value in self.source.values.items()
            if (row := self._fields.get(key)) and row.accepts and value is not None and not _fits(value, row.accepts)
        ]
        if wrong:
            raise DataError(f"not a configuration of {self.tool}:\n" + "\n".join(f"- {line}" for line in wrong))


def _named_alone(tree: Any) -> Any:
    """A technique of which nothing but its name is set is written as its name."""
    if not isinstance(tree, dict):
        return tree
    return tree["type"] if tree.keys() == {"type"} else {key: _named_alone(value) for key, value in tree.items()}


_WORDS = {
    bool: "true or false",
    int: "an integer",
    float: "a finite number",
    str: "text",
    list: "a list",
    dict: "a mapping",
}


def _words_of(types: tuple[type, ...]) -> str:
    return " or ".join(_WORDS[kind] for kind in types if kind in _WORDS and not (kind is int and float in types))


def _fits(value: Any, types: tuple[type, ...]) -> bool:
    # A bool is an int to Python, and never one in a configuration.
    return type(value) in types and not (isinstance(value, float) and not math.isfinite(value))
