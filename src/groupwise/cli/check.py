"""`groupwise check`."""

from typing import Annotated

import typer

from groupwise.cli.arguments import ConfigArguments, Json, examples, print_json

EXAMPLES = examples(
    "groupwise check train.jsonl --eval test.jsonl model.path=Qwen/Qwen3-0.6B",
    "groupwise check programs.jsonl --run-solutions",
)


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
    from groupwise.evaluate import check_files, check_report

    found = check_files.run_check(file, with_default_recipe(arguments or []), held_out, run_solutions)
    if as_json:
        print_json(check_report.to_json(found))
    else:
        check_report.print_check(found)
    if found.refused:
        raise typer.Exit(3)
