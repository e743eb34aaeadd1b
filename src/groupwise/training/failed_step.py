"""What a step that is thrown away leaves behind: its batch, to look at, and where sound weights are."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor

from groupwise.errors import WriteError
from groupwise.grading.graded_group import GradedGroup
from groupwise.ranks import Ranks
from groupwise.track import disk
from groupwise.training.checkpoint import list_checkpoints
from groupwise.training.step_batch import StepBatch

FAILED_STEP = "failed_step"


def save_failed_step(
    folder: Path, batch: StepBatch, sampled: Sequence[GradedGroup], step: int, reason: str, ranks: Ranks
) -> str:
    """Write this rank's batch to failed_step.safetensors; a sentence about it.

    Its tensors are named as in `StepBatch`: ids of prompts and answers end to end with their lengths, log-
    probabilities, advantages, rewards. The header has the step, the reason, and the ids of the problems sampled.
    """
    path = folder / (f"{FAILED_STEP}.safetensors" if ranks.size == 1 else f"{FAILED_STEP}.{ranks.rank}.safetensors")
    ids = {"prompt_ids_P": batch.prompt_ids_P, "token_ids_B": batch.token_ids_B}
    tensors: dict[str, Tensor] = {}
    for name, parts in ids.items():
        tensors[name] = torch.from_numpy(np.concatenate([*parts, np.empty(0, np.int64)]).astype(np.int64))
        tensors[f"{name}/lengths"] = torch.tensor([len(part) for part in parts], dtype=torch.int64)
    tensors |= {name: value for name, value in vars(batch).items() if isinstance(value, Tensor)}
    problems = " ".join(group.problem.id for group in sampled)
    header = {"step": str(step), "reason": reason, "problems": problems}
    # A copy of each: some of them share their storage.
    copies = {name: tensor.detach().cpu().clone() for name, tensor in tensors.items()}
    try:
        disk.fill(path, lambda: save_file(copies, path, header))
    except WriteError as error:
        return f"Its batch could not be written: {error}."
    return f"Its batch is in {path}."


def sound_before(checkpoints: Path, step: int) -> str:
    """A sentence about the newest checkpoint of this step or an earlier one."""
    found = [path for path in list_checkpoints(checkpoints) if int(path.name.removeprefix("step_")) <= step]
    if not found:
        return "No checkpoint was made before: the model that the run began with is as it was."
    return f"The last sound checkpoint is {found[-1]}."
