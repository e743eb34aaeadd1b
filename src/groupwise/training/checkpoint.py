"""Checkpoints: everything that the rest of the run depends on, in safetensors and JSON.

All random draws derive from (seed, purpose, step), so that the counters below are the whole state besides the tensors.
"""

import hashlib
import json
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from groupwise.errors import DataError
from groupwise.model.load import Policy
from groupwise.track.atomic_files import folder_aside, remove_tree

FORMAT = 1
WEIGHTS, OPTIMIZER, REFERENCE = "weights.safetensors", "optimizer.safetensors", "reference.safetensors"
STATE, MANIFEST = "state.json", "manifest.json"


@dataclass
class TrainState:
    """Counters of a run.

    `step` steps are complete; `problem_position` is the next one of the stream. retired: ids of the problems that are
    not drawn again. entropy_coefficient: of the bonus in the next step.
    """

    step: int = 0
    problem_position: int = 0
    optimizer_updates: int = 0
    sampled_tokens: int = 0
    wall_seconds: float = 0.0
    cpu_seconds: float = 0.0
    retired: list[str] = field(default_factory=list)
    entropy_coefficient: float = 0.0


def save_checkpoint(
    folder: Path,
    policy: Policy,
    moved_reference: Policy | None,
    optimizer: torch.optim.Optimizer,
    state: TrainState,
    keep: int,
) -> Path:
    """Write the checkpoint of `state.step` and remove all but the newest `keep`.

    `moved_reference` is the reference where it is no longer the policy that the run began with.
    """
    path = folder / f"step_{state.step:06d}"
    if path.exists() and _fault(path) is not None:
        remove_tree(path)
    if not path.exists():
        with folder_aside(path) as aside:
            save_file({name: weight.detach().contiguous() for name, weight in policy.trainable()}, aside / WEIGHTS)
            save_file(_optimizer_tensors(policy, optimizer), aside / OPTIMIZER)
            if moved_reference is not None:
                save_file(_named_weights(moved_reference), aside / REFERENCE)
            (aside / STATE).write_text(json.dumps(asdict(state), indent=2) + "\n")
            digests = {file.name: _sha256(file) for file in sorted(aside.iterdir())}
            (aside / MANIFEST).write_text(json.dumps({"format": FORMAT, "sha256": digests}, indent=2) + "\n")
    for old in list_checkpoints(folder)[:-keep]:
        remove_tree(old)
    return path


def list_checkpoints(folder: Path) -> list[Path]:
    """Complete checkpoints, oldest first."""
    return sorted(path for path in folder.glob("step_*") if (path / MANIFEST).is_file())


def newest_sound_checkpoint(folder: Path) -> tuple[Path | None, list[str]]:
    """The newest checkpoint whose files are what was written, and why newer ones were passed over.

    None if none was written yet: such a run resumes from its beginning.

    Raises:
        DataError: if there are checkpoints, but every one is damaged.
    """
    rejected: list[str] = []
    for path in reversed(list_checkpoints(folder)):
        fault = _fault(path)
        if fault is None:
            return path, rejected
        rejected.append(f"{path.name}: {fault}")
    if rejected:
        raise DataError(f"every checkpoint in '{folder}' is damaged ({'; '.join(rejected)})")
    return None, []


def load_checkpoint(
    path: Path, policy: Policy, reference: Policy | None, optimizer: torch.optim.Optimizer
) -> TrainState:
    """Put weights, optimizer and a moved reference back in place and return the counters.

    Raises:
        DataError: if the checkpoint does not fit the model.
    """
    weights = load_file(path / WEIGHTS)
    own = dict(policy.trainable())
    if weights.keys() != own.keys() or any(weights[name].shape != own[name].shape for name in own):
        raise DataError(f"the checkpoint '{path}' does not fit the model '{policy.name}': other weights or shapes")
    with torch.no_grad():
        for name, weight in own.items():
            weight.copy_(weights[name])
    if reference is not None and (path / REFERENCE).is_file():
        reference.model.load_state_dict(load_file(path / REFERENCE), strict=False)
    tensors = load_file(path / OPTIMIZER)
    for name, weight in own.items():
        stored = {key.split("/", 1)[0]: tensor for key, tensor in tensors.items() if key.split("/", 1)[1] == name}
        if stored:
            optimizer.state[weight] = stored
    stated = json.loads((path / STATE).read_text())
    return TrainState(**{field.name: stated[field.name] for field in fields(TrainState)})


def _named_weights(policy: Policy) -> dict[str, Tensor]:
    """All weights, shared ones once."""
    return {name: weight.detach().contiguous() for name, weight in policy.model.named_parameters()}


def _optimizer_tensors(policy: Policy, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    return {
        f"{key}/{name}": tensor.detach().contiguous()
        for name, weight in policy.trainable()
        for key, tensor in optimizer.state.get(weight, {}).items()
    }


def _fault(path: Path) -> str | None:
    try:
        manifest = json.loads((path / MANIFEST).read_text())
        if manifest["format"] != FORMAT:
            return f"format {manifest['format']}, this version reads {FORMAT}"
        for name, digest in manifest["sha256"].items():
            if not (path / name).is_file():
                return f"{name} is missing"
            if _sha256(path / name) != digest:
                return f"{name} is damaged"
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return f"its manifest cannot be read ({type(error).__name__})"
    return None


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
