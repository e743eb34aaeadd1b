"""From recipes, YAML files and `key=value` to one checked configuration.

Sources compose from left to right: a later value wins, sections merge key by key, lists are replaced whole. Everything
that is wrong is reported at once, each line with the place where it stands.
"""

import re
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

from groupwise.config import SftConfig, TrainConfig
from groupwise.config_checks import contradictions
from groupwise.config_errors import dotted, explain
from groupwise.config_options import all_keys, as_section, field_at, suggest_keys, suggest_word
from groupwise.config_yaml import Document, YamlError, quoted_text, read_document, read_value, write_yaml
from groupwise.config_yaml import Path as KeyPath
from groupwise.errors import UsageError

Config = TypeVar("Config", TrainConfig, SftConfig)

_OVERRIDE = re.compile(r"\s*([\w.\-]+)\s*=(.*)", re.DOTALL)


def compose_train_config(arguments: Sequence[str]) -> TrainConfig:
    """The options of a training run from recipe names, YAML paths and `key=value`, composed left to right.

    Raises UsageError that lists all unknown keys, wrong values and contradictions. The warnings of a configuration
    that passes are in `config_checks.contradictions`.
    """
    return _compose(TrainConfig, arguments)


def compose_to_explain(arguments: Sequence[str]) -> TrainConfig:
    """As `compose_train_config`, but contradictions stop nothing: they are part of what is explained."""
    return _compose(TrainConfig, arguments, refuse_contradictions=False)


def compose_sft_config(arguments: Sequence[str]) -> SftConfig:
    """The options of supervised training, as `compose_train_config` does it."""
    return _compose(SftConfig, arguments)


def dump_config(config: BaseModel) -> str:
    """All options as YAML, which composes to the same configuration again."""
    return write_yaml(config.model_dump())


class Recipe(NamedTuple):
    """A configuration that ships with the package."""

    name: str
    summary: str


def list_recipes() -> list[Recipe]:
    """The recipes by name, each with its first comment line."""
    return [Recipe(name, _first_comment(_recipe_text(name))) for name in _recipe_names()]


def _compose(model_class: type[Config], arguments: Sequence[str], refuse_contradictions: bool = True) -> Config:
    merged, errors = Document(), []
    for argument in arguments:
        try:
            document = _read_argument(model_class, argument)
        except YamlError as error:
            errors += error.messages
        else:
            _drop_empty_sections(document.tree, model_class)
            _merge(merged, document)
    sources_are_read = not errors
    config, value_errors = _validate(model_class, merged, sources_are_read, refuse_contradictions)
    errors += value_errors
    if errors or config is None:
        count = "1 error" if len(errors) == 1 else f"{len(errors)} errors"
        raise UsageError(f"{count} in the configuration:\n" + "\n".join(f"- {error}" for error in errors))
    return config


# Sources


def _read_argument(model_class: type[BaseModel], argument: str) -> Document:
    override = _OVERRIDE.fullmatch(argument)
    if override:
        return _read_override(model_class, override[1], override[2], argument)
    if (
        argument.endswith((".yaml", ".yml"))
        or "/" in argument
        or (argument not in _recipe_names() and Path(argument).exists())
    ):
        return read_document(_file_text(Path(argument)), argument)
    if argument in _recipe_names():
        return read_document(_recipe_text(argument), f"recipe {argument}")
    raise YamlError([_unknown_argument(model_class, argument)])


def _read_override(model_class: type[BaseModel], key: str, text: str, argument: str) -> Document:
    try:
        argument.encode()
    except UnicodeEncodeError:
        raise YamlError([f"{argument!r}: not valid UTF-8"]) from None
    path = tuple(key.split("."))
    info = field_at(model_class, path)
    value: Any
    if info is not None and info.annotation is str:
        # On a command line text needs no YAML quotes: `prompt.system=Answer: briefly` means what it says.
        quoted = quoted_text(text)
        value = text if quoted is None else quoted
    else:
        value = read_value(text, argument)
    tree: dict[str, Any] = {path[-1]: value}
    for name in reversed(path[:-1]):
        tree = {name: tree}
    return Document(tree, {path[:depth]: argument for depth in range(1, len(path) + 1)})


def _file_text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise YamlError([f"{path}: there is no such file"]) from None
    except IsADirectoryError:
        raise YamlError([f"{path}: this is a folder; expected a YAML file"]) from None
    except OSError as error:
        raise YamlError([f"{path}: cannot be read: {error.strerror}"]) from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise YamlError([f"{path}:{line}: not valid UTF-8"]) from None


def _recipe_names() -> list[str]:
    folder = files("groupwise.recipes")
    return sorted(item.name.removesuffix(".yaml") for item in folder.iterdir() if item.name.endswith(".yaml"))


def _recipe_text(name: str) -> str:
    return files("groupwise.recipes").joinpath(f"{name}.yaml").read_text(encoding="utf-8")


def _first_comment(text: str) -> str:
    return next((line.lstrip("# ").rstrip() for line in text.splitlines() if line.startswith("#")), "")


def _unknown_argument(model_class: type[BaseModel], argument: str) -> str:
    if argument in all_keys(model_class):
        return f"{argument}: this option needs a value: {argument}=VALUE"
    recipes = _recipe_names()
    hint = suggest_word(argument, recipes) or f"; the recipes are {', '.join(recipes)}"
    return f"{argument}: neither a recipe, nor a YAML file, nor key=value{hint}"


# Merging


def _drop_empty_sections(tree: dict[str, Any], model_class: type[BaseModel]) -> None:
    """Remove sections without a value: a heading whose lines are all comments changes nothing."""
    for name, info in model_class.model_fields.items():
        section = as_section(info.annotation)
        if section is None or name not in tree:
            continue
        if tree[name] is None:
            del tree[name]
        elif isinstance(tree[name], dict):
            _drop_empty_sections(tree[name], section)


def _merge(merged: Document, later: Document) -> None:
    _merge_trees(merged.tree, later.tree, (), merged.positions)
    merged.positions.update(later.positions)


def _merge_trees(earlier: dict[str, Any], later: dict[str, Any], path: KeyPath, positions: dict[KeyPath, str]) -> None:
    for key, value in later.items():
        here = (*path, key)
        if isinstance(value, dict) and isinstance(earlier.get(key), dict):
            _merge_trees(earlier[key], value, here, positions)
            continue
        earlier[key] = value
        for replaced in [known for known in positions if known[: len(here)] == here]:
            del positions[replaced]


# Checking


def _validate(
    model_class: type[Config], document: Document, missing_counts: bool, refuse_contradictions: bool
) -> tuple[Config | None, list[str]]:
    """The configuration, and all errors. Contradictions between the options that are right by themselves count too."""
    errors: list[str] = []
    wrong_keys: set[str] = set()
    tree = document.tree
    while True:
        try:
            config = model_class.model_validate(tree)
            break
        except ValidationError as error:
            for detail in error.errors():
                if detail["type"] != "missing" or missing_counts or len(detail["loc"]) > 1:
                    errors.append(explain(model_class, detail, document.positions))
                wrong_keys.add(dotted(detail["loc"]))
                wrong_keys.update(suggest_keys(dotted(detail["loc"]), all_keys(model_class)))
            if any(detail["type"] == "missing" for detail in error.errors()):
                return None, errors
            tree = _without(tree, [detail["loc"] for detail in error.errors()])
    for finding in contradictions(config) if refuse_contradictions else ():
        # A default that stands in for a wrong value contradicts nothing.
        if finding.level == "error" and not wrong_keys.intersection(finding.keys):
            places = [document.positions.get(tuple(key.split("."))) for key in finding.keys]
            stated = ", ".join(dict.fromkeys(place for place in places if place))
            errors.append(finding.message + (f" (stated in {stated})" if stated else ""))
    return (None if errors else config), errors


def _without(tree: dict[str, Any], paths: list[KeyPath]) -> dict[str, Any]:
    """The tree without the values at these paths; a list with a wrong entry is left out whole."""
    kept = {}
    for key, value in tree.items():
        below = [path[1:] for path in paths if path[0] == key]
        if below and all(below) and isinstance(value, dict):
            kept[key] = _without(value, below)
        elif not below:
            kept[key] = value
    return kept
