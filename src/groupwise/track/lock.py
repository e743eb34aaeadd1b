"""One process trains a run: a lock in its folder that a killed process cannot keep."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from groupwise.errors import DataError, WriteError
from groupwise.track import disk

LOCK = "lock.json"


@dataclass
class Lock:
    """A lock that this process holds, and where its file is. taken_over: what it says of the process it was left by."""

    path: Path
    descriptor: int
    taken_over: str = ""

    def release(self) -> None:
        """Let go; a second time nothing happens."""
        if self.descriptor < 0:
            return
        # Without its file the lock is gone for good; where the file cannot be removed, its process is soon gone.
        with suppress(WriteError):
            disk.remove(self.path)
        os.close(self.descriptor)
        self.descriptor = -1


def acquire(folder: Path) -> Lock:
    """Lock a run for this process.

    The kernel knows who holds it (flock), also when a process was killed, in a container or without its id. Where a
    file system has no such locks, and for other machines, the process is the one that the file names.

    Raises:
        DataError: if another process trains the run, or one on another machine may.
        WriteError: if the folder cannot be written.
    """
    path = folder / LOCK
    while True:
        opened: list[int] = []
        disk.change("lock", path, lambda: opened.append(os.open(path, os.O_RDWR | os.O_CREAT, 0o644)))  # noqa: B023
        descriptor = opened[0]
        try:
            has_kernel_lock = _flock(descriptor, folder)
            if not _is_still(path, descriptor):  # released, and so removed, between our opening and locking it
                os.close(descriptor)
                continue
            left_by = _read(descriptor)
            if left_by:
                _refuse_living(left_by, folder, has_kernel_lock)
            content = (json.dumps(_own()) + "\n").encode()

            def note(content: bytes = content, descriptor: int = descriptor) -> None:
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, content, 0)

            disk.change("write", path, note)
        except BaseException:
            with suppress(OSError):
                os.close(descriptor)
            raise
        return Lock(path, descriptor, _named(left_by) if left_by else "")


def is_held(folder: Path) -> bool:
    """Whether some process may be training the run, or making its folder; nothing is changed."""
    try:
        descriptor = os.open(folder / LOCK, os.O_RDWR)
    except OSError:
        return False
    try:
        left_by = _read(descriptor)
        _refuse_living(left_by, folder, _flock(descriptor, folder))
    except DataError:
        return True
    finally:
        os.close(descriptor)
    return False


def is_running(pid: int) -> bool:
    """Whether a process of this machine has this number, whichever it is."""
    return pid != os.getpid() and _started(pid) != ""


def _flock(descriptor: int, folder: Path) -> bool:
    """Whether the kernel's lock is ours; False where there is none. Raises DataError where another process has it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = _read(descriptor)
        raise DataError(
            f"the run in '{folder}' is being trained already, by {_named(holder) if holder else 'another process'}: "
            "wait for it, or end it"
        ) from None
    except OSError:
        return False
    return True


def _is_still(path: Path, descriptor: int) -> bool:
    try:
        there, ours = path.stat(), os.fstat(descriptor)
    except FileNotFoundError:
        return False
    return (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)


def _read(descriptor: int) -> dict[str, Any]:
    """Who wrote the lock; nothing if its process was killed before it could say so."""
    try:
        stated = json.loads(os.pread(descriptor, 4096, 0))
        return stated if isinstance(stated, dict) and {"host", "boot", "pid", "started"} <= stated.keys() else {}
    except ValueError:
        return {}


def _refuse_living(left_by: dict[str, Any], folder: Path, has_kernel_lock: bool) -> None:
    """Raise DataError unless the process that a lock names is gone for certain."""
    if not left_by:
        return
    own = _own()
    if left_by["boot"] == own["boot"]:
        # The same kernel: a living holder would have its lock, whatever the container.
        is_gone = has_kernel_lock or _started(left_by["pid"]) != left_by["started"]
    else:
        is_gone = left_by["host"] == own["host"]  # restarted since
    if not is_gone:
        raise DataError(
            f"the run in '{folder}' is locked by {_named(left_by)}: wait for it or end it; if that process is gone, "
            f"remove '{folder / LOCK}'"
        )


def _own() -> dict[str, Any]:
    pid = os.getpid()
    return {"host": socket.gethostname(), "boot": _boot(), "pid": pid, "started": _started(pid), "since": _now()}


def _now() -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S %z")


def _named(holder: dict[str, Any]) -> str:
    return f"process {holder['pid']} on {holder['host']} since {holder.get('since', '?')}"


def _boot() -> str:
    """What tells this start of this machine from all others; its name where the system has no such id."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return socket.gethostname()


def _started(pid: int) -> str:
    """When a process started, in the kernel's count, so that a number that is used again is not the same process.

    Empty for one that is gone; where the system does not say, that it is there.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        return text.rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        pass
    if Path("/proc/self/stat").exists():
        return ""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return ""
    except OSError:
        pass
    return "unknown"
