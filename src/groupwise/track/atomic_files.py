"""Files that are either whole or absent, even if the process is killed while it writes."""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file aside and rename it over `path`."""
    write_text(path, json.dumps(value, indent=2, allow_nan=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a text file aside and rename it over `path`."""
    aside = path.with_name(f".{path.name}.tmp")
    aside.write_text(text, encoding="utf-8")
    sync(aside)
    aside.replace(path)
    sync(path.parent)


@contextmanager
def folder_aside(path: Path) -> Iterator[Path]:
    """A folder to fill, which becomes `path` when the block ends without an error.

    Raises:
        FileExistsError: if `path` exists.
    """
    if path.exists():
        raise FileExistsError(path)
    aside = path.with_name(f".{path.name}.tmp")
    remove_tree(aside)
    aside.mkdir(parents=True)
    yield aside
    for file in aside.rglob("*"):
        if file.is_file():
            sync(file)
    sync(aside)
    aside.rename(path)
    sync(path.parent)


def remove_tree(path: Path) -> None:
    """Remove a folder and everything in it, if it is there."""
    if path.is_dir():
        shutil.rmtree(path)


def sync(path: Path) -> None:
    """Make sure that the disk has what was written to a file, or the names in a folder."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
