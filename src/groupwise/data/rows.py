"""The rows of a .jsonl, .jsonl.gz, .json or .parquet file, each with its number and, where it is broken, the reason."""

import gzip
import io
import json
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from groupwise.errors import DataError

EXTENSIONS = (".jsonl", ".jsonl.gz", ".json", ".parquet")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Row(NamedTuple):
    """Line of a .jsonl, or number of the row from 1, its columns, and why they could not be read (else empty)."""

    number: int
    columns: dict[str, Any]
    error: str = ""


def read_rows(path: Path) -> list[Row]:
    """All rows of a file. Raises DataError where it cannot be read as a whole; a broken row carries its own error."""
    name = path.name.lower()
    try:
        if path.is_dir():
            raise IsADirectoryError
        if name.endswith(".jsonl"):
            return list(json_lines(io.BytesIO(path.read_bytes())))
        if name.endswith(".jsonl.gz"):
            with gzip.open(path) as stream:
                return list(json_lines(stream))
        if name.endswith(".json"):
            return _json_list(path)
        if name.endswith(".parquet"):
            return _parquet(path)
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file") from None
    except IsADirectoryError:
        raise DataError(f"{path}: this is a folder; expected a problem file ({', '.join(EXTENSIONS)})") from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{path}: not a complete gzip file: {error}") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from None
    raise DataError(f"{path}: unknown kind of file; expected one that ends in {', '.join(EXTENSIONS)}")


def shorten(text: str, length: int = 60) -> str:
    """The beginning of a text, quoted, for an error message."""
    return repr(text if len(text) <= length else text[:length] + "…")


def kind_of(value: object) -> str:
    """What a JSON value is, in words."""
    if value is None:
        return "null"
    words = {
        bool: "true or false",
        int: "an integer",
        float: "a number",
        str: "text",
        list: "a list",
        dict: "an object",
    }
    return words.get(type(value), type(value).__name__)


def json_lines(stream: Iterable[bytes]) -> Iterator[Row]:
    """The rows of a stream of JSON lines; empty lines are none."""
    for number, line in enumerate(stream, start=1):
        content = (line.removeprefix(_BYTE_ORDER_MARK) if number == 1 else line).rstrip(b"\r\n")
        if not content.strip():
            continue
        try:
            text = _decode(content)
            value = _parse(text)
        except ValueError as error:
            yield Row(number, {}, str(error))
            continue
        yield _row(number, value, text)


def _json_list(path: Path) -> list[Row]:
    content = path.read_bytes().removeprefix(_BYTE_ORDER_MARK)
    if not content.strip():
        return []
    try:
        values = _parse(_decode(content))
    except ValueError as error:
        hint = "; a file with one object a line is to be called .jsonl" if "Extra data" in str(error) else ""
        raise DataError(f"{path}: {error}{hint}") from None
    if not isinstance(values, list):
        raise DataError(f"{path}: expected a list of rows, found {kind_of(values)}")
    return [_row(number, value) for number, value in enumerate(values, start=1)]


def _row(number: int, value: Any, text: str | None = None) -> Row:
    if isinstance(value, dict):
        return Row(number, value)
    shown = shorten(json.dumps(value) if text is None else text)
    return Row(number, {}, f"expected a JSON object, found {kind_of(value)}: {shown}")


def _parquet(path: Path) -> list[Row]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise DataError(f"{path}: reading .parquet needs pyarrow: pip install 'groupwise[parquet]'") from None
    try:
        with path.open("rb") as stream, parquet.ParquetFile(stream) as file:
            columns = [row for batch in file.iter_batches() for row in batch.to_pylist()]
    except pyarrow.ArrowException as error:
        raise DataError(f"{path}: not a parquet file that can be read: {str(error).splitlines()[0]}") from None
    return [Row(number, row) for number, row in enumerate(columns, start=1)]


def _decode(content: bytes) -> str:
    """Raises ValueError that names the byte."""
    if b"\0" in content:
        raise ValueError(f"NUL byte at byte {content.index(0) + 1}; is this a text file in UTF-8?")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        prefix = shorten(content[: error.start].decode("utf-8", "replace")[-60:])
        raise ValueError(
            f"not valid UTF-8 at byte {error.start + 1} (0x{content[error.start]:02x}), after {prefix}"
        ) from None


def _parse(text: str) -> Any:
    """Raises ValueError that names the column and shows the text there."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        line = f"line {error.lineno}, " if "\n" in text else ""
        shown = shorten(text.split("\n")[error.lineno - 1])
        raise ValueError(f"not valid JSON at {line}column {error.colno}: {error.msg}: {shown}") from None
    except RecursionError:
        raise ValueError(f"nested too deeply: {shorten(text)}") from None
    except ValueError:
        # int() of Python refuses what has thousands of digits.
        raise ValueError(f"a number with too many digits: {shorten(text)}") from None
