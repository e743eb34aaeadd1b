"""What of this machine a sandboxed program sees: the interpreter and the system's libraries, to read."""

import os
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from groupwise.errors import DataError
from groupwise.grading.sandbox.launch import interpreter

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/lib32", "/libx32", "/nix/store", "/gnu/store")
# Files that the interpreter and its libraries read; none of them says who uses this machine.
SETTINGS = ("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime", "/etc/alternatives")


@dataclass(frozen=True, slots=True)
class View:
    """folders and files: to read, at the same place as outside. links: pairs of a link and where it leads.

    hidden: folders inside of those that are shown empty: installed packages and what users put under /usr.
    """

    folders: tuple[str, ...]
    files: tuple[str, ...]
    links: tuple[tuple[str, str], ...]
    hidden: tuple[str, ...]
    python: str

    def has_part_in(self, folder: str) -> bool:
        """Whether something that is to be seen lies in the folder."""
        return any(inside(path, folder) for path in (*self.folders, *self.files))


def minimal_view(read_only: Sequence[Path] = ()) -> View:
    """The interpreter with its standard library, the system's libraries, and the folders in `read_only`."""
    prefix = os.path.realpath(sys.base_prefix)
    python = interpreter()
    wanted = [prefix, os.path.dirname(sysconfig.get_path("stdlib")), *(str(path.resolve()) for path in read_only)]
    if not inside(python, prefix):
        wanted.append(python)
    links = tuple((path, os.readlink(path)) for path in SYSTEM if os.path.islink(path))
    folders = [path for path in SYSTEM if os.path.isdir(path) and not os.path.islink(path)]
    files = [path for path in SETTINGS if os.path.exists(path)]
    for path in wanted:
        path = os.path.realpath(path)
        if not any(inside(path, folder) for folder in folders):
            (folders if os.path.isdir(path) else files).append(path)
    shown = [path.resolve() for path in read_only]
    hidden = [path for path in package_folders(prefix) if not any(inside(str(one), path) for one in shown)]
    return View(
        folders=tuple(folders),
        files=tuple(files),
        links=links,
        hidden=tuple(path for path in hidden if os.path.isdir(path)),
        python=python,
    )


def installed_packages(names: Sequence[str]) -> dict[Path, Path]:
    """The folders of installed packages, each with the one to import from. Raises DataError."""
    folders: dict[Path, Path] = {}
    for name in names:
        found = find_spec(name) if name.isidentifier() else None
        if found is None or not found.submodule_search_locations:
            raise DataError(
                f"sandbox.packages: no package {name!r} is installed here; `pip install` it, or leave it out"
            )
        for place in map(Path, found.submodule_search_locations):
            # Wheels keep the libraries that they bring in a folder next to the package.
            for folder in (place, place.with_name(f"{name}.libs")):
                if folder.is_dir():
                    folders[folder] = folder.parent
    return folders


def package_folders(prefix: str) -> tuple[str, ...]:
    """Where packages are installed, and what people put under /usr by hand."""
    folders = [f"{sysconfig.get_path('stdlib')}/site-packages", "/usr/lib/python3/dist-packages", "/usr/src"]
    if not inside(prefix, "/usr/local"):
        folders.append("/usr/local")
    return tuple(folders)


def inside(path: str, folder: str) -> bool:
    """Whether the path is the folder or lies in it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")
