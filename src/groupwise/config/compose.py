"""From recipes, YAML files, `key=value` and mappings to one checked configuration.

Sources compose from left to right: a later value wins, sections merge key by key, lists are replaced whole. Everything
that is wrong is reported at once, each line with the place where it stands.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from groupwise.config import SftConfig, TrainConfig
from groupwise.config.checks import contradictions
from groupwise.config.describe import all_keys
from groupwise.config.given import nested, paths_in, read_mapping
from groupwise.config.hints import renamed, suggest_for
from groupwise.config.merge import merged
from groupwise.config.messages import OWN_ERRORS, dotted, explain
from groupwise.config.schema import Path as KeyPath
from groupwise.config.schema import as_named_sections, as_section, as_techniques, forms, locate
from groupwise.config.yaml_document import Document, YamlError, quoted_text, read_document, read_value, write_yaml
from groupwise.errors import UsageError
from groupwise.findings import suggest_word

Config = TypeVar("Config", TrainConfig, SftConfig)
Source = str | Mapping[str, Any] | TrainConfig
"""A recipe, a YAML file or `key=value`; options as a mapping; or a whole configuration."""
GivenSource = TypeVar("GivenSource", bound=Source)

PROBLEM_FILES = (".jsonl", ".parquet", ".jsonl.gz")
_OVERRIDE = re.compile(r"\s*([\w.\-]+)\s*=(.*)", re.DOTALL)


def compose_train_config(arguments: Sequence[Source]) -> TrainConfig:
    """The options of a training run from recipe names, YAML paths, `key=value` and mappings, composed left to right.

    Raises UsageError that lists all unknown keys, wrong values and contradictions. The warnings of a configuration
    that passes are in `config_checks.contradictions`.
    """
    return _compose(TrainConfig, arguments)


def compose_to_explain(arguments: Sequence[Source]) -> TrainConfig:
    """As `compose_train_config`, but contradictions stop nothing: they are part of what is explained."""
    return _compose(TrainConfig, arguments, refuse_contradictions=False)


def compose_sft_config(arguments: Sequence[str]) -> SftConfig:
    """The options of supervised training, as `compose_train_config` does it."""
    return _compose(SftConfig, arguments)


def dump_config(config: BaseModel) -> str:
    """All options as YAML, which composes to the same configuration again."""
    return write_yaml(config.model_dump())


def list_recipes() -> dict[str, str]:
    """The first comment line of every recipe that ships with the package, by its name."""
    comments = {name: [line for line in text.splitlines() if line.startswith("#")] for name, text in _recipes().items()}
    return {name: lines[0].lstrip("# ").rstrip() if lines else "" for name, lines in comments.items()}


def with_default_recipe(arguments: Sequence[GivenSource]) -> list[GivenSource | str]:
    """The arguments behind the recipe `demo`, where they name neither a recipe, nor a file, nor a model.

    The bundled model learns next to nothing at the learning rate that is the default for models of any size.
    """
    return [*arguments] if any(map(_names_a_model, arguments)) else ["demo", *arguments]


def _names_a_model(source: Source) -> bool:
    if isinstance(source, str):
        return "=" not in source or source.startswith("model.path=")
    if isinstance(source, Mapping):
        section = source.get("model")
        return "model.path" in source or (isinstance(section, Mapping) and "path" in section)
    return True


def _compose(model_class: type[Config], arguments: Sequence[Source], refuse_contradictions: bool = True) -> Config:
    whole, errors = Document(), []
    for argument in arguments:
        try:
            document = _read_argument(model_class, argument)
        except YamlError as error:
            errors += error.messages
            continue
        tree = merged(model_class, whole.tree, document.tree)
        places = {**whole.positions, **document.positions}
        whole = Document(tree, {path: place for path, place in places.items() if _holds(tree, path)})
    config, value_errors = _validate(model_class, whole, not errors, refuse_contradictions)
    errors += value_errors
    if errors or config is None:
        count = "1 error" if len(errors) == 1 else f"{len(errors)} errors"
        raise UsageError(f"{count} in the configuration:\n" + "\n".join(f"- {error}" for error in errors))
    return config


def _holds(tree: Any, path: KeyPath) -> bool:
    """Whether there is a value at a path; the place of one that a later source replaced says nothing."""
    try:
        for part in path:
            tree = tree[part]
    except (LookupError, TypeError):
        return False
    return True


# Sources


def _read_argument(model_class: type[BaseModel], argument: Source) -> Document:
    if isinstance(argument, TrainConfig):
        return Document(argument.model_dump())
    if not isinstance(argument, str):
        return read_mapping(model_class, argument)
    override = _OVERRIDE.fullmatch(argument)
    if override:
        return _read_override(model_class, override[1], override[2], argument)
    if argument in _recipes():
        return read_document(_recipes()[argument], f"recipe {argument}")
    if argument.endswith(PROBLEM_FILES):
        key = "problems.eval" if "problems.eval" in all_keys(model_class) else "data"
        raise YamlError(
            [f"{argument}: found a file of problems, expected a YAML file of options: write {key}={argument}"]
        )
    if argument.endswith((".yaml", ".yml")) or "/" in argument or Path(argument).exists():
        return read_document(_file_text(Path(argument)), argument)
    raise YamlError([_unknown_argument(model_class, argument)])


def _read_override(model_class: type[BaseModel], key: str, text: str, argument: str) -> Document:
    try:
        argument.encode()
    except UnicodeEncodeError:
        raise YamlError([f"{argument!r}: not valid UTF-8"]) from None
    tree = nested(key, _override_value(locate(model_class, tuple(key.split("."))).annotation, text, argument))
    return Document(tree, dict.fromkeys(paths_in(tree), argument))


def _override_value(annotation: Any, text: str, argument: str) -> Any:
    """On a command line text needs no YAML quotes: `prompt.system=Answer: briefly` means what it says."""
    accepted = forms(annotation)
    # An option of the user's own code may be a number as well as text.
    if str not in accepted or float in accepted or (len(accepted) > 1 and text.lstrip()[:1] in ("{", "[")):
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


def _recipes() -> dict[str, str]:
    found = sorted(files("groupwise.recipes").iterdir(), key=lambda item: item.name)
    texts = {item.name: item.read_text(encoding="utf-8") for item in found if item.name.endswith(".yaml")}
    return {name.removesuffix(".yaml"): text for name, text in texts.items()}


def _unknown_argument(model_class: type[BaseModel], argument: str) -> str:
    if argument in all_keys(model_class):
        return f"{argument}: this option needs a value: {argument}=VALUE"
    hint = suggest_word(argument, list(_recipes())) or f"; the recipes are {', '.join(_recipes())}"
    return f"{argument}: neither a recipe, nor a YAML file, nor key=value{hint}"


# Checking


def _validate(
    model_class: type[Config], document: Document, missing_counts: bool, refuse_contradictions: bool
) -> tuple[Config | None, list[str]]:
    """The configuration, and all errors. Contradictions between the options that are right by themselves count too."""
    errors: list[str] = []
    wrong_keys: set[str] = set()
    tree, positions = document.tree, document.positions
    while True:
        try:
            config = model_class.model_validate(tree)
            break
        except ValidationError as error:
            details = _own_errors(model_class, error.errors(), positions)
        for detail in details:
            if detail["type"] != "missing" or missing_counts or len(detail["loc"]) > 1:
                errors.append(explain(model_class, detail, positions))
            wrong_keys |= _meant_keys(model_class, detail)
        if any(detail["type"] == "missing" for detail in details):
            return None, errors
        for detail in details:
            _remove(tree, _whole_option(model_class, detail))
    wrong_keys |= {f"domains.{name}.{key}" for key in wrong_keys for name in tree.get("domains", ())}
    if refuse_contradictions:
        errors += _contradictions(config, positions, wrong_keys)
    return (None if errors else config), errors


def _meant_keys(model_class: type[BaseModel], detail: ErrorDetails) -> set[str]:
    """The keys that an error is about: what is written, and what may have been meant by it."""
    place = locate(model_class, detail["loc"])
    new = renamed(place, detail["input"]).partition("=")[0]
    meant = [new] if new else suggest_for(model_class, [*map(str, place.path)])
    return {dotted(_whole_option(model_class, detail)), *meant}


def _contradictions(config: Config, positions: dict[KeyPath, str], wrong_keys: set[str]) -> Iterator[str]:
    """What the options, each right by itself, contradict; a default that replaces a wrong value contradicts none."""
    for finding in contradictions(config):
        is_known = not any(f"{key}.".startswith(f"{wrong}.") for key in finding.keys for wrong in wrong_keys)
        if finding.level == "error" and is_known:
            places = [positions.get(tuple(key.split("."))) for key in finding.keys]
            stated = ", ".join(dict.fromkeys(place for place in places if place))
            yield finding.message + (f" (stated in {stated})" if stated else "")


def _own_errors(
    model_class: type[BaseModel], details: list[ErrorDetails], positions: dict[KeyPath, str]
) -> list[ErrorDetails]:
    """The errors without those that a domain only has because it takes over a wrong value of the section rewards."""
    everywhere = {detail["loc"] for detail in details}

    def is_taken_over(detail: ErrorDetails) -> bool:
        location, path = detail["loc"], locate(model_class, detail["loc"]).path
        own = (*path, "type") if detail["type"] == "union_tag_invalid" and len(detail["input"]) > 1 else path
        return location[:1] == ("domains",) and location[2:] in everywhere and own not in positions

    return [detail for detail in details if not is_taken_over(detail)]


def _whole_option(model_class: type[BaseModel], detail: ErrorDetails) -> KeyPath:
    """The path of the option that an error is about: one wrong entry of a list makes all of it wrong.

    Of code of the user's own that is all of the technique, whose path nothing can take the place of.
    """
    path = locate(model_class, detail["loc"]).path
    for depth in range(1, len(path)):
        above = locate(model_class, path[:depth]).annotation
        if as_techniques(above) and detail["type"] in OWN_ERRORS:
            return path[:depth]
        if not (above is None or as_section(above) or as_named_sections(above) or as_techniques(above)):
            return path[:depth]
    return path


def _remove(tree: Any, path: KeyPath) -> None:
    for part in path[:-1]:
        if not isinstance(tree.get(part, {}), dict):
            # The name of a technique alone, which is all of it.
            tree.pop(part)
            return
        tree = tree.get(part, {})
    tree.pop(path[-1], None)
