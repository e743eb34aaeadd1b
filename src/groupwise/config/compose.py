"""From recipes, YAML files and `key=value` to one checked configuration.

Sources compose from left to right: a later value wins, sections merge key by key, lists are replaced whole. Everything
that is wrong is reported at once, each line with the place where it stands.
"""

import re
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from groupwise.config import SftConfig, TrainConfig
from groupwise.config.checks import contradictions
from groupwise.config.describe import (
    all_keys,
    annotation_at,
    as_named_sections,
    as_section,
    option_path,
    suggest_for,
    suggest_word,
    takes_text,
)
from groupwise.config.messages import dotted, explain
from groupwise.config.yaml_document import Document, YamlError, quoted_text, read_document, read_value, write_yaml
from groupwise.config.yaml_document import Path as KeyPath
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
            _merge(merged, document, model_class)
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
    tree_value = _override_value(takes_text(annotation_at(model_class, path)), text, argument)
    tree: dict[str, Any] = {path[-1]: tree_value}
    for name in reversed(path[:-1]):
        tree = {name: tree}
    return Document(tree, {path[:depth]: argument for depth in range(1, len(path) + 1)})


def _override_value(text_is_taken: Literal["only", "also", "never"], text: str, argument: str) -> Any:
    """On a command line text needs no YAML quotes: `prompt.system=Answer: briefly` means what it says."""
    if text_is_taken == "never" or (text_is_taken == "also" and text.lstrip()[:1] in ("{", "[")):
        return read_value(text, argument)
    quoted = quoted_text(text)
    return text if quoted is None else quoted


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
        section, entry = as_section(info.annotation), as_named_sections(info.annotation)
        if name not in tree or (section is None and entry is None):
            continue
        if tree[name] is None:
            del tree[name]
        elif not isinstance(tree[name], dict):
            continue
        elif section is not None:
            _drop_empty_sections(tree[name], section)
        elif entry is not None:
            for its_name, value in tree[name].items():
                tree[name][its_name] = {} if value is None else value
                if isinstance(value, dict):
                    _drop_empty_sections(value, entry)


def _merge(merged: Document, later: Document, model_class: type[BaseModel]) -> None:
    _merge_trees(merged.tree, later.tree, model_class, (), merged.positions)
    merged.positions.update(later.positions)


def _merge_trees(
    earlier: dict[str, Any],
    later: dict[str, Any],
    model_class: type[BaseModel],
    path: KeyPath,
    positions: dict[KeyPath, str],
) -> None:
    for key, value in later.items():
        here = (*path, key)
        if isinstance(value, dict) and isinstance(earlier.get(key), dict) and _is_merged(model_class, here):
            _merge_trees(earlier[key], value, model_class, here, positions)
            continue
        earlier[key] = value
        for replaced in [known for known in positions if known[: len(here)] == here]:
            del positions[replaced]


def _is_merged(model_class: type[BaseModel], path: KeyPath) -> bool:
    """Whether a mapping is a section, or holds sections; one that is a value, as shares are, is replaced whole."""
    annotation = annotation_at(model_class, path)
    return annotation is None or as_section(annotation) is not None or as_named_sections(annotation) is not None


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
            details = _own_errors(error.errors(), document.positions)
            for detail in details:
                path = option_path(model_class, detail["loc"])
                if detail["type"] != "missing" or missing_counts or len(path) > 1:
                    errors.append(explain(model_class, detail, document.positions))
                wrong_keys.add(dotted(_whole_option(model_class, path)))
                wrong_keys.update(suggest_for(model_class, [str(part) for part in path]))
            if any(detail["type"] == "missing" for detail in details):
                return None, errors
            paths = [option_path(model_class, detail["loc"]) for detail in details]
            tree = _without(tree, [_whole_option(model_class, path) for path in paths])
    inherited = {f"domains.{name}.{key}" for key in wrong_keys for name in tree.get("domains", ())}
    wrong_keys |= inherited
    for finding in contradictions(config) if refuse_contradictions else ():
        # A default that stands in for a wrong value contradicts nothing.
        if finding.level == "error" and not wrong_keys.intersection(finding.keys):
            places = [document.positions.get(tuple(key.split("."))) for key in finding.keys]
            stated = ", ".join(dict.fromkeys(place for place in places if place))
            errors.append(finding.message + (f" (stated in {stated})" if stated else ""))
    return (None if errors else config), errors


def _own_errors(details: list[ErrorDetails], positions: dict[KeyPath, str]) -> list[ErrorDetails]:
    """The errors without those that a domain only has because it takes over a wrong value of the section rewards."""
    everywhere = {detail["loc"] for detail in details}

    def is_taken_over(path: KeyPath) -> bool:
        return path[:1] == ("domains",) and path[2:] in everywhere and path not in positions

    return [detail for detail in details if not is_taken_over(detail["loc"])]


def _whole_option(model_class: type[BaseModel], path: KeyPath) -> KeyPath:
    """The path of the option that a value is, or is an entry of: one wrong entry of a list makes all of it wrong."""
    depths = (depth for depth in range(1, len(path)) if not _is_merged(model_class, path[:depth]))
    return path[: next(depths, len(path))]


def _without(tree: dict[str, Any], paths: list[KeyPath]) -> dict[str, Any]:
    """The tree without the values at these paths."""
    kept = {}
    for key, value in tree.items():
        below = [path[1:] for path in paths if path[0] == key]
        if below and all(below) and isinstance(value, dict):
            kept[key] = _without(value, below)
        elif not below:
            kept[key] = value
    return kept
