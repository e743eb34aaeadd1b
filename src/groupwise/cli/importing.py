"""`groupwise import trl` and `groupwise import verl`."""

from dataclasses import asdict
from typing import Annotated

import typer

from groupwise.cli.arguments import HELP_NAMES, Json, Problems, examples, print_json

TRL_EXAMPLE = "groupwise import trl grpo.yaml --problems 7473 > my.yaml"
VERL_EXAMPLE = "groupwise import verl run_dapo.sh > my.yaml"
app = typer.Typer(
    help="Translate a configuration of TRL or verl into one of groupwise, as YAML.",
    no_args_is_help=True,
    context_settings=HELP_NAMES,
    epilog=examples(TRL_EXAMPLE, VERL_EXAMPLE),
)


@app.command("trl", epilog=examples(TRL_EXAMPLE))
def import_trl(
    file: Annotated[str, typer.Argument(help="YAML or JSON with the options of a GRPOConfig.")],
    processes: Annotated[int, typer.Option(min=1, help="Number of processes of the run.")] = 1,
    problems: Problems = None,
    as_json: Json = False,
) -> None:
    """Translate a GRPOConfig of TRL."""
    from groupwise.importing import write

    imported = write.import_trl(file, processes, problems)
    if as_json:
        print_json(asdict(imported))
    else:
        typer.echo(write.as_yaml(imported, f"From TRL: {file}"), nl=False)


@app.command("verl", epilog=examples(VERL_EXAMPLE))
def import_verl(
    file: Annotated[str, typer.Argument(help="YAML, or a script with a.b.c=value overrides.")],
    problems: Problems = None,
    as_json: Json = False,
) -> None:
    """Translate a configuration of verl."""
    from groupwise.importing import write

    imported = write.import_verl(file, problems)
    if as_json:
        print_json(asdict(imported))
    else:
        typer.echo(write.as_yaml(imported, f"From verl: {file}"), nl=False)
