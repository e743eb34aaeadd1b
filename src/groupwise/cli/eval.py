"""`groupwise eval`."""

from typing import Annotated

import typer

from groupwise.cli.arguments import ConfigArguments, Json, Model, examples, print_json

EXAMPLES = examples(
    "groupwise eval bundled",
    "groupwise eval runs/demo-1/model --problems test.jsonl --samples 16 sampling.temperature=0.6",
)


def evaluate(
    model: Model,
    arguments: ConfigArguments = None,
    problems: Annotated[str, typer.Option(help="As in problems.eval: a generated source, or a file.")] = "arithmetic",
    limit: Annotated[int, typer.Option(min=1, help="Largest number of problems.")] = 512,
    samples: Annotated[int, typer.Option(min=1, help="Samples for each problem; pass@k up to this k.")] = 8,
    as_json: Json = False,
) -> None:
    """Measure a model: accuracy and pass@k with 95 % intervals, format rate, length, truncation."""
    from groupwise.config.compose import compose_train_config
    from groupwise.evaluate.sample import evaluate as measure
    from groupwise.evaluate.tables import print_evaluation

    stated = [
        f"model.path={model}",
        f"problems.eval={problems}",
        f"problems.eval_problems={limit}",
        f"problems.eval_samples_per_prompt={samples}",
    ]
    result = measure(compose_train_config([*(arguments or []), *stated]))
    if as_json:
        print_json(result)
    else:
        print_evaluation(result)
