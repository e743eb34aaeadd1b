"""`groupwise config`, `groupwise recipes` and `groupwise explain`: what there is to configure, and what it means."""

from typing import Annotated

import typer

from groupwise.cli.arguments import ConfigArguments, Json, examples, print_json

RECIPES_EXAMPLES = examples("groupwise recipes", "groupwise recipes --json")
CONFIG_EXAMPLES = examples("groupwise config dapo objective.surrogate=cispo > my.yaml", "groupwise config --keys")
EXPLAIN_EXAMPLES = examples("groupwise explain dapo", "groupwise explain grpo kl.coefficient=0.01")


def config(
    arguments: ConfigArguments = None,
    keys: Annotated[bool, typer.Option("--keys", help="List every key with its type, default and meaning.")] = False,
) -> None:
    """Print the resolved configuration as YAML, or all keys."""
    from groupwise.config import SftConfig, TrainConfig
    from groupwise.config.compose import compose_train_config, dump_config
    from groupwise.config.describe import key_lines

    if keys:
        lines = ["# groupwise train", *key_lines(TrainConfig), "# groupwise sft", *key_lines(SftConfig)]
        typer.echo("\n".join(lines))
    else:
        typer.echo(dump_config(compose_train_config(arguments or [])), nl=False)


def recipes(as_json: Json = False) -> None:
    """List the recipes, with the numbers of their techniques."""
    from groupwise.explaining import report

    if as_json:
        print_json(report.describe_recipes())
    else:
        typer.echo("\n".join(report.recipe_lines()))


def explain(arguments: ConfigArguments = None, as_json: Json = False) -> None:
    """Explain a configuration: its equation, techniques and costs, and what is unsound or without effect.

    Without arguments: the recipe `demo`. The exit code is 2 for a configuration that `groupwise train` refuses.
    """
    from groupwise.config.compose import compose_to_explain
    from groupwise.explaining import report

    explanation = report.explain(compose_to_explain(arguments or ["demo"]))
    if as_json:
        print_json(report.to_json(explanation))
    else:
        typer.echo(report.to_text(explanation))
    if explanation.refused:
        raise typer.Exit(2)
