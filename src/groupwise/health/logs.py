"""Logs as files: JSON lines, CSV, trainer_state.json of TRL, what trainers print, and event files of TensorBoard."""

import ast
import csv
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from groupwise.errors import DataError
from groupwise.health.steps import StepRow, rows_of

Lines = Sequence[Mapping[str, Any]]

ESCAPE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
# `name:number`, behind what Ray puts before a line, or ` - `. numpy 2 prints its own numbers with their type.
NUMBER = r"-?(?:\d[\d.e+\-]*|nan|inf)"
PRINTED = re.compile(rf"(?:^|[ )\]])([\w/\-@.+]+):(?:np\.\w+\(({NUMBER})\)|({NUMBER}))(?= - |\s*$)")


def read_steps(path: Path) -> list[StepRow]:
    """The steps of a run's folder or of a file: JSON lines, CSV, trainer_state.json of TRL, verl's console log, or
    event files of TensorBoard.

    Raises:
        DataError: for what is none of these.
    """
    file = path / "metrics.jsonl" if path.is_dir() else path
    events = [path] if ".tfevents." in path.name else sorted(path.rglob("*.tfevents.*")) if path.is_dir() else []
    if events and not (path.is_dir() and file.is_file()):
        return rows_of(_scalars(events), str(path))
    if not file.is_file():
        raise DataError(f"'{path}' is neither the folder of a run with metrics.jsonl nor a file")
    try:
        text = file.read_text(encoding="utf-8-sig", errors="replace")
    except OSError as error:
        raise DataError(f"'{file}' cannot be read: {error}") from error
    return rows_of(_lines(text), str(path))


def _lines(text: str) -> Lines:
    stripped = text.lstrip()
    if stripped[:1] in ("{", "["):
        try:
            whole = json.loads(text)
        except ValueError:
            whole = None
        if isinstance(whole, dict):
            whole = whole["log_history"] if isinstance(whole.get("log_history"), list) else [_flat(whole)]
        if isinstance(whole, list):
            return [line for line in whole if isinstance(line, dict)]
        if '"log_history"' in text:
            # Cut off while it was written: its entries are flat.
            cut = re.findall(r"\{[^{}]*\}", text)
            return [line for part in cut if (line := _json(part))]
    parts = text.splitlines()
    for read in (_json, _dict, _console):
        found = [line for part in parts if (line := read(part))]
        if found:
            return [{"step": number, **line} for number, line in enumerate(found, 1)] if read is _dict else found
    return list(_table(parts))


def _json(text: str) -> dict[str, Any]:
    if not text.lstrip().startswith("{"):
        return {}
    try:
        made = json.loads(text)
    except ValueError:
        return {}
    return _flat(made) if isinstance(made, dict) else {}


def _flat(line: dict[str, Any]) -> dict[str, Any]:
    """verl's file logger has the numbers one level below."""
    inner = line.get("data")
    return {"step": line.get("step"), **inner} if isinstance(inner, dict) else line


def _dict(text: str) -> dict[str, Any]:
    """What transformers prints for each logged step, without the number of the step."""
    found = re.search(r"\{'.*\}", text)
    if not found or "'reward'" not in found[0]:
        return {}
    try:
        made = ast.literal_eval(re.sub(r"\b(nan|inf)\b", "None", found[0]))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return {}
    return made if isinstance(made, dict) else {}


def _console(text: str) -> dict[str, Any]:
    """`step:3 - actor/entropy:0.21 - …`, as verl prints it."""
    made = {name: typed or bare for name, typed, bare in PRINTED.findall(ESCAPE.sub("", text))}
    return made if "step" in made and len(made) > 3 else {}


def _table(lines: list[str]) -> Iterator[Mapping[str, Any]]:
    head = lines[0] if lines else ""
    separator = max(",;\t", key=head.count)
    rows = list(csv.DictReader(lines, delimiter=separator))
    # The last line of a run that goes on may be half written.
    if rows and None in rows[-1].values():
        rows.pop()
    yield from rows


def _scalars(files: Sequence[Path]) -> Lines:
    """Later files are of the resumed run."""
    try:
        accumulator = import_module("tensorboard.backend.event_processing.event_accumulator")
    except ModuleNotFoundError as error:
        raise DataError(
            f"'{files[0]}' is an event file of TensorBoard: pip install 'groupwise[tensorboard]'"
        ) from error
    steps: list[dict[str, Any]] = []
    for file in sorted(files, key=lambda one: one.name):
        read = accumulator.EventAccumulator(str(file), size_guidance={"scalars": 0, "tensors": 0}).Reload()
        own: dict[int, dict[str, Any]] = {}
        for name in read.Tags()["scalars"]:
            for event in read.Scalars(name):
                own.setdefault(event.step, {"step": event.step})[name] = event.value
        for name in read.Tags()["tensors"]:
            for event in read.Tensors(name):
                if event.tensor_proto.float_val and not event.tensor_proto.tensor_shape.dim:
                    own.setdefault(event.step, {"step": event.step})[name] = event.tensor_proto.float_val[0]
        steps += [own[step] for step in sorted(own)]
    return steps
