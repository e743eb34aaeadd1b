"""`groupwise sandbox check`."""

from typing import Annotated

import typer

from groupwise.cli.arguments import HELP_NAMES, Json, examples, print_json

EXAMPLES = examples("groupwise sandbox check", "groupwise sandbox check --backend bubblewrap --json")
app = typer.Typer(
    help="The sandbox that programs of a model run in.",
    no_args_is_help=True,
    context_settings=HELP_NAMES,
    epilog=EXAMPLES,
)


@app.command("check", epilog=EXAMPLES)
def check_sandbox(
    attacks: Annotated[
        str | None, typer.Option("--attacks", metavar="FILE", help="Your own attacks: JSON lines.")
    ] = None,
    backend: Annotated[str, typer.Option(help="auto, bubblewrap, sandlock, nsjail or none.")] = "auto",
    as_json: Json = False,
) -> None:
    """Attack the sandbox of this machine.

    The exit code is 1 unless every attack is contained and every honest program is rewarded.
    """
    from rich.console import Console

    from groupwise.grading.sandbox import attack_report

    console = Console()
    suite = attack_report.check(backend, attacks, None if as_json else console)
    if as_json:
        print_json(attack_report.as_data(suite))
    else:
        attack_report.print_suite(suite, console)
    if not suite.passed:
        raise typer.Exit(1)
