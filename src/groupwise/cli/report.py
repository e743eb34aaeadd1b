"""`groupwise report`."""

from pathlib import Path
from typing import Annotated

import typer

from groupwise.cli import shell
from groupwise.cli.arguments import examples

EXAMPLES = examples("groupwise report runs/demo-001", "groupwise report runs/demo-001 --output demo.html")


def report(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The folder of a run.", autocompletion=shell.run_folder)],
    output: Annotated[str, typer.Option(metavar="FILE", help="The page; RUN/report.html without it.")] = "",
) -> None:
    """Make one HTML file of what came of a run: verdict, curves, completions, options. It may still be going on."""
    from groupwise.report.build import write_report

    path = write_report(run, Path(output) if output else None)
    typer.echo(f"wrote {path} ({path.stat().st_size / 1e6:.1f} MB): open it in a browser")
