"""`groupwise recipes`."""

import typer

from groupwise.cli.arguments import Json, print_json


def recipes(as_json: Json = False) -> None:
    """List the recipes, with the numbers of their techniques."""
    from groupwise.explain import report

    if as_json:
        print_json(report.describe_recipes())
    else:
        typer.echo("\n".join(report.recipe_lines()))
