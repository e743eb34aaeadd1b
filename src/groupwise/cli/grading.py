"""`groupwise grade` and `groupwise check`: files of answers and of problems."""

import json
from typing import Annotated

import typer

from groupwise.cli.arguments import ConfigArguments, Json, examples, print_json

EXAMPLES = examples("groupwise grade answers.jsonl", "groupwise grade answers.jsonl answer=boxed --json")
CHECK_EXAMPLES = examples(
    "groupwise check train.jsonl --eval test.jsonl model.path=Qwen/Qwen3-0.6B",
    "groupwise check programs.jsonl --run-solutions",
)


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
    from groupwise.evaluation import grade_file

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


def check(
    file: Annotated[str, typer.Argument(help="Problems to train on: .jsonl, .jsonl.gz, .json or .parquet.")],
    arguments: ConfigArguments = None,
    held_out: Annotated[str, typer.Option("--eval", metavar="FILE", help="Problems to measure on.")] = "",
    run_solutions: Annotated[
        bool, typer.Option("--run-solutions", help="Run the solutions of programming problems in the sandbox.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Check problem files as a run with these arguments would see them. The exit code is 3 for what `train` refuses."""
    from groupwise.config.compose import with_default_recipe
    from groupwise.evaluation import check_files, check_report

    found = check_files.run_check(file, with_default_recipe(arguments or []), held_out, run_solutions)
    if as_json:
        print_json(check_report.to_json(found))
    else:
        check_report.print_check(found)
    if found.refused:
        raise typer.Exit(3)
