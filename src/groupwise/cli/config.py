"""`groupwise config`."""

from typing import Annotated

import typer

from groupwise.cli.arguments import ConfigArguments, examples

EXAMPLES = examples("groupwise config dapo objective.surrogate=cispo > my.yaml", "groupwise config --keys")


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
