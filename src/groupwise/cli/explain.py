"""`groupwise explain`."""

import typer

from groupwise.cli.arguments import ConfigArguments, Json, examples, print_json

EXAMPLES = examples("groupwise explain dapo", "groupwise explain grpo kl.coefficient=0.01")


def explain(arguments: ConfigArguments = None, as_json: Json = False) -> None:
    """Explain a configuration: its equation, techniques and costs, and what is unsound or without effect.

    Without arguments: the recipe `demo`. The exit code is 2 for a configuration that `groupwise train` refuses.
    """
    from groupwise.config.compose import compose_to_explain
    from groupwise.explain import report

    explanation = report.explain(compose_to_explain(arguments or ["demo"]))
    if as_json:
        print_json(report.to_json(explanation))
    else:
        typer.echo(report.to_text(explanation))
    if explanation.refused:
        raise typer.Exit(2)
