"""All that a run changes on the disk, one operation at a time, and files that are whole or absent at any kill.

Nothing of a run is written around `change`: tests replace `perform` to make each operation fail, or be the last one.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from os import O_RDONLY, close, fsync, strerror
from os import open as open_descriptor
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from groupwise.errors import WriteError, first_line


def perform(operation: str, path: Path, act: Callable[[], Any]) -> None:  # noqa: ARG001
    """Do one operation. The name and the path are for tests."""
    act()


def change(operation: str, path: Path, act: Callable[[], Any]) -> None:
    """Do one operation. Raises WriteError where the system refuses it."""
    try:
        perform(operation, path, act)
    except (OSError, SafetensorError) as error:
        number = getattr(error, "errno", None)
        reason = strerror(number) if number else first_line(error)
        raise WriteError(f"'{path}' cannot be written ({operation}): {reason}") from error


def make_folder(path: Path) -> None:
    """Make a folder with those above it, where they are not there."""
    for folder in reversed([path, *path.parents]):
        if not folder.is_dir():
            change("mkdir", folder, folder.mkdir)


def write(path: Path, content: bytes) -> None:
    """Write a file in its place."""
    change("write", path, lambda: path.write_bytes(content))


def append(path: Path, content: bytes) -> None:
    """Append to a file."""

    def act() -> None:
        with path.open("ab") as file:
            file.write(content)

    change("append", path, act)


def cut(path: Path, size_bytes: int) -> None:
    """Cut the end of a file off."""

    def act() -> None:
        with path.open("r+b") as file:
            file.truncate(size_bytes)

    change("truncate", path, act)


def fill(path: Path, writer: Callable[[], Any]) -> None:
    """Have another library write a file, or files into a folder: one operation."""
    change("fill", path, writer)


def move(path: Path, to: Path) -> None:
    """Rename, over a file or an empty folder."""
    change("rename", to, lambda: path.replace(to))


def remove(path: Path) -> None:
    """Remove a file, if it is there."""
    change("unlink", path, lambda: path.unlink(missing_ok=True))


def remove_tree(path: Path) -> None:
    """Remove a file, or a folder and everything in it, if it is there; a link alone, not what it names."""
    if path.is_dir() and not path.is_symlink():
        for part in sorted(path.iterdir()):
            remove_tree(part)
        change("rmdir", path, path.rmdir)
    else:
        remove(path)


def sync(path: Path) -> None:
    """Make sure that the disk has what was written to a file, or the names in a folder."""

    def act() -> None:
        descriptor = open_descriptor(path, O_RDONLY)
        try:
            fsync(descriptor)
        finally:
            close(descriptor)

    change("fsync", path, act)


def sync_tree(path: Path) -> None:
    """Sync the files of a folder, then the folder itself, the ones within it first."""
    for part in sorted(path.iterdir()) if path.is_dir() else ():
        sync_tree(part)
    sync(path)


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file aside and rename it over `path`."""
    write_whole(path, (json.dumps(value, indent=2, allow_nan=False) + "\n").encode())


def write_whole(path: Path, content: bytes) -> None:
    """Write a file aside and rename it over `path`."""
    aside = path.with_name(f".{path.name}.tmp")
    try:
        write(aside, content)
        sync(aside)
        move(aside, path)
    except WriteError:
        with suppress(WriteError):
            remove(aside)
        raise
    sync(path.parent)


@contextmanager
def folder_aside(path: Path) -> Iterator[Path]:
    """A folder to fill, which becomes `path` when the block ends without an error, and is removed otherwise.

    What was at `path` stays until the new folder is whole. Raises WriteError where the disk refuses.
    """
    aside, old = path.with_name(f".{path.name}.tmp"), path.with_name(f".{path.name}.old")
    try:
        remove_tree(aside)
        make_folder(aside)
        yield aside
        sync_tree(aside)
        if path.exists():
            remove_tree(old)
            move(path, old)
        move(aside, path)
    except Exception:
        with suppress(WriteError):
            if old.exists() and not path.exists():
                move(old, path)
            remove_tree(aside)
        raise
    sync(path.parent)
    remove_tree(old)


def discard(path: Path) -> None:
    """Remove a folder, which is absent or whole if the process is killed meanwhile; the rest of it is swept later."""
    old = path.with_name(f".{path.name}.old")
    remove_tree(old)
    move(path, old)
    remove_tree(old)


def sweep(folder: Path) -> None:
    """Remove what a killed process left half written or half removed in a folder."""
    for path in sorted([*folder.glob(".*.tmp"), *folder.glob(".*.old")]):
        remove_tree(path)
