"""`groupwise eval` and `groupwise sample`."""

from dataclasses import asdict
from typing import Annotated

import typer

from groupwise.cli.arguments import ConfigArguments, Json, Model, examples, print_json, refuse_overrides

EXAMPLES = examples(
    "groupwise eval bundled",
    "groupwise eval runs/demo-001/model --problems test.jsonl --samples 16 sampling.temperature=0.6",
)
SAMPLE_EXAMPLES = examples(
    'groupwise sample bundled "3 + 4 = ?" -n 4', 'groupwise sample bundled "3 + 4 = ?" --temperature 0'
)
_EVALUATE_FORMS = {
    "model.path": "groupwise eval VALUE",
    "problems.eval": "--problems VALUE",
    "problems.eval_problems": "--limit VALUE",
    "problems.eval_samples_per_prompt": "--samples VALUE",
}
_SAMPLE_FORMS = {
    "model.path": "groupwise sample VALUE",
    "sampling.temperature": "--temperature VALUE",
    "sampling.top_p": "--top-p VALUE",
    "sampling.top_k": "--top-k VALUE",
}


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
    from groupwise.evaluation.sample import evaluate as measure
    from groupwise.evaluation.tables import print_evaluation

    refuse_overrides(arguments or [], _EVALUATE_FORMS)
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
    from groupwise.evaluation import sample as sampling

    refuse_overrides(arguments or [], _SAMPLE_FORMS)
    config = compose_train_config([*(arguments or []), f"model.path={model}"])
    answers = sampling.sample(config, question, samples, temperature, top_p, top_k)
    if as_json:
        print_json([asdict(answer) for answer in answers])
    else:
        sampling.print_answers(answers)
