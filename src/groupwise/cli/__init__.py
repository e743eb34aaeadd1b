"""The command `groupwise`: each of its commands reads arguments, calls a function and prints the result.

What a command needs is imported when it runs: `--help` and commands without a model answer at once, without torch.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Annotated, Any, NoReturn

import typer

from groupwise import __version__
from groupwise.cli import configurations, diagnose, grading, importing, models, report, sandbox, train, view, watch
from groupwise.cli.arguments import HELP_NAMES, Ended, examples
from groupwise.errors import GroupwiseError
from groupwise.stopping import SIGNALS
from groupwise.track.screen import spell_out

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
app.command("diagnose", epilog=diagnose.EXAMPLES)(diagnose.diagnose)
app.command("report", epilog=report.EXAMPLES)(report.report)
app.command("view", epilog=view.EXAMPLES)(view.view)
app.command("watch", epilog=watch.EXAMPLES)(watch.watch)
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
    """Run a command and return its exit code: 128 and the number of the signal that ended it, or that of its error.

    The process is to end then: it takes no signals any more.
    An error of groupwise, of the disk or of memory is one message; anything else is a fault, with its stack trace.
    """
    for stream in (sys.stdout, sys.stderr):
        spell_out(stream)
    # What is ignored, as nohup does, stays so; in a run, its loop takes over.
    usual = (signal.SIG_DFL, signal.default_int_handler)
    ending = [number for number in SIGNALS if signal.getsignal(number) in usual]
    for number in ending:
        signal.signal(number, _end)
    hook, sys.unraisablehook = sys.unraisablehook, _again
    try:
        command()
        sys.stdout.flush()
    except Ended as ended:
        if str(ended):
            _say(str(ended))
        return ended.exit_code
    except BrokenPipeError:
        return 1
    except (GroupwiseError, OSError, MemoryError) as error:
        _say("\n".join([f"error: {error or 'out of memory'}", *getattr(error, "__notes__", ())]))
        return error.exit_code if isinstance(error, GroupwiseError) else 1
    finally:
        for number in ending:
            signal.signal(number, signal.SIG_IGN)
        sys.unraisablehook = hook
        _close_output()
    return 0


def _end(number: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001
    raise Ended(f"stopped by {signal.Signals(number).name}", 128 + number)


def _again(lost: "sys.UnraisableHookArgs") -> None:
    """A signal that struck in a finalizer or callback, which raises nothing: it comes again behind that."""
    if isinstance(lost.exc_value, Ended):
        number = signal.Signals(lost.exc_value.exit_code - 128)
        again = threading.Timer(0.05, os.kill, (os.getpid(), number))
        again.daemon = True
        again.start()
    else:
        sys.__unraisablehook__(lost)


def _say(text: str) -> None:
    with suppress(OSError, ValueError):
        typer.echo(text, err=True)


def _close_output() -> None:
    """What waits to be written to an output that is gone is no error at the end of the process."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
