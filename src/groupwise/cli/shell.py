"""What the shell completes behind `groupwise`: recipes, files, keys and their values, models and run folders.

`groupwise --install-completion` installs it for the shell that runs it. Typer calls these functions each time that the
tab key is pressed, so nothing here imports torch.
"""

from collections.abc import Iterator
from pathlib import Path

import typer

Item = tuple[str, str]  # what is completed, and its meaning for shells that show one


def configuration(context: typer.Context, incomplete: str) -> list[Item]:
    """Recipes and YAML files, keys from their first letter, and the values of `KEY=`."""
    key, equals, value = incomplete.partition("=")
    if equals:
        return [(f"{key}={name}", meaning) for name, meaning in _values(key, value)]
    # bash divides `key=value` at the `=`, which is then the last argument or none.
    before: list[str] = context.params["arguments"] or []
    *_, last, sign = ["", "", *before]
    if sign == "=" or (not incomplete and "." in sign and "=" not in sign and list(_values(sign, ""))):
        return list(_values(last if sign == "=" else sign, incomplete))
    return [item for item in (*_recipes(), *_files("*.y*ml"), *_keys(incomplete)) if item[0].startswith(incomplete)]


def model(incomplete: str) -> list[Item]:
    """The bundled model, the models of runs in `runs/`, and GGUF files here."""
    known = [("bundled", "the model that comes with groupwise"), *_files("*.gguf"), *_files("runs/*/model")]
    return [item for item in known if item[0].startswith(incomplete)]


def run_folder(incomplete: str) -> list[Item]:
    """The folders in `runs/`, those of interrupted and complete runs."""
    return [(name, "") for name, _ in _files("runs/*") if name.startswith(incomplete)]


def _files(pattern: str) -> Iterator[Item]:
    yield from ((str(path), "") for path in sorted(Path().glob(pattern)))


def _recipes() -> Iterator[Item]:
    from groupwise.config.compose import list_recipes

    yield from ((name, "recipe") for name in list_recipes())


def _keys(incomplete: str) -> Iterator[Item]:
    """Keys with their `=`. One alone comes with its values or its default: a shell puts a space behind a word that it
    completes."""
    if not incomplete:
        return
    from groupwise.config import TrainConfig
    from groupwise.config.describe import NAME, describe_options

    found = {
        row.key: row for row in describe_options(TrainConfig) if row.key.startswith(incomplete) and NAME not in row.key
    }
    for key, row in found.items():
        values = dict(_values(key, "")) or {str(row.default): row.doc.partition("\n")[0]}
        yield from ((f"{key}={value}", meaning) for value, meaning in (values if len(found) == 1 else {"": ""}).items())


def _values(key: str, incomplete: str) -> Iterator[Item]:
    """The names that an option can take, with the first line of what a technique says; nothing for numbers and text."""
    from groupwise.config import TrainConfig
    from groupwise.config.schema import choices, locate

    found = choices(locate(TrainConfig, key.split(".")).annotation)
    yield from ((name, meaning) for name, meaning in found.items() if name.startswith(incomplete))
