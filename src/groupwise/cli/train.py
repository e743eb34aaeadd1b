"""`groupwise train` and `groupwise sft`."""

import sys
from dataclasses import asdict
from typing import Annotated

import typer

from groupwise.cli import shell
from groupwise.cli.arguments import ConfigArguments, Ended, Json, examples, print_json

STOPPED_AFTER = 75
"""Exit code of a run that `run.stop_after` ended, to be resumed: EX_TEMPFAIL of sysexits.h."""

EXAMPLES = examples(
    "groupwise train",
    "groupwise train dapo model.path=Qwen/Qwen3-0.6B problems.train=train.jsonl run.steps=200",
    "groupwise train dapo demo objective.surrogate=cispo rewards.overlong.buffer_tokens=16 --dry-run",
    "groupwise train --resume runs/dapo-001",
    "groupwise train dapo run.output=runs/dapo run.resume=auto",
)
SFT_EXAMPLES = examples("groupwise sft data=demonstrations.jsonl output=started model=bundled steps=500")


def train(
    arguments: ConfigArguments = None,
    resume: Annotated[
        str | None, typer.Option(metavar="RUN", help="Resume a run.", autocompletion=shell.run_folder)
    ] = None,
    allow_change: Annotated[
        str,
        typer.Option(metavar="KEYS", help="Options or sections that may have changed since a resumed run began."),
    ] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Load and check everything, print the plan.")] = False,
    as_json: Json = False,
) -> None:
    """Train a model. Without a recipe, a file or a model: the recipe `demo`."""
    from groupwise.config.compose import with_default_recipe
    from groupwise.errors import GroupwiseError, RunInterrupted, UsageError
    from groupwise.evaluation.tables import print_summary
    from groupwise.launch import join
    from groupwise.ranks import Ranks
    from groupwise.report.build import write_report
    from groupwise.track.console import ConsoleTracker
    from groupwise.track.tracker import Tracker
    from groupwise.training import run

    given = arguments or []
    allowed = [key.strip() for key in allow_change.split(",") if key.strip()]
    if resume is not None and dry_run:
        raise UsageError("--dry-run plans a new run; it cannot be combined with --resume")
    first = join().rank == 0
    screen = ConsoleTracker.of_terminal(sys.stderr if as_json else sys.stdout) if first else Tracker()
    try:
        if resume is not None:
            summary = run.resume_run(resume, given, screen, allowed)
        else:
            summary = run.compose_and_start(with_default_recipe(given), dry_run, screen, allowed)
    except RunInterrupted as stopped:
        raise Ended(str(stopped) if first else "", stopped.exit_code) from None
    except GroupwiseError as error:
        if first or not Ranks.current().link.told:
            raise
        # The first rank was told of it, and says so.
        raise Ended("", error.exit_code) from None
    if dry_run or not first:
        return
    if summary is None:
        raise typer.Exit(STOPPED_AFTER)
    if as_json:
        print_json(summary)
    else:
        print_summary(summary)
        try:
            typer.echo(f"report {write_report(summary['run'])}")
        except GroupwiseError as error:
            # The run is complete without it.
            typer.echo(f"warning: no report: {error}", err=True)


def sft(arguments: ConfigArguments = None, as_json: Json = False) -> None:
    """Supervised training on prompts and completions: data=FILE.jsonl output=FOLDER [KEY=VALUE ...]."""
    from rich.console import Console

    from groupwise.config.compose import compose_sft_config
    from groupwise.training.sft import progress_printer, run_sft

    console = Console(stderr=as_json)
    result = run_sft(compose_sft_config(arguments or []), progress_printer(console), console.print)
    if as_json:
        print_json({**asdict(result), "output": str(result.output)})
    else:
        typer.echo(f"wrote {result.output}: {result.steps} steps, loss {result.final_loss:.4f}, {result.seconds:.0f} s")
