"""`groupwise diagnose`."""

from pathlib import Path
from typing import Annotated

import typer

from groupwise.cli import shell
from groupwise.cli.arguments import Json, examples, print_json

EXAMPLES = examples(
    "groupwise diagnose runs/demo-001", "groupwise diagnose trainer_state.json --json", "groupwise diagnose verl.log"
)


def diagnose(
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN|FILE",
            help="The folder of a run, or a log of TRL, verl, prime-rl, W&B or others: JSON lines, CSV, "
            "trainer_state.json, console, TensorBoard.",
            autocompletion=shell.run_folder,
        ),
    ],
    vocabulary: Annotated[int, typer.Option(min=0, help="Tokens of the vocabulary, where a log does not say.")] = 0,
    eval_problems: Annotated[int, typer.Option(min=1, help="Held-out problems, where a log does not say.")] = 500,
    as_json: Json = False,
) -> None:
    """Say what is wrong with a run, by rules over its steps. The exit code is 4 if a finding is critical."""
    from groupwise.health.logs import read_steps
    from groupwise.health.rules import findings, not_judged
    from groupwise.health.run import context_of

    rows = read_steps(Path(run))
    found = findings(rows, context_of(Path(run), vocabulary, eval_problems))
    if as_json:
        print_json(
            {"steps": rows[-1].step, "findings": [one.to_json() for one in found], "not_judged": not_judged(rows)}
        )
    else:
        for one in found:
            typer.echo(f"{one.severity:8} {one.rule}, from step {one.first_step}: {one.text}")
        lacking = [f"{', '.join(rules)} ({why})" for why, rules in not_judged(rows).items()]
        if lacking:
            typer.echo(f"not judged: {'; '.join(lacking)}")
        typer.echo(f"{rows[-1].step} steps, {len(found) or 'no'} findings")
    if any(one.severity == "critical" for one in found):
        raise typer.Exit(4)
