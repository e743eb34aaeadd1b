"""No sandbox: resource limits, a session and, where we may change users, its own user; and nothing else."""

import platform
from collections.abc import Mapping, Sequence

from groupwise.grading.sandbox.backend import Launch, environment
from groupwise.grading.sandbox.runs import Limits
from groupwise.grading.sandbox.view import View


class Bare:
    """For programs that you would run yourself."""

    name = "none"
    unsafe = True
    host_folder = True
    exit_offset = 0
    shares_users = True
    covers = False

    def version(self) -> str:
        """Of the system."""
        return f"Linux {platform.release()}"

    def exposed(self) -> Sequence[str]:
        """Nothing is put before the command."""
        return []

    def launch(self, view: View, command: Sequence[str], limits: Limits, folder: str, env: Mapping[str, str]) -> Launch:
        """The command itself; it sees and reaches what its user does."""
        del view, limits
        return Launch(argv=command, env=environment(folder, env))
