"""`groupwise sample`."""

from dataclasses import asdict
from typing import Annotated

import typer

from groupwise.cli.arguments import ConfigArguments, Json, Model, examples, print_json

EXAMPLES = examples('groupwise sample bundled "3 + 4 = ?" -n 4', 'groupwise sample bundled "3 + 4 = ?" --temperature 0')


def sample(
    model: Model,
    question: Annotated[str, typer.Argument(help="The problem.")],
    arguments: ConfigArguments = None,
    samples: Annotated[int, typer.Option("--samples", "-n", min=1, help="Number of answers.")] = 1,
    temperature: Annotated[float, typer.Option(min=0.0, help="0 takes the most likely tokens.")] = 1.0,
    top_p: Annotated[float, typer.Option(min=0.01, max=1.0)] = 1.0,
    top_k: Annotated[int, typer.Option(min=0, help="0 for the whole vocabulary.")] = 0,
    as_json: Json = False,
) -> None:
    """Let a model answer a problem."""
    from groupwise.config.compose import compose_train_config
    from groupwise.evaluate import sample as sampling

    config = compose_train_config([*(arguments or []), f"model.path={model}"])
    answers = sampling.sample(config, question, samples, temperature, top_p, top_k)
    if as_json:
        print_json([asdict(answer) for answer in answers])
    else:
        sampling.print_answers(answers)
