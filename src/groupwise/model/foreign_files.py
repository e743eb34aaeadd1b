"""Model folders of others: no name leads out of one, no file is too large, what a library raises is a DataError."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from groupwise.errors import DataError, GroupwiseError, first_line

# The largest tokenizers have 40 MB.
MOST_BYTES = 256 << 20


@contextmanager
def foreign(subject: str) -> Iterator[None]:
    """Whatever is raised inside becomes a DataError on the subject: libraries raise errors of all kinds."""
    try:
        yield
    except GroupwiseError:
        raise
    except Exception as error:
        if "trust_remote_code" in str(error):
            raise DataError(
                f"{subject} cannot be loaded: it is built by code of its own repository, which is never run; expected "
                "an architecture that transformers has"
            ) from error
        raise DataError(f"{subject} cannot be loaded: {first_line(error)}") from error


def check_files(folder: Path) -> None:
    """Raises DataError for a file that is too large, a list of files that names one elsewhere, and as `check_config`.

    A file may be a link, as all are in the hub's cache: who put it there could have put a copy there as well.
    """
    for file in [*folder.glob("*.json"), *folder.glob("*.jinja"), *folder.glob("*.model")]:
        if file.stat().st_size > MOST_BYTES:
            raise DataError(f"'{file}' has {file.stat().st_size} bytes; at most {MOST_BYTES} are read of such a file")
    lists = [(file, "weight_map") for file in folder.glob("*.safetensors.index.json")]
    for file, key in [*lists, (folder / "tokenizer_config.json", "fast_tokenizer_files")]:
        for name in _names(file, key):
            if not isinstance(name, str) or not name or name != Path(name).name:
                raise DataError(f"'{file}' names {name!r} in {key}: expected the name of a file next to it")
    check_config(_read(folder / "config.json"), f"'{folder / 'config.json'}'")


def check_config(tree: Any, name: str) -> None:
    """Raises DataError for an implementation that is code on the hub, which transformers would run without asking."""
    for kernel in _kernels(tree):
        raise DataError(f"{name} names code that is on the hub, which is never run: {kernel}; remove that entry")


def _read(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}


def _names(file: Path, key: str) -> list[Any]:
    tree = _read(file)
    names = tree.get(key) if isinstance(tree, dict) else None
    return list(names.values()) if isinstance(names, dict) else names if isinstance(names, list) else []


def _kernels(tree: Any) -> Iterator[str]:
    """Implementations of attention or experts by the id of a repository; configurations have configurations inside."""
    for key, value in tree.items() if isinstance(tree, dict) else ():
        if key.endswith("implementation"):
            named = value.values() if isinstance(value, dict) else [value]
            yield from (f"{key} {name!r}" for name in named if isinstance(name, str) and "/" in name)
        yield from _kernels(value)
