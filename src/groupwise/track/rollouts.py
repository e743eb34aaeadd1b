"""The completions of a step as a file: a gzip member of JSON lines for each group, within what the run may use.

A share of `run.rollouts_max_megabytes` falls to each step that is still to be written: what is left by the number of
steps that are left. Where the groups of a step need more, some are left out: they come in the order of a draw from
(seed, step, position), until the first that no longer fits. So the bound holds whatever the run does, the choice looks
at nothing but the draw, and it depends on neither the number of ranks nor where the run was interrupted.
"""

import gzip
import json
import math
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROLLOUTS = "rollouts"
LEVEL = 6
_NAME = re.compile(r"step_(\d+)\.jsonl(\.gz)?")

Row = dict[str, Any]


@dataclass(frozen=True)
class Rollouts:
    """The groups of a step that are kept, each compressed, and how many there were."""

    groups: tuple[bytes, ...]
    sampled: int

    @property
    def content(self) -> bytes:
        """Of the file."""
        return b"".join(self.groups)

    def rows(self) -> list[Row]:
        """A record of each completion."""
        return unpacked(self.content)


def name_of(step: int) -> str:
    """The file of a step, within the folder of the run."""
    return f"{ROLLOUTS}/step_{step:06d}.jsonl.gz"


def rollout_files(folder: Path) -> dict[int, Path]:
    """The files of a run by their steps, in order; those of older versions are not compressed."""
    found = [(_NAME.fullmatch(path.name), path) for path in (folder / ROLLOUTS).glob("step_*")]
    return dict(sorted((int(match[1]), path) for match, path in found if match))


def share(max_megabytes: float, used_bytes: int, steps_left: int) -> int:
    """The bytes that the file of a step may have, itself among those that are left."""
    return max(0, math.floor((max_megabytes * 1e6 - used_bytes) / max(steps_left, 1)))


def packed(rows: Sequence[Row]) -> bytes:
    """The rows of one group, compressed; the same bytes for the same rows."""
    return gzip.compress("".join(f"{_line(row)}\n" for row in rows).encode(errors="backslashreplace"), LEVEL, mtime=0)


def within(size_bytes: int, drawn: Iterable[tuple[int, int, bytes]]) -> list[tuple[int, int, bytes]]:
    """The groups (draw, position, content) in the order of their draws, until the first that no longer fits."""
    kept, left = [], size_bytes
    for group in drawn:
        left -= len(group[2])
        if left < 0:
            break
        kept.append(group)
    return kept


def unpacked(content: bytes) -> list[Row]:
    """The rows of a file up to where it is cut off, as a process leaves one that it is writing or was killed at."""
    lines = bytearray()
    while content:
        member = zlib.decompressobj(wbits=31)
        try:
            lines += member.decompress(content)
        except zlib.error:
            break
        content = member.unused_data
    return whole_rows(bytes(lines))


def read_rollouts(path: Path) -> list[Row]:
    """The rows of a file, compressed or not, as far as they are whole."""
    content = path.read_bytes()
    return unpacked(content) if path.suffix == ".gz" else whole_rows(content)


def whole_rows(content: bytes) -> list[Row]:
    """The rows in front of the first line that is none."""
    rows: list[Row] = []
    for line in content.split(b"\n"):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            break
        if not isinstance(row, dict):
            break
        rows.append(row)
    return rows


def finite(value: Any) -> Any:
    """The same value with numbers that JSON cannot hold as text."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return value


def _line(row: Row) -> str:
    try:
        return json.dumps(row, ensure_ascii=False, allow_nan=False)
    except ValueError:
        return json.dumps(finite(row), ensure_ascii=False, allow_nan=False)
