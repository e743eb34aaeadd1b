"""`groupwise train`."""

from typing import Annotated

import typer

from groupwise.cli.arguments import ConfigArguments, Json, examples, print_json

INTERRUPTED = 130
EXAMPLES = examples(
    "groupwise train",
    "groupwise train dapo model.path=Qwen/Qwen3-0.6B problems.train=train.jsonl run.steps=200",
    "groupwise train --resume runs/dapo-1",
)


def train(
    arguments: ConfigArguments = None,
    resume: Annotated[str | None, typer.Option(metavar="RUN", help="Resume a run.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Load and check everything, print the plan.")] = False,
    as_json: Json = False,
) -> None:
    """Train a model. Without a recipe, a file or a model: the recipe `demo`."""
    from rich.console import Console

    from groupwise.config.compose import with_default_recipe
    from groupwise.errors import UsageError
    from groupwise.evaluate.tables import print_summary
    from groupwise.track.console import ConsoleTracker
    from groupwise.train import run

    given = arguments or []
    if resume is not None and dry_run:
        raise UsageError("--dry-run plans a new run; it cannot be combined with --resume")
    screen = ConsoleTracker(Console(stderr=as_json))
    if resume is not None:
        summary = run.resume_run(resume, given, screen)
    else:
        summary = run.compose_and_start(with_default_recipe(given), dry_run, screen)
        if dry_run:
            return
    if summary is None:
        raise typer.Exit(INTERRUPTED)
    if as_json:
        print_json(summary)
    else:
        print_summary(summary)
