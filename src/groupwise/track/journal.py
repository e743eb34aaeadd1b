"""The files that a run appends to: whole lines, known by size and digest, and cut back to a checkpoint on resuming."""

import hashlib
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from groupwise.errors import WriteError
from groupwise.options import NonNegativeInt
from groupwise.track import disk
from groupwise.track.rollouts import ROLLOUTS, name_of, rollout_files

METRICS, FAILURES = "metrics.jsonl", "failures.jsonl"

Record = dict[str, tuple[NonNegativeInt, str]]
"""Size in bytes and SHA-256 of each file, by its name in the folder of the run."""


@dataclass
class _File:
    size_bytes: int = 0
    digest: Any = field(default_factory=hashlib.sha256)

    @staticmethod
    def of(content: bytes) -> "_File":
        return _File(len(content), hashlib.sha256(content))


class Journal:
    """metrics.jsonl, failures.jsonl and the files of rollouts/ in the folder of a run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[str, _File] = {}
        self._unsynced: set[str] = set()

    def append(self, name: str, lines: Sequence[str]) -> None:
        """Append lines, all of them or none. Raises WriteError."""
        file = self._files.setdefault(name, _File())
        path, content = self._folder / name, _encoded(lines)
        self._unsynced.add(name)
        try:
            disk.append(path, content)
        except WriteError:
            # A full disk may have taken a part.
            with suppress(WriteError):
                if path.exists():
                    disk.cut(path, file.size_bytes)
            raise
        file.size_bytes += len(content)
        file.digest.update(content)

    @property
    def rollouts_bytes(self) -> int:
        """Of all files of rollouts/."""
        return sum(file.size_bytes for name, file in self._files.items() if name.startswith(f"{ROLLOUTS}/"))

    def write_rollouts(self, step: int, content: bytes) -> None:
        """Write the file of a step. Raises WriteError."""
        name = name_of(step)
        disk.write(self._folder / name, content)
        self._unsynced.add(name)
        self._files[name] = _File.of(content)

    def record(self) -> Record:
        """What a checkpoint of this moment has to know of the files."""
        return {name: (file.size_bytes, file.digest.hexdigest()) for name, file in sorted(self._files.items())}

    def sync(self) -> None:
        """Make sure that the disk has all of it. Raises WriteError."""
        for name in sorted(self._unsynced):
            disk.sync(self._folder / name)
        if self._unsynced:
            disk.sync(self._folder)
            disk.sync(self._folder / ROLLOUTS)
        self._unsynced.clear()

    def cut_back(self, step: int, record: Record) -> list[str]:
        """Put the files back to what they were after a step, and say what was lost, damaged or removed.

        record: of the checkpoint; empty where it has none, and then the lines themselves say where to cut. A file that
        is damaged before that place is kept under another name, and its whole lines are written anew.
        """
        remarks: list[str] = []
        self._files.clear()
        if not (self._folder / ROLLOUTS).is_dir():
            disk.make_folder(self._folder / ROLLOUTS)
        for name in (METRICS, FAILURES):
            remarks += self._cut_stream(name, step, record.get(name))
        kept = {path.name: path for path in (self._folder / ROLLOUTS).glob("step_*.jsonl*")}
        sound = {path.name for number, path in rollout_files(self._folder).items() if number <= step}
        for name in sorted(kept.keys() - sound):
            disk.remove(kept.pop(name))
        stated = {Path(name).name: value for name, value in record.items() if name.startswith(f"{ROLLOUTS}/")}
        remarks += [f"{ROLLOUTS}/{name} is missing" for name in sorted(stated.keys() - kept.keys())]
        for name, path in sorted(kept.items()):
            file = _File.of(path.read_bytes())
            self._files[f"{ROLLOUTS}/{name}"] = file
            if name in stated and (file.size_bytes, file.digest.hexdigest()) != stated[name]:
                remarks.append(f"{ROLLOUTS}/{name} is damaged; it is left as it is")
        return remarks

    def _cut_stream(self, name: str, step: int, stated: tuple[int, str] | None) -> list[str]:
        path = self._folder / name
        if not path.is_file():
            lost = stated is not None and stated[0] > 0
            lost = lost or (stated is None and name == METRICS and step > 0)
            return [f"{name} is missing: what it held of the first {step} steps is lost"] if lost else []
        content = path.read_bytes()
        if stated is not None and hashlib.sha256(content[: stated[0]]).hexdigest() == stated[1]:
            sound, remarks = content[: stated[0]], list[str]()
        else:
            sound, remarks = self._salvaged(name, step, content, stated is not None)
        if len(sound) < len(content) and content.startswith(sound):
            lines = content[len(sound) :].count(b"\n") or 1
            what = "1 line" if lines == 1 else f"{lines} lines"
            remarks.append(f"{name} is cut back to step {step}: {what} behind it removed")
            disk.cut(path, len(sound))
            disk.sync(path)
        elif sound != content:
            disk.write_whole(path, sound)
        self._files[name] = _File.of(sound)
        return remarks

    def _salvaged(self, name: str, step: int, content: bytes, is_damaged: bool) -> tuple[bytes, list[str]]:
        """The whole lines of the first steps, and, where others stood between them, what is wrong; kept aside then."""
        kept, steps, faulty, is_behind = list[bytes](), set[int](), list[int](), False
        found = content.split(b"\n")
        for number, line in enumerate(found, start=1):
            row = _row(line)
            if row is not None and row["step"] <= step:
                is_double = name == METRICS and row["step"] in steps
                # A fault behind the last line that is kept is only what is cut.
                is_damaged |= bool(faulty) or is_behind or is_double
                steps.add(row["step"])
                kept += [] if is_double else [line + b"\n"]
            elif row is not None:
                is_behind = True
            elif number < len(found) or line:
                faulty.append(number)
        missing = sorted(set(range(1, step + 1)) - steps) if name == METRICS else []
        if not (is_damaged or missing):
            return b"".join(kept), []
        aside = self._kept_aside(name, content)
        where = f" in line {faulty[0]}" if faulty else ""
        lost = f"; the steps {_ranges(missing)} are lost from it" if missing else ""
        return b"".join(kept), [
            f"{name} is damaged{where} before step {step}{lost}: as it was found, it is kept as {aside.name}"
        ]

    def _kept_aside(self, name: str, content: bytes) -> Path:
        stem, number = Path(name).stem, 1
        while (aside := self._folder / f"{stem}.damaged-{number}.jsonl").exists():
            if aside.read_bytes() == content:
                return aside
            number += 1
        disk.write_whole(aside, content)
        return aside


def last_step(folder: Path) -> int:
    """The last step that metrics.jsonl or a file of rollouts/ is of; 0 without any."""
    metrics = folder / METRICS
    rows = map(_row, metrics.read_bytes().split(b"\n")) if metrics.is_file() else ()
    return max([0, *(int(row["step"]) for row in rows if row), *rollout_files(folder)])


def _encoded(lines: Sequence[str]) -> bytes:
    """Lines of JSON. Half of a character, which no UTF-8 can hold, becomes its escape."""
    return "".join(f"{line}\n" for line in lines).encode(errors="backslashreplace")


def _row(line: bytes) -> dict[str, Any] | None:
    """A line with its step, or None where it is cut off or damaged."""
    try:
        row = json.loads(line)
        return row if isinstance(row, dict) and isinstance(row["step"], int) else None
    except (ValueError, KeyError, RecursionError):
        return None


def _ranges(numbers: Sequence[int]) -> str:
    """`1-3, 7`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)
