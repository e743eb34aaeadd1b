"""Reading the files of other trainers: YAML, JSON, and shell scripts of `a.b.c=value` overrides."""

import ast
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from groupwise.config.yaml_document import Document, YamlError, read_document, read_value
from groupwise.errors import DataError
from groupwise.grading.code.language.interpreter import Interpreter
from groupwise.grading.code.language.names import ERRORS
from groupwise.importing.record import Source

_OVERRIDE = re.compile(r"\+{0,2}([A-Za-z_]\w*(?:\.[\w-]+)+)=(.*)", re.DOTALL)
_ASSIGNMENT = re.compile(r"(?:export\s+)?([A-Za-z_]\w*)=(.*)", re.DOTALL)
_VARIABLE = re.compile(r"\$\{(\w+)(?::?-([^{}$]*))?\}|\$(\w+)")
_ARITHMETIC = re.compile(r"\$\(\((.*?)\)\)")
_REFERENCE = re.compile(r"\$\{(?:oc\.select:)?\s*([\w.]+)\s*(?:,\s*([^{}$]*?))?\s*\}")


def read_flat(path: str) -> Source:
    """A file of `key: value` lines without sections. Raises DataError for a file that cannot be read as one."""
    document = _read_mapping(path, _text(path))
    places = {str(where[0]): place for where, place in document.positions.items() if len(where) == 1}
    return Source(path, document.tree, places)


def read_nested(path: str) -> Source:
    """A file of sections, or of `a.b.c=value` lines, as dotted keys; references between its keys are followed.

    Raises DataError for a file that cannot be read as either.
    """
    text = _text(path)
    if not path.endswith((".yaml", ".yml", ".json")) and any(map(_OVERRIDE.fullmatch, _words(text))):
        values, unresolved = _overrides(text)
        source = Source(path, values, unresolved=unresolved)
    else:
        document = _read_mapping(path, text)
        places = {".".join(map(str, where)): place for where, place in document.positions.items()}
        source = Source(path, dict(_leaves(document.tree, "")), places)
    return _resolved(source)


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or 'not valid UTF-8'}") from None


def _read_mapping(path: str, text: str) -> Document:
    if path.endswith(".json"):
        try:
            tree = json.loads(text, object_pairs_hook=_without_duplicates)
        except (json.JSONDecodeError, RecursionError) as error:
            line = getattr(error, "lineno", 1)
            raise DataError(f"{path}:{line}: not valid JSON: {getattr(error, 'msg', 'nested too deeply')}") from None
        if not isinstance(tree, dict):
            raise DataError(f"{path}:1: expected an object with keys, found {type(tree).__name__}")
        return Document(tree)
    try:
        return read_document(text, path)
    except YamlError as error:
        raise DataError("\n".join(error.messages)) from None


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    for name in names:
        if names.count(name) > 1:
            raise json.JSONDecodeError(f"the key {name} stands here a second time", "", 0)
    return dict(pairs)


def _leaves(tree: dict[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    """Every value that is not a section, by its dotted key; an empty section is none."""
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


# Overrides


def _words(text: str) -> list[str]:
    """The words of a shell script, without its comments; a script that a shell could not read has none."""
    try:
        return shlex.split(text.replace("\\\n", " "), comments=True)
    except ValueError:
        return []


def _overrides(text: str) -> tuple[dict[str, Any], dict[str, str]]:
    """The overrides of a script, with the variables that it sets itself put in, and those that remain open.

    Nothing is executed: variables and sums of whole numbers are all of a shell's language that is understood.
    """
    variables: dict[str, str] = {}
    values: dict[str, Any] = {}
    unresolved: dict[str, str] = {}
    # Arithmetic holds spaces, which would divide it into words.
    joined = _ARITHMETIC.sub(lambda found: found[0].replace(" ", ""), text)
    for word in _words(joined):
        override, assignment = _OVERRIDE.fullmatch(word), _ASSIGNMENT.fullmatch(word)
        if override:
            key, value = override[1], _expanded(override[2], variables)
            if "$" in value:
                unresolved[key] = value
            else:
                values |= _leaves({key: _value(value)}, "")
        elif assignment:
            variables[assignment[1]] = _expanded(assignment[2], variables)
    return values, unresolved


def _value(text: str) -> Any:
    """A value as it stands behind a `=`; Python's None, which YAML reads as text, is none."""
    try:
        value = read_value(text, "")
    except YamlError:
        return text
    return None if value == "None" else value


def _expanded(text: str, variables: dict[str, str]) -> str:
    def variable(found: re.Match[str]) -> str:
        name, default = found[1] or found[3], found[2]
        return variables.get(name, found[0] if default is None else default)

    text = _VARIABLE.sub(variable, text)
    return _ARITHMETIC.sub(lambda found: _sum_of(found[1], variables) or found[0], text)


def _sum_of(text: str, variables: dict[str, str]) -> str | None:
    """The value of a shell's `$((…))` over whole numbers and known variables; None for anything else."""
    known = {name: int(value) for name, value in variables.items() if re.fullmatch(r"-?\d{1,300}", value)}
    try:
        tree = ast.parse(re.sub("/+", "//", text.strip()), mode="eval")
        value = Interpreter().evaluate(tree.body, known)
        return str(value) if type(value) is int else None
    except (*ERRORS, SyntaxError):
        return None


# References


def _resolved(source: Source) -> Source:
    """The same without `${a.b}` and `${oc.select:a.b,default}`, other keys, and `???`, no value."""
    values, unresolved = {}, dict(source.unresolved)
    for key, value in source.values.items():
        found = value
        for _ in range(8):  # a chain of references; a circle of them ends here
            match = _REFERENCE.fullmatch(found.strip()) if isinstance(found, str) else None
            if match is None:
                break
            default = None if match[2] is None else _value(match[2])
            found = source.values.get(match[1], default)
        if isinstance(found, str) and ("${" in found or found == "???"):
            unresolved[key] = found
        elif found is not None or not isinstance(value, str):
            values[key] = found
    return Source(source.name, values, source.places, unresolved)
