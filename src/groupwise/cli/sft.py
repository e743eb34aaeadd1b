"""`groupwise sft`."""

from dataclasses import asdict

import typer

from groupwise.cli.arguments import ConfigArguments, Json, examples, print_json

EXAMPLES = examples("groupwise sft data=demonstrations.jsonl output=started model=bundled steps=500")


def sft(arguments: ConfigArguments = None, as_json: Json = False) -> None:
    """Supervised training on prompts and completions: data=FILE.jsonl output=FOLDER [KEY=VALUE ...]."""
    from rich.console import Console

    from groupwise.config.compose import compose_sft_config
    from groupwise.train.sft import progress_printer, run_sft

    result = run_sft(compose_sft_config(arguments or []), progress_printer(Console(stderr=as_json)))
    if as_json:
        print_json({**asdict(result), "output": str(result.output)})
    else:
        typer.echo(f"wrote {result.output}: {result.steps} steps, loss {result.final_loss:.4f}, {result.seconds:.0f} s")
