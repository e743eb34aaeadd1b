"""sandlock: rules of the kernel for files, network and signals (Landlock) and a filter of system calls.

It needs no namespaces, so it also works in containers that forbid them; and it hides nothing, so a program can see
which processes and folders there are, but not open them.
"""

import json
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from groupwise.grading.sandbox.backend import Backend, UnavailableError, environment
from groupwise.grading.sandbox.bubblewrap import SHARED_MEMORY_MB
from groupwise.grading.sandbox.launch import Launch, interpreter
from groupwise.grading.sandbox.runs import Limits
from groupwise.grading.sandbox.view import View

INSTALL = "install it with `pip install sandlock`; it needs Linux 6.7 or later"
LAUNCHER = Path(__file__).parent / "inside" / "sandlock_launcher.py"


class Sandlock(Backend):
    """The package sandlock."""

    name = "sandlock"
    host_folder = True
    shares_users = True

    def __init__(self) -> None:
        spec = find_spec("sandlock")
        if spec is None or spec.origin is None:
            raise UnavailableError(f"there is no package `sandlock`; {INSTALL}")
        self.packages = str(Path(spec.origin).resolve().parent.parent)
        self.reached = [str(Path(self.packages) / "sandlock")]
        self.launcher = LAUNCHER.read_text()

    def version(self) -> str:
        """Of the package."""
        return f"sandlock {version('sandlock')} on Linux {platform.release()}"

    def launch(self, view: View, command: Sequence[str], limits: Limits, folder: str, env: Mapping[str, str]) -> Launch:
        """Reads the view, writes the folder, connects to nothing."""
        # Semaphores of multiprocessing are files there; without its own folder it would meet other runs.
        cover = {"/dev/shm": SHARED_MEMORY_MB << 20} if self.covers else {}
        policy = {
            "fs_readable": [*view.folders, *view.files, "/proc/self", "/dev/urandom", "/dev/random", "/dev/zero"],
            "fs_writable": [folder, "/dev/null", *cover],
            "fs_denied": list(view.hidden),
            "max_memory": limits.memory_mb << 20,
            "max_processes": limits.processes,
            "clean_env": True,
            "env": environment(folder, env),
            "cwd": folder,
        }
        python = [interpreter(), "-I", "-S", "-B", "-c", self.launcher]
        return Launch(argv=[*python, self.packages, json.dumps(policy), *command], env={"HOME": folder}, cover=cover)
