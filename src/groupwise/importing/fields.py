"""What is known about the options of another trainer: one row for each, as data.

The translation, the remarks that it makes and docs/translation.md all read these rows.
"""

from typing import Any, Literal, NamedTuple

Kind = Literal["copied", "translated", "absent", "idle"]


class Field(NamedTuple):
    """One option of another trainer.

    default: what the trainer takes where the key is absent. to: the options of groupwise, as text. words: how it is
    translated, or why it has no counterpart. accepts: the types of its values; empty accepts all.

    Kinds: `copied` has the same meaning and goes to `to` as it is; `translated` by a function; `absent` has no
    counterpart, which is said where it is set; `idle` does not change the algorithm.
    """

    key: str
    kind: Kind
    default: Any = None
    to: str = ""
    words: str = ""
    accepts: tuple[type, ...] = ()


def copied(key: str, default: Any, to: str, words: str = "") -> Field:
    """An option with one meaning in both trainers."""
    return Field(key, "copied", default, to, words, _types_of(default))


def translated(key: str, default: Any, to: str, words: str, accepts: tuple[type, ...] | None = None) -> Field:
    """An option that a function translates."""
    return Field(key, "translated", default, to, words, _types_of(default) if accepts is None else accepts)


def absent(key: str, default: Any, words: str) -> Field:
    """An option without a counterpart."""
    return Field(key, "absent", default, "", words)


def idle(names: str, section: str = "") -> list[Field]:
    """Options of a section that do not change the algorithm: where it runs, how fast, and what it writes."""
    return [Field(f"{section}.{name}" if section else name, "idle") for name in names.split()]


def shown(value: Any) -> str:
    """A value as it stands in YAML."""
    return str(value).lower() if isinstance(value, bool) else "null" if value is None else str(value)


def _types_of(default: Any) -> tuple[type, ...]:
    if default is None or isinstance(default, (list, dict)):
        return ()
    return (int, float) if type(default) is float else (type(default),)
