"""The command `groupwise`: each of its commands reads arguments, calls a function and prints the result.

What a command needs is imported when it runs: `--help` and commands without a model answer at once, without torch.
"""

import os
import sys
from collections.abc import Callable
from typing import Annotated, Any, NoReturn

import typer

from groupwise import __version__
from groupwise.cli import configurations, grading, importing, models, sandbox, train
from groupwise.cli.arguments import HELP_NAMES, examples
from groupwise.errors import GroupwiseError

# Before torch starts its threads: waiting ones sleep instead of spinning, so that a busy machine is not made busier.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# Nothing is looked up on the network unless a model is named by its hub id.
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
os.environ.setdefault("TQDM_DISABLE", "1")

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, context_settings=HELP_NAMES)
EXAMPLES = examples(
    "groupwise train",
    "groupwise explain dapo",
    "groupwise eval runs/demo-001/model",
    "groupwise COMMAND --help",
)
app.command("train", epilog=train.EXAMPLES)(train.train)
app.command("eval", epilog=models.EXAMPLES)(models.evaluate)
app.command("sample", epilog=models.SAMPLE_EXAMPLES)(models.sample)
app.command("sft", epilog=train.SFT_EXAMPLES)(train.sft)
app.command("recipes", epilog=configurations.RECIPES_EXAMPLES)(configurations.recipes)
app.command("explain", epilog=configurations.EXPLAIN_EXAMPLES)(configurations.explain)
app.command("grade", epilog=grading.EXAMPLES)(grading.grade)
app.command("check", epilog=grading.CHECK_EXAMPLES)(grading.check)
app.command("config", epilog=configurations.CONFIG_EXAMPLES)(configurations.config)
app.add_typer(importing.app, name="import")
app.add_typer(sandbox.app, name="sandbox")


def _print_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"groupwise {__version__}")
        raise typer.Exit


@app.callback(epilog=EXAMPLES)
def groupwise(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Group-relative policy optimisation (GRPO) for language models, on problems with checkable answers."""


def main() -> NoReturn:
    """Entry point: an error that the user can fix is one message and an exit code of 2 or 3, never a stack trace."""
    sys.exit(guarded(lambda: app(prog_name="groupwise")))


def guarded(command: Callable[[], Any]) -> int:
    """Run a command and return its exit code."""
    try:
        command()
    except GroupwiseError as error:
        typer.echo(f"error: {error}", err=True)
        return error.exit_code
    except KeyboardInterrupt:
        return train.INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return 0
