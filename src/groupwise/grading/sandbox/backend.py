"""What every backend is: a way to put a launcher before a command."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from groupwise.grading.sandbox.runs import Limits
from groupwise.grading.sandbox.view import View

ENVIRONMENT: Mapping[str, str] = {
    "PATH": "/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "PYTHONHASHSEED": "0",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}


class UnavailableError(Exception):
    """This backend cannot be used on this machine; the text says why, and what would help."""


@dataclass(frozen=True, slots=True)
class Launch:
    """argv and env of the launcher; the environment inside is part of argv where the launcher can set it there.

    extra: the content of descriptor 3, if any. cover: folders of the host that the launcher and the program find empty,
    with the bytes that fit in; only where we may mount.
    """

    argv: Sequence[str]
    env: Mapping[str, str]
    extra: bytes = b""
    cover: Mapping[str, int] = field(default_factory=dict)


class Backend(Protocol):
    """One kind of sandbox.

    host_folder: it has no separate file system, so that each run is given a folder of the host to write to.
    exit_offset: the launcher turns the end of its program by signal n into exit code `exit_offset` + n; 0 if it does
    not. shares_users: the kernel counts the processes of a run together with all others of its user. covers: whether we
    may mount, so that Launch.cover is honoured; the sandbox sets it.
    """

    name: str
    unsafe: bool
    host_folder: bool
    exit_offset: int
    shares_users: bool
    covers: bool

    def version(self) -> str:
        """Of the launcher."""
        ...

    def exposed(self) -> Sequence[str]:
        """Paths that the user of a program has to reach, besides what programs see."""
        ...

    def launch(self, view: View, command: Sequence[str], limits: Limits, folder: str, env: Mapping[str, str]) -> Launch:
        """Put the launcher before the command, which works in the folder."""
        ...


def environment(folder: str, env: Mapping[str, str]) -> dict[str, str]:
    """The whole environment of a program: nothing of ours, but what makes it behave the same everywhere."""
    return {**ENVIRONMENT, "HOME": folder, "TMPDIR": folder, **env}
