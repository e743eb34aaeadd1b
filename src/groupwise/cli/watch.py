"""`groupwise watch`."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from groupwise.cli import shell
from groupwise.cli.arguments import examples

EXAMPLES = examples("groupwise watch runs/demo-001", "groupwise watch runs/demo-001 > steps.txt")


def watch(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The folder of a run.", autocompletion=shell.run_folder)],
) -> None:
    """Follow a run that another process trains until it is complete: a panel on a terminal, or a line a step; and what
    the health rules find."""
    from groupwise.health.run import context_of
    from groupwise.track.console import ConsoleTracker
    from groupwise.track.watch import watch as follow
    from groupwise.training.health_guard import Health

    health = Health(Path(run), 0, context_of(Path(run)))

    def judge(line: Mapping[str, Any]) -> list[str] | None:
        # All that is new is among all that is found.
        list(health.after(line))
        return None if health.found is None else [one.head for one in health.found]

    follow(run, ConsoleTracker.of_terminal(sys.stdout), judge=judge)
