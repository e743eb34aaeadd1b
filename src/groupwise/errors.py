"""The errors that a user can cause, each with the exit code of the command that meets it."""

from collections.abc import Sequence


class GroupwiseError(Exception):
    """Something that the user can fix; the message says what was found, what was expected and what to do."""

    exit_code = 1


class UsageError(GroupwiseError):
    """A command line or a configuration that cannot be run."""

    exit_code = 2


class DataError(GroupwiseError):
    """A model folder, problem file or run folder that cannot be used."""

    exit_code = 3


def listed(lines: Sequence[object], most: int = 10) -> list[str]:
    """The first of these as lines for people, and how many more there are."""
    more = [f"- and {len(lines) - most} more"] if len(lines) > most else []
    return [f"- {line}" for line in lines[:most]] + more


def first_line(error: Exception) -> str:
    """What an error of another library says, in one line."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
