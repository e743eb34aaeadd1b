"""Checkpoints: everything that the rest of the run depends on, in safetensors and JSON.

All random draws derive from (seed, purpose, step), so that the counters below are the whole state besides the tensors.
"""

import functools
import hashlib
import json
import re
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from pydantic import FiniteFloat, TypeAdapter
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from groupwise.errors import DataError, first_line
from groupwise.model.load import Policy
from groupwise.model.reference import own_weights
from groupwise.model.shards import like
from groupwise.options import NonNegativeInt
from groupwise.ranks import Ranks, announced
from groupwise.track import disk
from groupwise.track.journal import Record
from groupwise.training import shard_files
from groupwise.training.shard_files import OPTIMIZER, REFERENCE, WEIGHTS

FORMAT = 1
STATE, MANIFEST = "state.json", "manifest.json"
_NAME = re.compile(r"step_\d+")
ALONE = Ranks()


@dataclass
class TrainState:
    """Counters of a run.

    `step` steps are complete; `problem_position` is the next one of the stream. retired: ids of the problems that are
    not drawn again. entropy_coefficient: of the bonus in the next step. files: what the run had written by then, as
    `track.journal` records it. micro_batch_tokens: since memory ran out, 0 before. unmeasured: the metrics of the last
    step, where its measurement on held-out problems is still to be made.
    """

    step: NonNegativeInt = 0
    problem_position: NonNegativeInt = 0
    optimizer_updates: NonNegativeInt = 0
    sampled_tokens: NonNegativeInt = 0
    wall_seconds: FiniteFloat = 0.0
    cpu_seconds: FiniteFloat = 0.0
    retired: list[str] = field(default_factory=list)
    entropy_coefficient: FiniteFloat = 0.0
    files: Record = field(default_factory=dict)
    micro_batch_tokens: int = 0
    unmeasured: dict[str, Any] = field(default_factory=dict)


def tensors_of(
    policy: Policy, moved_reference: Policy | None, optimizer: torch.optim.Optimizer
) -> dict[str, dict[str, Tensor]]:
    """The tensors of a checkpoint by the files that they belong into: those of the run themselves, not copies.

    `moved_reference` is the reference where it is no longer the policy that the run began with.
    """
    files = {
        WEIGHTS: {name: weight.detach() for name, weight in policy.trainable()},
        OPTIMIZER: {
            f"{key}/{name}": tensor.detach()
            for name, weight in policy.trainable()
            for key, tensor in optimizer.state.get(weight, {}).items()
        },
    }
    if moved_reference is not None:
        files[REFERENCE] = own_weights(moved_reference)
    return files


def save_checkpoint(
    folder: Path,
    tensors: Mapping[str, Mapping[str, Tensor]],
    state: TrainState,
    keep: int,
    savers: Ranks = ALONE,
) -> Path:
    """Write the checkpoint of `state.step`, and remove what is older than the newest `keep` sound ones.

    tensors: as `tensors_of` gives them. savers: the ranks that divide the tensors among them, all of which come here
    and write their parts into one folder.

    Raises:
        WriteError: and then what was there before is untouched.
        RankError: where another rank could not write its part.
    """
    path, leads = folder / f"step_{state.step:06d}", savers.rank == 0
    with announced(savers):
        if savers.first(lambda: fault_of(path) is not None, "whether the step is to be saved"):
            with disk.folder_aside(path) if leads else nullcontext() as aside:
                place = Path(savers.first(lambda: str(aside), "the folder of the checkpoint"))
                written = (
                    _write_whole(place, tensors) if savers.size == 1 else shard_files.write(place, tensors, savers)
                )
                own = {name: _sha256(place / name) for name in written}
                digests = {name: digest for part in savers.gather(own) for name, digest in part.items()}
                if leads:
                    disk.write(place / STATE, (json.dumps(asdict(state), indent=2) + "\n").encode())
                    stated = {"format": FORMAT, "step": state.step, "tensors": sorted(digests)}
                    stated["sha256"] = {**digests, STATE: _sha256(place / STATE)}
                    disk.write(place / MANIFEST, (json.dumps(stated, indent=2) + "\n").encode())
        if leads:
            prune(folder, keep)
        savers.meet("the end of the checkpoint")
    return path


def _write_whole(place: Path, tensors: Mapping[str, Mapping[str, Tensor]]) -> list[str]:
    for name, named in tensors.items():
        contiguous = {key: tensor.contiguous() for key, tensor in named.items()}
        disk.fill(place / name, functools.partial(save_file, contiguous, place / name))
    return list(tensors)


def prune(folder: Path, keep: int) -> None:
    """Remove what is older than the newest `keep` sound checkpoints. A damaged one that is newer is left as it is."""
    sound = [path for path in list_checkpoints(folder) if fault_of(path) is None]
    for path in list_checkpoints(folder):
        if sound and _step(path) < _step(sound[-keep:][0]):
            disk.discard(path)


def list_checkpoints(folder: Path) -> list[Path]:
    """All checkpoints, oldest first, damaged ones too."""
    found = [path for path in folder.glob("step_*") if path.is_dir() and _NAME.fullmatch(path.name)]
    return sorted(found, key=_step)


def _step(path: Path) -> int:
    return int(path.name.removeprefix("step_"))


def newest_sound_checkpoint(folder: Path, expected: str = "") -> tuple[Path | None, list[str]]:
    """The newest checkpoint whose files are what was written, and why newer ones were passed over.

    None if none was written yet: such a run resumes from its beginning. expected: why there has to be one, if so.

    Raises:
        DataError: if there are checkpoints, but every one is damaged, or if they are gone.
    """
    rejected: list[str] = []
    for path in reversed(list_checkpoints(folder)):
        fault = fault_of(path)
        if fault is None:
            return path, rejected
        rejected.append(f"{path.name}: {fault}")
    if rejected:
        raise DataError(
            f"every checkpoint in '{folder}' is damaged ({'; '.join(rejected)}); nothing was changed. Put one back, or "
            "begin a new run"
        )
    if expected:
        raise DataError(
            f"'{folder}' has no checkpoint, although {expected}; nothing was changed. Put one back, or begin a new run"
        )
    return None, []


def load_checkpoint(
    path: Path, policy: Policy, reference: Policy | None, optimizer: torch.optim.Optimizer
) -> TrainState:
    """Put weights, optimizer and a moved reference back in place and return the counters.

    Raises:
        DataError: if the checkpoint does not fit the model.
    """
    trained = dict(policy.trainable())
    kept = {} if reference is None else own_weights(reference)
    files = shard_files.read(path, policy, kept) if shard_files.are_in(path) else _read_whole(path)
    weights, moments = files[WEIGHTS], files[OPTIMIZER]
    states = {key: trained.get(key.partition("/")[2]) for key in moments}
    # A moment has the shape of its weight, a count none.
    fits = weights.keys() == trained.keys() and all(weights[name].shape == trained[name].shape for name in trained)
    if not fits or any(w is None or moments[key].shape not in (w.shape, ()) for key, w in states.items()):
        raise DataError(f"the checkpoint '{path}' does not fit the model '{policy.name}': other weights or shapes")
    with torch.no_grad():
        for name, weight in trained.items():
            weight.copy_(like(weights[name], weight))
    if reference is not None and REFERENCE in files:
        stored = files[REFERENCE]
        if stored.keys() != kept.keys() or any(stored[name].shape != kept[name].shape for name in kept):
            raise DataError(f"'{path / REFERENCE}' does not fit the model '{policy.name}': other weights or shapes")
        with torch.no_grad():
            for name, tensor in kept.items():
                tensor.copy_(like(stored[name], tensor))
    for name, weight in trained.items():
        own = {key.partition("/")[0]: tensor for key, tensor in moments.items() if key.partition("/")[2] == name}
        if own:
            optimizer.state[weight] = {k: like(t, weight) if t.ndim else t.to(weight.device) for k, t in own.items()}
    return read_state(path)


def _read_whole(path: Path) -> dict[str, dict[str, Tensor]]:
    return {name: _load(path / name) for name in (WEIGHTS, OPTIMIZER, REFERENCE) if (path / name).is_file()}


def _load(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise DataError(f"'{path}' cannot be read: {first_line(error)}") from error


def fault_of(path: Path) -> str | None:
    """What is wrong with a checkpoint; None for a sound one. What was found sound is read again once it changes."""
    try:
        files = {file.name: file.stat() for file in path.iterdir()}
    except OSError as error:
        return f"it cannot be read ({error.strerror})"
    marks = tuple((name, stat.st_ino, stat.st_size, stat.st_mtime_ns) for name, stat in sorted(files.items()))
    if _sound.get(path) == marks:
        return None
    fault = _fault(path)
    if fault is None:
        _sound[path] = marks
    return fault


# By path: what told the files of a checkpoint that was found sound.
_sound: dict[Path, tuple[tuple[str, int, int, int], ...]] = {}


def _fault(path: Path) -> str | None:
    if not (path / MANIFEST).is_file():
        return f"{MANIFEST} is missing"
    try:
        manifest = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
        if manifest["format"] != FORMAT:
            return f"format {manifest['format']}, this version reads {FORMAT}"
        stated = dict(manifest["sha256"])
        for name in (*manifest.get("tensors", (WEIGHTS, OPTIMIZER)), STATE):
            if name not in stated:
                return f"{MANIFEST} does not name {name}"
        for name, digest in stated.items():
            if name != Path(name).name:
                return f"{MANIFEST} names {name!r}, which is no file of the checkpoint"
            if not (path / name).is_file():
                return f"{name} is missing"
            if _sha256(path / name) != digest:
                return f"{name} is damaged"
        step = read_state(path).step
        if path.name != f"step_{step:06d}":
            return f"it is that of step {step}"
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        return f"its {MANIFEST} or {STATE} cannot be read ({type(error).__name__})"
    return None


def read_state(path: Path) -> TrainState:
    """The counters of a checkpoint. One of an older version lacks some. Raises ValueError for what is no count."""
    state = TypeAdapter(TrainState).validate_json((path / STATE).read_bytes(), strict=True)
    # NaN is read there, and no line of metrics can hold it.
    json.dumps(state.unmeasured, allow_nan=False)
    return state


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
