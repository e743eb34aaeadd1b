"""A disk whose nth operation kills the process, half done or whole, or fails; and runs in processes that may die so."""

import errno
import os
import signal
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest

from groupwise.track import disk

Fault = Literal["before", "torn", "after", "fails"]
FAULTS: tuple[Fault, ...] = ("before", "torn", "after", "fails")
KILLED = 9

Seen = list[tuple[str, Path]]


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def _tear(operation: str, path: Path, before: int) -> None:
    """Only the first half of what was to be written is on the disk."""
    if operation in ("write", "append") and path.is_file():
        os.truncate(path, before + (path.stat().st_size - before) // 2 if operation == "append" else _size(path) // 2)
    elif operation == "fill":
        files = [path] if path.is_file() else sorted(part for part in path.rglob("*") if part.is_file())
        for file in files[len(files) // 2 :]:
            os.truncate(file, _size(file) // 2)


class FaultyDisk:
    """Counts operations from 1; the nth one is faulty. number: 0 for a disk that is sound. seen: all that was done."""

    def __init__(self, number: int = 0, fault: Fault = "before", code: int = errno.ENOSPC) -> None:
        self.number, self.fault, self.code, self.seen = number, fault, code, Seen()
        # Written and not synced: what a renaming would put into place before the disk has it.
        self.unsynced: set[Path] = set()
        self.renamed_unsynced: list[Path] = []

    def perform(self, operation: str, path: Path, act: Callable[[], Any]) -> None:
        self.seen.append((operation, path))
        if len(self.seen) != self.number:
            act()
            self._follow(operation, path)
            return
        if self.fault == "before":
            os._exit(KILLED)
        before = _size(path)
        if self.fault == "fails":
            if operation in ("write", "append", "fill"):
                act()
                _tear(operation, path, before)
            raise OSError(self.code, os.strerror(self.code), str(path))
        act()
        if self.fault == "torn":
            _tear(operation, path, before)
        os._exit(KILLED)

    def _follow(self, operation: str, path: Path) -> None:
        path = Path(os.path.realpath(path))
        match operation:
            case "write" | "append" | "truncate":
                self.unsynced.add(path)
            case "fill":
                self.unsynced |= {path} if path.is_file() else {part for part in path.rglob("*") if part.is_file()}
            case "fsync":
                self.unsynced.discard(path)
            case "rename":
                inside = {part for part in self.unsynced if not part.exists()}
                self.renamed_unsynced += sorted(inside)
                self.unsynced -= inside
            case "unlink" | "rmdir":
                self.unsynced.discard(path)

    def installed(self, patch: pytest.MonkeyPatch) -> "FaultyDisk":
        patch.setattr(disk, "perform", self.perform)
        return self


def in_a_child(work: Callable[[], Any]) -> int:
    """Do something in a forked process; its exit code, KILLED if its disk killed it, 1 if an error ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(forked(work), 0)[1])


def forked(work: Callable[[], Any]) -> int:
    """Begin something in a forked process; its number."""
    pid = os.fork()
    if pid == 0:
        code = 0
        try:
            signal.alarm(120)
            work()
        except BaseException:
            traceback.print_exc()
            code = 1
        finally:
            os._exit(code)
    return pid
