"""Tensors that ranks divide among them, in one folder of safetensors files, one of each rank, by DCP of torch.

Any number of ranks reads them, whatever number wrote them, each the rows that it holds. Nothing is pickled on the disk.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader, HuggingFaceStorageWriter
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from groupwise.errors import DataError, first_line
from groupwise.model.load import Policy
from groupwise.ranks import Ranks
from groupwise.track import disk

# The files of a checkpoint of whole tensors, and what their names begin with in files of divided ones.
WEIGHTS, OPTIMIZER, REFERENCE = "weights.safetensors", "optimizer.safetensors", "reference.safetensors"

# As the writer of torch names them.
_WRITTEN = "shard-*.safetensors"


def are_in(folder: Path) -> bool:
    """Whether the tensors in a folder are divided ones."""
    return any(folder.glob(_WRITTEN))


def write(place: Path, tensors: Mapping[str, Mapping[str, Tensor]], savers: Ranks) -> list[str]:
    """Write the part of every tensor that this rank holds; the names of its files. All ranks come here together.

    Raises:
        WriteError: where the disk refuses, of this rank or another one.
    """
    flat = {f"{file}/{name}": tensor for file, named in tensors.items() for name, tensor in named.items()}
    writer = HuggingFaceStorageWriter(str(place), save_distributed=True)

    def act() -> None:
        try:
            save(flat, storage_writer=writer, process_group=savers.group)
        except CheckpointException as error:
            causes = [cause for cause, _ in error.failures.values()]
            refused = next((cause for cause in causes if isinstance(cause, OSError)), None)
            raise refused or RuntimeError(f"the checkpoint cannot be written: {causes[0]}") from error

    disk.fill(place, act)
    return [path.name for path in place.glob(f"shard-{savers.rank + 1:05d}-*.safetensors")]


def read(path: Path, policy: Policy, kept: Mapping[str, Tensor]) -> dict[str, dict[str, Tensor]]:
    """The tensors of a checkpoint by the files that whole ones would be in; divided as the policy's weights are.

    kept: the tensors of a reference, none where it is not read.

    Raises:
        DataError: where a file cannot be read, or the model has no such weights.
    """
    trained: dict[str, Tensor] = dict(policy.trainable())
    like: dict[str, Mapping[str, Tensor]] = {WEIGHTS: trained, OPTIMIZER: trained, REFERENCE: kept}
    shards = policy.shards
    reader = HuggingFaceStorageReader(str(path))
    files: dict[str, dict[str, Tensor]] = {}
    try:
        stated: Mapping[str, Any] = reader.read_metadata().state_dict_metadata
        for key, size in ((key, tuple(entry.size)) for key, entry in stated.items()):
            file, _, name = key.partition("/")
            given = like[file].get(name.partition("/")[2] if file == OPTIMIZER else name)
            if file == REFERENCE and not kept:
                continue
            if given is None or size not in (tuple(given.shape), ()):
                raise DataError(
                    f"the checkpoint '{path}' does not fit the model '{policy.name}': other weights or shapes"
                )
            made = torch.empty_like(given.detach()) if size else torch.zeros(())
            files.setdefault(file, {})[name] = made
        flat = {f"{file}/{name}": tensor for file, named in files.items() for name, tensor in named.items()}
        if shards is None:
            load(flat, storage_reader=reader, no_dist=True)
        else:
            load(flat, storage_reader=reader, process_group=shards.savers.group)
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        raise DataError(f"'{path}' cannot be read: {first_line(error)}") from error
    except CheckpointException as error:
        causes = [cause for cause, _ in error.failures.values()]
        raise DataError(f"'{path}' cannot be read: {causes[0]}") from error
    return {WEIGHTS: {}, OPTIMIZER: {}, **files}
