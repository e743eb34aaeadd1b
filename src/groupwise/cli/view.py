"""`groupwise view`."""

import re
from pathlib import Path
from typing import Annotated

import typer

from groupwise.cli import shell
from groupwise.cli.arguments import examples

EXAMPLES = examples("groupwise view runs/demo-001", "groupwise view runs/dapo-001 --steps 50-80 --output late.html")


def view(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The folder of a run.", autocompletion=shell.run_folder)],
    output: Annotated[str, typer.Option(metavar="FILE", help="The page; RUN/rollouts.html without it.")] = "",
    steps: Annotated[str, typer.Option(metavar="FROM-TO", help="Only these steps: 50-80, 50- or 70.")] = "",
    max_megabytes: Annotated[
        float, typer.Option(min=0.0, help="Where rollouts/ is larger, only every n-th step is shown.")
    ] = 200.0,
) -> None:
    """Make one HTML file of a run's rollouts, to look at them in a browser. The run may still be going on."""
    from groupwise.errors import UsageError
    from groupwise.track.disk import write_whole
    from groupwise.view.build import page_of

    match = re.fullmatch(r"(\d+)(-(\d*))?", steps or "1-")
    if match is None:
        raise UsageError(f"--steps={steps}: expected two numbers as in 50-80, or one, as in 50- or 70")
    last = match[3] if match[2] else match[1]
    parts = page_of(run, int(match[1]), int(last) if last else None, max_megabytes)
    path = Path(output or Path(run) / "rollouts.html")
    write_whole(path, "".join(parts).encode())
    typer.echo(f"wrote {path} ({path.stat().st_size / 1e6:.1f} MB): open it in a browser")
