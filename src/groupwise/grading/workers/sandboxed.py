"""Worker processes inside a sandbox, for what handles a model's text with code that evaluates it."""

import sys
from collections.abc import Mapping
from pathlib import Path

from groupwise.grading.sandbox.launch import Process
from groupwise.grading.sandbox.runs import Limits
from groupwise.grading.sandbox.sandbox import Sandbox
from groupwise.grading.workers.launched import Launch

_PACKAGE = Path(__file__).parents[2]
_PACKAGE_FOLDERS = ("site-packages", "dist-packages")
# One thread each: the processes are the parallelism.
_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "MPLBACKEND": "Agg",
}


def import_paths() -> list[str]:
    """Where installed packages and this one lie; the `paths` of a pool whose processes see nothing else."""
    installed = [path for path in sys.path if Path(path).name in _PACKAGE_FOLDERS and Path(path).is_dir()]
    return [*installed, str(_PACKAGE.parent)]


def launch_in(sandbox: Sandbox, *, memory_mb: int, env: Mapping[str, str] | None = None) -> Launch:
    """Start worker processes inside the sandbox; they see the interpreter and `import_paths` to read, and no network.

    memory_mb: address space of a process, imports included. The pool itself needs no limit then.
    """
    limits = Limits(wall_seconds=None, cpu_seconds=None, memory_mb=memory_mb, processes=32, disk_mb=64, open_files=256)
    seen = [Path(path) for path in import_paths()]

    def start(argv: list[str]) -> Process:
        command = ["python", *argv[1:]]
        return sandbox.start_worker(command, limits, seen, {**_ENVIRONMENT, **(env or {})})

    return start
