"""`groupwise grade`."""

import json
from typing import Annotated

import typer

from groupwise.cli.arguments import examples

EXAMPLES = examples("groupwise grade answers.jsonl", "groupwise grade answers.jsonl answer=boxed --json")


def grade(
    file: Annotated[
        str, typer.Argument(help="Rows of id, response, gold: .jsonl, .json, .parquet, or - for JSON lines.")
    ],
    options: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY=VALUE]...", help="Of rewards.correctness.math: answer=boxed ..."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON line per row, in their order.")] = False,
) -> None:
    """Grade answers to mathematical problems against reference answers.

    Rows that cannot be graded are listed at the end, with the exit code 3.
    """
    from groupwise.errors import DataError
    from groupwise.evaluate import grade_file

    results = []
    for result in grade_file.read_graded_rows(file, grade_file.read_policy(options or [])):
        results.append(result)
        if as_json and result.verdict is not None:
            typer.echo(json.dumps(grade_file.as_data(result)))
    if not as_json:
        typer.echo(grade_file.summary(results))
    faults = grade_file.faults(file, results)
    if faults:
        raise DataError(faults)
