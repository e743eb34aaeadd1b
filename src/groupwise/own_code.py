"""Code of the user's own, by its path: `FILE.py:NAME` or `package.module:NAME`.

A file is looked for from the current directory, a module there, in PYTHONPATH and among the installed packages.
"""

from __future__ import annotations

import difflib
import hashlib
import importlib
import importlib.util
import inspect
import linecache
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from groupwise.errors import GroupwiseError

OBJECT = "object"
"""Place of what was given as a Python object and cannot be imported: `object:NAME`."""

_OBJECTS: dict[str, Any] = {}
_FILES: dict[tuple[str, str], ModuleType] = {}


class LoadError(Exception):
    """The code cannot be used; the message says why and what to do."""

    failure_kind = "not_started"


class OwnCodeError(GroupwiseError):
    """Code of the user's own failed, or returned something else than it should. text: the message without its name."""

    def __init__(self, what: str, text: str) -> None:
        super().__init__(f"{what} {text}")
        self.what, self.text = what, text


@dataclass(frozen=True)
class Origin:
    """Where code was found. sha256: of its source file, empty where there is none."""

    path: str
    name: str
    sha256: str


def find(path: str) -> Any:
    """What stands at `package.module:NAME` or `FILE.py:NAME`. Raises LoadError."""
    place, _, name = path.rpartition(":")
    if not place or not name:
        raise LoadError(f"{path!r} should read package.module:function or file.py:function")
    if place == OBJECT:
        if name not in _OBJECTS:
            raise LoadError(
                f"{path} was given as a Python object that no file has, and this process has none of that name: give "
                f"it again in Python, or write it into a file and state FILE.py:{name}"
            )
        return _OBJECTS[name]
    module = _file(place) if place.endswith(".py") else _module(place)
    value: Any = module
    for part in name.split("."):
        if not hasattr(value, part):
            known = [key for key, item in vars(module).items() if inspect.isroutine(item) or inspect.isclass(item)]
            near = difflib.get_close_matches(part, known, 1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; it has {', '.join(known) or 'no function'}"
            raise LoadError(f"{place} has no {part!r}{hint}")
        value = getattr(value, part)
    if not callable(value):
        raise LoadError(f"{path} is not a function but {type(value).__name__}")
    return value


def origin_of(path: str, value: Any) -> Origin:
    """Where `value`, found at this path, has its source."""
    place, _, name = path.rpartition(":")
    file = os.path.abspath(place) if place.endswith(".py") else None
    try:
        file = file or inspect.getsourcefile(value)
        source = inspect.getsource(value).encode() if place == OBJECT else _bytes(file)
    except (OSError, TypeError):
        source = b""
    return Origin(path, name.rpartition(".")[2], hashlib.sha256(source).hexdigest() if source else "")


def path_of(value: Any) -> str:
    """`file.py:name` or `package.module:name`, where another process finds this very object; empty where it does not.

    What `__main__` has counts as such: to import a script again would be to run it again.
    """
    module = sys.modules.get(getattr(value, "__module__", None) or "")
    name = getattr(value, "__qualname__", "")
    if module is None or not is_importable(module) or attribute_of(module, name) is not value:
        return ""
    file = str(getattr(module, "__file__", None) or "")
    in_package = "." in module.__name__ or not file.endswith(".py") or file.endswith("__init__.py")
    return f"{module.__name__}:{name}" if in_package else f"{file}:{name}"


def path_here(value: Any) -> str:
    """As `path_of`; `object:NAME`, which this process alone finds again, for what has none."""
    name = getattr(value, "__name__", type(value).__name__)
    if not (path := path_of(value)):
        _OBJECTS[name] = value
    return path or f"{OBJECT}:{name}"


def is_importable(module: ModuleType | None) -> bool:
    """Whether another process can import a module by its name."""
    if module is None or module.__name__ == "__main__":
        return False
    try:
        return importlib.util.find_spec(module.__name__) is not None
    except (ImportError, ValueError, AttributeError):
        return False


def attribute_of(module: ModuleType | None, qualified: str) -> Any:
    """What a module has under a dotted name; None for nothing."""
    value: Any = module
    for part in qualified.split(".") if qualified else ():
        value = getattr(value, part, None)
    return value


@contextmanager
def naming(origin: Origin, what: str) -> Iterator[None]:
    """Errors of the user's code under its own name and line. Raises OwnCodeError."""
    try:
        yield
    except GroupwiseError:
        raise
    except Exception as error:
        raise OwnCodeError(f"{what} {origin.path}", f"failed: {_last_line(error)}") from error


def _bytes(file: str | None) -> bytes:
    if file is None:
        return b""
    with open(file, "rb") as opened:
        return opened.read()


def _module(name: str) -> ModuleType:
    try:
        with _first(os.getcwd()):
            return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing is not None and (name == missing or name.startswith(f"{missing}.")):
            raise LoadError(
                f"there is no module {missing!r}. It is looked for in the current directory, {os.getcwd()}, in "
                "PYTHONPATH and among the installed packages"
            ) from None
        raise LoadError(f"{name} cannot be imported: {_last_line(error)}") from None


def _file(name: str) -> ModuleType:
    """The module of a file, made again when its text has changed."""
    path = os.path.abspath(name)
    try:
        source = _bytes(path)
    except OSError:
        raise LoadError(f"there is no file {name} (looked for at {path})") from None
    key = (path, hashlib.sha256(source).hexdigest())
    if key not in _FILES:
        stem = os.path.splitext(os.path.basename(path))[0]
        # Another module of this name stays what is imported by it.
        is_free = stem not in sys.modules or getattr(sys.modules[stem], "__file__", None) == path
        module = ModuleType(stem if is_free else f"{stem}_{key[1][:8]}")
        module.__file__ = path
        sys.modules[module.__name__] = module
        linecache.checkcache(path)
        try:
            with _first(os.path.dirname(path)):
                exec(compile(source, path, "exec", dont_inherit=True), module.__dict__)
        except (Exception, SystemExit) as error:
            raise LoadError(f"{name} cannot be imported: {_last_line(error)}") from None
        _FILES[key] = module
    return _FILES[key]


@contextmanager
def _first(folder: str) -> Iterator[None]:
    """This folder as the first of those that modules come from; afterwards it is the last."""
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)
        if folder not in sys.path:
            sys.path.append(folder)


def _last_line(error: BaseException) -> str:
    """The error in a line, with the place in the user's code that raised it."""
    last = "".join(traceback.format_exception_only(error)).strip()
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "importlib" not in frame.filename]
    own = [frame for frame in frames if not frame.filename.startswith(os.path.dirname(__file__) + os.sep)]
    place = next((f" ({frame.filename}:{frame.lineno})" for frame in reversed(own)), "")
    return f"{last}{place}"
