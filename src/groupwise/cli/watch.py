"""`groupwise watch`."""

import sys
from typing import Annotated

import typer

from groupwise.cli import shell
from groupwise.cli.arguments import examples

EXAMPLES = examples("groupwise watch runs/demo-001", "groupwise watch runs/demo-001 > steps.txt")


def watch(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The folder of a run.", autocompletion=shell.run_folder)],
) -> None:
    """Follow a run that another process trains until it is complete: a panel on a terminal, or a line a step."""
    from groupwise.track.console import ConsoleTracker
    from groupwise.track.watch import watch as follow

    follow(run, ConsoleTracker.of_terminal(sys.stdout))
