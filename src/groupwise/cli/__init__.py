"""The commands. Each one reads its arguments, calls one function, and prints what that returns."""

import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Any, NoReturn

import typer

# Before torch starts its threads: waiting ones sleep instead of spinning, so that a busy machine is not made busier.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# Nothing is looked up on the network unless a model is named by its hub id.
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
os.environ.setdefault("TQDM_DISABLE", "1")

INTERRUPTED = 130

app = typer.Typer(
    help="Group-relative policy optimisation (GRPO) for language models, on problems with checkable answers.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

ConfigArguments = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[RECIPE | FILE.yaml | KEY=VALUE]...",
        help="Recipes, YAML files and overrides, composed from left to right.",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON on standard output.")]
Threads = Annotated[int, typer.Option(min=0, help="CPU threads; 0 for the faster choice of a short probe.")]


@app.command()
def train(
    arguments: ConfigArguments = None,
    resume: Annotated[str | None, typer.Option(metavar="RUN", help="Go on with an interrupted run.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Load and check everything, print the plan, stop.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Train a model. Where no recipe, no file and no model is named, overrides are of the recipe `demo`."""
    from groupwise.errors import UsageError
    from groupwise.train import run as main

    given = arguments or []
    if resume is not None and dry_run:
        raise UsageError("--dry-run plans a new run; it cannot be combined with --resume")
    reporter = console_reporter(as_json)
    if resume is not None:
        summary = main.resume_run(resume, given, reporter)
    else:
        summary = main.compose_and_start(main.with_default_recipe(given), dry_run, reporter)
        if dry_run:
            return
    if summary is None:
        raise typer.Exit(INTERRUPTED)
    if as_json:
        print_json(summary)
    else:
        main.print_summary(summary)


@app.command("eval")
def evaluate(
    model: Annotated[str, typer.Argument(help="`bundled`, a model folder, a .gguf file, or a hub id.")],
    arguments: ConfigArguments = None,
    problems: Annotated[str, typer.Option(help="As in problems.eval: a generated source, or a file.")] = "arithmetic",
    limit: Annotated[int, typer.Option(min=1, help="Problems at most.")] = 512,
    samples: Annotated[int, typer.Option(min=1, help="Samples of each problem; pass@k up to this.")] = 8,
    as_json: Json = False,
) -> None:
    """Measure a model: accuracy and pass@k with 95 % intervals, format rate, length, truncation."""
    from groupwise.cli import commands

    result = commands.evaluate(model, problems, limit, samples, arguments or [])
    if as_json:
        print_json(result)
    else:
        commands.print_evaluation(result)


@app.command()
def sample(
    model: Annotated[str, typer.Argument(help="`bundled`, a model folder, a .gguf file, or a hub id.")],
    question: Annotated[str, typer.Argument(help="The problem.")],
    arguments: ConfigArguments = None,
    samples: Annotated[int, typer.Option("--samples", "-n", min=1, help="How many answers.")] = 1,
    temperature: Annotated[float, typer.Option(min=0.0, help="0 takes the most likely tokens.")] = 1.0,
    top_p: Annotated[float, typer.Option(min=0.01, max=1.0)] = 1.0,
    top_k: Annotated[int, typer.Option(min=0, help="0 for the whole vocabulary.")] = 0,
    as_json: Json = False,
) -> None:
    """Let a model answer a problem."""
    from groupwise.cli import commands

    answers = commands.sample(model, question, samples, temperature, top_p, top_k, arguments or [])
    if as_json:
        print_json([asdict(answer) for answer in answers])
    else:
        commands.print_answers(answers)


@app.command()
def sft(arguments: ConfigArguments = None, as_json: Json = False) -> None:
    """Supervised training on prompts and completions: data=FILE.jsonl output=FOLDER [KEY=VALUE ...]."""
    from groupwise.cli import commands

    result = commands.supervised(arguments or [], to_stderr=as_json)
    if as_json:
        print_json({**asdict(result), "output": str(result.output)})
    else:
        typer.echo(f"wrote {result.output}: {result.steps} steps, loss {result.final_loss:.4f}, {result.seconds:.0f} s")


@app.command()
def recipes(as_json: Json = False) -> None:
    """List the recipes with the numbers of their techniques."""
    from groupwise.explain import report

    if as_json:
        print_json(report.describe_recipes())
    else:
        typer.echo("\n".join(report.recipe_lines()))


@app.command()
def explain(arguments: ConfigArguments = None, as_json: Json = False) -> None:
    """Explain a configuration: its equation, its techniques, what they cost, and what is unsound or without effect.

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


@app.command("grade")
def grade_answers(
    file: Annotated[
        str, typer.Argument(help="Rows of id, response, gold: .jsonl, .json, .parquet, or - for JSON lines.")
    ],
    options: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY=VALUE]...", help="Of rewards.correctness.math: answer=boxed ..."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON verdict a line, in the order of the rows.")
    ] = False,
) -> None:
    """Grade answers to mathematical problems against reference answers.

    Rows that cannot be graded are listed at the end, with the exit code 3.
    """
    from groupwise.errors import DataError
    from groupwise.evaluate import grade_file

    results = []
    for result in grade_file.read_graded_rows(file, grade_file.read_policy(options or [])):
        results.append(result)
        if as_json and result.verdict is not None:
            typer.echo(json.dumps(grade_file.as_data(result)))
    if not as_json:
        typer.echo(grade_file.summary(results))
    faults = grade_file.faults(file, results)
    if faults:
        raise DataError(faults)


@app.command("check")
def check_problems(
    file: Annotated[str, typer.Argument(help="Problems to train on: .jsonl, .jsonl.gz, .json or .parquet.")],
    arguments: ConfigArguments = None,
    held_out: Annotated[str, typer.Option("--eval", metavar="FILE", help="Problems to measure on.")] = "",
    run_solutions: Annotated[
        bool, typer.Option("--run-solutions", help="Run the solutions that programming problems bring, in the sandbox.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Check problem files as a run with these arguments would see them. The exit code is 3 for what `train` refuses."""
    from groupwise.evaluate import check_files as check
    from groupwise.evaluate import check_report
    from groupwise.train import run as main

    found = check.run_check(file, main.with_default_recipe(arguments or []), held_out, run_solutions)
    if as_json:
        print_json(check_report.to_json(found))
    else:
        check_report.print_check(found)
    if found.refused:
        raise typer.Exit(3)


@app.command("config")
def show_config(
    arguments: ConfigArguments = None,
    keys: Annotated[bool, typer.Option("--keys", help="List every key with its type, default and meaning.")] = False,
) -> None:
    """Print the resolved configuration, or all keys."""
    from groupwise.cli import commands

    typer.echo(commands.describe_keys() if keys else commands.resolved_config(arguments or []))


importer = typer.Typer(
    help="Translate a configuration of TRL or verl into one of groupwise, as YAML.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(importer, name="import")
Problems = Annotated[
    int | None,
    typer.Option("--problems", min=1, help="How many problems are trained on, to count the steps of an epoch."),
]


@importer.command("trl")
def import_trl(
    file: Annotated[str, typer.Argument(help="YAML or JSON with the options of a GRPOConfig.")],
    processes: Annotated[int, typer.Option(min=1, help="Processes that the run was launched on.")] = 1,
    problems: Problems = None,
    as_json: Json = False,
) -> None:
    """From a GRPOConfig of TRL."""
    from groupwise.importing import write

    imported = write.import_trl(file, processes, problems)
    if as_json:
        print_json(write.as_data(imported))
    else:
        typer.echo(write.as_yaml(imported, f"From TRL: {file}"), nl=False)


@importer.command("verl")
def import_verl(
    file: Annotated[str, typer.Argument(help="YAML, or a script with a.b.c=value overrides.")],
    problems: Problems = None,
    as_json: Json = False,
) -> None:
    """From a configuration of verl."""
    from groupwise.importing import write

    imported = write.import_verl(file, problems)
    if as_json:
        print_json(write.as_data(imported))
    else:
        typer.echo(write.as_yaml(imported, f"From verl: {file}"), nl=False)


sandbox = typer.Typer(
    help="The sandbox that programs of a model run in.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(sandbox, name="sandbox")


@sandbox.command("check")
def check_sandbox(
    attacks: Annotated[
        str | None, typer.Option("--attacks", metavar="FILE", help="Attacks of your own: JSON lines.")
    ] = None,
    backend: Annotated[str, typer.Option(help="auto, bubblewrap, sandlock, nsjail or none.")] = "auto",
    as_json: Json = False,
) -> None:
    """Attack the sandbox of this machine. The exit code is 1 unless every attack is contained and every honest program
    is paid."""
    from rich.console import Console

    from groupwise.grading.sandbox import report

    console = Console()
    battery = report.check(backend, attacks, None if as_json else console)
    if as_json:
        print_json(report.as_data(battery))
    else:
        report.print_battery(battery, console)
    if not battery.passed:
        raise typer.Exit(1)


def console_reporter(to_stderr: bool) -> Any:
    """A reporter on standard output, or on standard error where standard output is for JSON."""
    from rich.console import Console

    from groupwise.track.console import ConsoleReporter

    return ConsoleReporter(Console(stderr=to_stderr))


def print_json(value: Any) -> None:
    """JSON on standard output."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def main() -> NoReturn:
    """Entry point: errors that the user can mend are one message and an exit code of 2 or 3, never a stack dump."""
    sys.exit(guarded(lambda: app(standalone_mode=True)))


def guarded(command: Callable[[], Any]) -> int:
    """Run a command and return its exit code."""
    from groupwise.errors import GroupwiseError

    try:
        command()
    except GroupwiseError as error:
        typer.echo(f"error: {error}", err=True)
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return 0
