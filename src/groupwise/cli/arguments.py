"""Arguments that several commands have, and how results are printed."""

import json
from typing import Annotated, Any

import typer

from groupwise.cli import shell
from groupwise.errors import UsageError

HELP_NAMES = {"help_option_names": ["-h", "--help"]}

ConfigArguments = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[RECIPE | FILE.yaml | KEY=VALUE]...",
        help="Recipes, YAML files and overrides; later ones win.",
        show_default=False,
        autocompletion=shell.configuration,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Model = Annotated[
    str,
    typer.Argument(help="`bundled`, a model folder, a .gguf file, or a hub id.", autocompletion=shell.model),
]
Problems = Annotated[
    int | None, typer.Option("--problems", min=1, help="Number of training problems, to count the steps of an epoch.")
]


class Ended(BaseException):
    """A command that was ended from outside; no KeyboardInterrupt, of which typer forgets the cause."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def refuse_overrides(arguments: list[str], forms: dict[str, str]) -> None:
    """Refuse overrides of keys that an argument or option of the command sets, instead of ignoring them.

    forms: how each of these keys is written, with VALUE for its value. Raises UsageError.
    """
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if equals and key.strip() in forms:
            raise UsageError(f"{argument}: write it as `{forms[key.strip()].replace('VALUE', value.strip())}`")


def print_json(value: Any) -> None:
    """JSON on standard output."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def examples(*lines: str) -> str:
    """The end of a command's help: one example a line."""
    return "\n\n".join(("Examples:", *lines))
