"""Inside the sandbox, in front of program.py, calls.py or worker.py: limits and input.

Arguments: the sign of a start, the five limits, the folder to work in, and what the file behind this one wants.
"""

import os
import resource
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType


def set_limits(memory_mb: int, cpu_seconds: int, processes: int, disk_mb: int, open_files: int) -> None:
    """Hard limits, which cannot be raised again; 0 is none."""
    megabyte = 1 << 20
    for kind, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_MEMLOCK, 0),
        (resource.RLIMIT_MSGQUEUE, 0),
        (resource.RLIMIT_NICE, 0),
        (resource.RLIMIT_RTPRIO, 0),
        (resource.RLIMIT_STACK, 8 * megabyte),
        (resource.RLIMIT_FSIZE, disk_mb * megabyte),
        (resource.RLIMIT_NOFILE, open_files),
        (resource.RLIMIT_CPU, cpu_seconds or resource.RLIM_INFINITY),
        (resource.RLIMIT_AS, memory_mb * megabyte),
        (resource.RLIMIT_NPROC, processes or resource.RLIM_INFINITY),
    ):
        hard = resource.getrlimit(kind)[1]
        if hard == resource.RLIM_INFINITY or 0 <= value < hard:
            resource.setrlimit(kind, (value, value))


def read_input(size: int) -> bytes:
    """So many bytes of standard input and not one more."""
    parts = []
    while size:
        part = os.read(0, size)
        if not part:
            raise SystemExit("the input is cut off")
        size -= len(part)
        parts.append(part)
    return b"".join(parts)


def new_main(name: str, path: str) -> "ModuleType":
    """A fresh module for the program, with what `site` adds to the builtins and programs expect."""
    import _sitebuiltins
    import builtins

    # Integers of any length can be read and printed; the limit of time is that of everything else.
    sys.set_int_max_str_digits(0)
    for word in ("exit", "quit"):
        setattr(builtins, word, _sitebuiltins.Quitter(word, "Ctrl-D (i.e. EOF)"))
    module = type(sys)(name)
    module.__file__ = path
    module.__dict__["__builtins__"] = builtins
    sys.modules[name] = module
    sys.argv = [path]
    return module


def leave_first_place() -> None:
    """The first process of a namespace cannot be killed by its own signals and inherits orphans: be the second."""
    child = os.fork() if os.getpid() == 1 else 0
    while child:
        pid, status = os.wait()
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            os._exit(code if code >= 0 else 128 - code)


def prepare() -> "tuple[bytes, list[str]]":
    """Limits and folder; returns the sign of a start and what remains of the arguments."""
    leave_first_place()
    ready, *numbers = sys.argv[1:7]
    set_limits(*[int(number) for number in numbers])
    os.chdir(sys.argv[7])
    return ready.encode() + b"\n", sys.argv[8:]
