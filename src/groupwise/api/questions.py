"""What can be asked without training: configurations, what they mean, grades of answers, and measurements of models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, overload

from groupwise.api.inputs import Model, Path_, Problems, Sources, Tokenizer, gather, listed_sources, refuse
from groupwise.api.results import Run
from groupwise.api.rewards import Rewards
from groupwise.config import TrainConfig
from groupwise.config.compose import Source, compose_to_explain, compose_train_config
from groupwise.data.rows import Row, kind_of
from groupwise.errors import DataError, UsageError
from groupwise.evaluation import grade_file
from groupwise.grading.functions.samples import plain
from groupwise.grading.records import Verdict

if TYPE_CHECKING:
    from groupwise.explaining.report import Explanation


def load_config(config: Sources = (), **overrides: Any) -> TrainConfig:
    """The checked options of a recipe, a YAML file, a dict, or a list of these, with overrides as `train` takes them.

    Raises UsageError that lists all unknown keys, wrong values and contradictions.
    """
    return compose_train_config([*listed_sources(config), *({key: value} for key, value in overrides.items())])


def explain(config: Sources = "demo", **overrides: Any) -> Explanation:
    """What a configuration means: `print` it, or read its equation, techniques, costs and findings.

    Findings of the level `error`, for which `train` refuses to start, raise nothing here; UsageError is raised for
    unknown keys and wrong values.
    """
    from groupwise.explaining import report

    sources = [*listed_sources(config), *({key: value} for key, value in overrides.items())]
    return report.explain(compose_to_explain(sources))


@overload
def grade(response: str, gold: str, **options: Any) -> Verdict: ...
@overload
def grade(response: Sequence[str], gold: str | Sequence[str], **options: Any) -> list[Verdict]: ...
@overload
def grade(response: Path_ | Iterable[Mapping[str, Any]], gold: None = None, **options: Any) -> list[Verdict]: ...
def grade(response: Any, gold: str | Sequence[str] | None = None, **options: Any) -> Verdict | list[Verdict]:
    """What the grader of mathematics says of a response, as `groupwise grade` does.

    One response and its reference answer; a list of responses with one reference answer or as many; or, without `gold`,
    rows with `response` and `gold`, or a file of them. options: of rewards.correctness.math, as `answer="boxed"`.

    Raises:
        UsageError: for options, and for arguments that do not belong together.
        DataError: for rows that cannot be graded, all of them.
    """
    policy = grade_file.policy_of({key: plain(value) for key, value in options.items()})
    if gold is None:
        is_file = isinstance(response, str | PathLike)
        rows = None if is_file else [_row(n, row) for n, row in enumerate(response, start=1)]
        graded = grade_file.read_graded_rows(fspath(response), policy) if rows is None else None
        return _verdicts(
            fspath(response) if is_file else "rows", list(graded or grade_file.grade_rows(rows or [], policy))
        )
    single = isinstance(response, str)
    responses = [response] if isinstance(response, str) else list(response)
    golds = [gold] * len(responses) if isinstance(gold, str) else list(gold)
    if len(golds) != len(responses):
        raise UsageError(f"gold: found {len(golds)} reference answers for {len(responses)} responses")
    pairs = zip(responses, golds, strict=True)
    numbered = [Row(n, {"response": one, "gold": its}) for n, (one, its) in enumerate(pairs, start=1)]
    verdicts = _verdicts("responses", list(grade_file.grade_rows(numbered, policy)))
    return verdicts[0] if single else verdicts


def _row(number: int, row: Any) -> Row:
    found = f"expected a dict with response and gold, found {kind_of(row)}"
    return Row(number, dict(row)) if isinstance(row, Mapping) else Row(number, {}, found)


def _verdicts(name: str, graded: list[grade_file.Graded]) -> list[Verdict]:
    faults = grade_file.faults(name, graded)
    if faults:
        raise DataError(faults)
    return [result.verdict for result in graded if result.verdict is not None]


def evaluate(
    model: Run | Model,
    problems: Problems | None = None,
    *,
    config: Sources = (),
    tokenizer: Tokenizer | None = None,
    rewards: Rewards | None = None,
    limit: int | None = None,
    samples: int | None = None,
    **overrides: Any,
) -> dict[str, Any]:
    """Measure a model, as `groupwise eval` does: accuracy and pass@k with 95 % intervals, format rate, lengths.

    model: as in `train`, or a run, whose trained model is then measured under the options of the run.
    problems: rows, a dataset, or a path; `arithmetic` without any, and for a run its own held-out problems.
    limit: problems at most, 512 by default. samples: for each problem, 8 by default. Other arguments: see `train`.
    Returns what `groupwise eval --json` prints: the measurements are `["measured"]`, by the way of decoding.

    Raises as `train`.
    """
    first: list[Source] = []
    if isinstance(model, Run):
        first, path = [model.config], str(model.model_path)
        if problems is None and not _has_held_out(model.config):
            refuse([f"problems: {model!r} was not measured on any; name problems to measure on"])
    else:
        path = None
        problems = "arithmetic" if problems is None else problems
    inputs = gather(path or model, tokenizer, None, problems, rewards)
    given = {"problems.eval_problems": limit, "problems.eval_samples_per_prompt": samples}
    inputs.options |= {key: value for key, value in given.items() if value is not None}

    def options(folder: Path) -> TrainConfig:
        stated = [*first, *listed_sources(config)]
        return compose_train_config(
            [*stated, *inputs.sources(folder), *({key: value} for key, value in overrides.items())]
        )

    checked = options(Path("RUN"))
    # Not before the options are right: it loads torch.
    from groupwise.evaluation.sample import evaluate as measure

    if not inputs.placed:
        return measure(checked, inputs.objects)
    with TemporaryDirectory() as folder, inputs.in_words(Path(folder)):
        inputs.write(Path(folder))
        return measure(options(Path(folder)), inputs.objects)


def _has_held_out(config: TrainConfig) -> bool:
    from groupwise.config.data import is_generated

    trained = config.problems.train_sources
    return config.problems.eval_problems > 0 and bool(config.problems.eval_sources or any(map(is_generated, trained)))
