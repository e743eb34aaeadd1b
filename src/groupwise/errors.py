"""The errors that a user can cause, each with the exit code of the command that meets it."""

from collections.abc import Sequence
from pathlib import Path


class GroupwiseError(Exception):
    """Something that the user can fix; the message says what was found, what was expected and what to do."""

    exit_code = 1


class UsageError(GroupwiseError):
    """A command line or a configuration that cannot be run."""

    exit_code = 2


class DataError(GroupwiseError):
    """A model folder, problem file or run folder that cannot be used."""

    exit_code = 3


class WriteError(GroupwiseError):
    """The disk refuses to take something: it is full, read-only or broken, or a folder may not be written."""


class BrokenRunError(GroupwiseError):
    """A guard stopped a run that could not learn any more. is_sound: the state after the step is, and is saved."""

    exit_code = 4

    def __init__(self, message: str, is_sound: bool = False) -> None:
        super().__init__(message)
        self.is_sound = is_sound


class MemoryLimitError(GroupwiseError, MemoryError):
    """Memory ran out although as little as possible was computed at once."""


class RunInterrupted(KeyboardInterrupt):
    """Ctrl-C, or whatever else asked for the end: step `step` of the run in `folder` is in a checkpoint.

    reason: what it was; empty for Ctrl-C. exit_code: of the command: 128 and the number of a signal, 1 for the rest.
    """

    def __init__(self, folder: Path, step: int, steps: int, reason: str = "", exit_code: int = 130) -> None:
        because = f" ({reason})" if reason else ""
        super().__init__(
            f"stopped after step {step} of {steps}{because}; resume it with: groupwise train --resume {folder}, or in "
            f"Python: groupwise.resume({str(folder)!r})"
        )
        self.folder, self.step, self.exit_code = folder, step, exit_code


def listed(lines: Sequence[object], most: int = 10) -> list[str]:
    """The first of these as lines for people, and how many more there are."""
    more = [f"- and {len(lines) - most} more"] if len(lines) > most else []
    return [f"- {line}" for line in lines[:most]] + more


def first_line(error: Exception) -> str:
    """What an error of another library says, in one line."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
