"""What every backend is: a way to put a launcher before a command."""

import os
import platform
import shutil
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from groupwise.grading.sandbox.launch import Launch
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


class Backend:
    """One kind of sandbox.

    host_folder: it has no separate file system, so that each run is given a folder of the host to write to.
    exit_offset: the launcher turns the end of its program by signal n into exit code `exit_offset` + n; 0 if it does
    not. shares_users: the kernel counts the processes of a run together with all others of its user. covers: whether we
    may mount, so that Launch.cover is honoured; the sandbox sets it. reached: paths that the user of a program has to
    reach, besides what programs see: the launcher and its libraries.
    """

    name: str
    unsafe = False
    host_folder = False
    exit_offset = 128
    shares_users = False
    covers = False
    reached: Sequence[str] = ()

    def version(self) -> str:
        """Of the launcher."""
        raise NotImplementedError

    def launch(self, view: View, command: Sequence[str], limits: Limits, folder: str, env: Mapping[str, str]) -> Launch:
        """Put the launcher before the command, which works in the folder."""
        raise NotImplementedError


class Bare(Backend):
    """No sandbox, for programs that you would run yourself.

    Resource limits, a session and, where we may change users, a user for each run; and nothing else.
    """

    name = "none"
    unsafe = True
    host_folder = True
    exit_offset = 0
    shares_users = True

    def version(self) -> str:
        """Of the system."""
        return f"Linux {platform.release()}"

    def launch(self, view: View, command: Sequence[str], limits: Limits, folder: str, env: Mapping[str, str]) -> Launch:
        """The command itself; it sees and reaches what its user does."""
        del view, limits
        return Launch(argv=command, env=environment(folder, env))


def find_launcher(command: str, package: str, bundled: str, libraries: str, install: str) -> list[str]:
    """The launcher, then the folder of the libraries that come with it; of the package, else of the system.

    bundled: its path in the package; libraries: the folder next to the package. Raises UnavailableError.
    """
    spec = find_spec(package)
    for place in (spec.submodule_search_locations or []) if spec is not None else []:
        found = Path(place, bundled)
        if found.is_file() and os.access(found, os.X_OK):
            folder = Path(place).parent / libraries
            return [str(found.resolve()), *([str(folder.resolve())] if folder.is_dir() else [])]
    installed = shutil.which(command)
    if installed is None:
        raise UnavailableError(f"there is no `{command}`; {install}")
    return [os.path.realpath(installed)]


def environment(folder: str, env: Mapping[str, str]) -> dict[str, str]:
    """The whole environment of a program: nothing of ours, but what makes it behave the same everywhere."""
    return {**ENVIRONMENT, "HOME": folder, "TMPDIR": folder, **env}
