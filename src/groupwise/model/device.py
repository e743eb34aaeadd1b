"""Where a model is, and what it computes in there. Nothing else asks which devices a machine has."""

import os
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import PreTrainedModel

from groupwise.config import TrainConfig
from groupwise.errors import UsageError

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Chosen:
    """The device of a process. name: of the hardware, empty for a CPU."""

    device: torch.device
    name: str = ""

    def shown(self, compute_dtype: str) -> str:
        """The device with its arithmetic, for the log."""
        products = f"products in {compute_dtype}, weights in float32"
        if self.device.type == "cuda":
            allowed = torch.backends.cuda.matmul.allow_tf32
            products += f", TF32 {'on' if allowed else 'off'}"
        return f"{self.device}{f' ({self.name})' if self.name else ''}: {products}"


def choose_device(name: str, ranks: int = 1) -> Chosen:
    """The device that `model.device` names, which of several processes on a machine each has its own of.

    ranks: processes of the run; `LOCAL_RANK`, as torchrun sets it, is then the number of the device.

    Raises:
        UsageError: if it is not there, or if several ranks would share it.
    """
    accelerator = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    kind, _, number = name.partition(":")
    if kind == "auto":
        kind = "cpu" if accelerator is None else accelerator.type
    if kind == "cpu":
        return Chosen(CPU)
    if accelerator is None or accelerator.type != kind:
        found = "no accelerator" if accelerator is None else f"{accelerator.type} alone"
        raise UsageError(
            f"model.device={name}: torch {torch.__version__} finds {found} on this machine; set model.device=auto for "
            "what is there, or install the torch that is built for the device"
        )
    count = torch.accelerator.device_count()
    if number and ranks > 1:
        raise UsageError(f"model.device={name} with {ranks} ranks: set {kind}, and each rank takes the next device")
    local = os.environ.get("LOCAL_RANK", "0") if ranks > 1 else torch.accelerator.current_device_index()
    index = int(number or local)
    if index >= count:
        asked = f"model.device={name}" if number else f"LOCAL_RANK={index}"
        raise UsageError(
            f"{asked}: this machine has {count} {'device' if count == 1 else 'devices'} of the kind {kind}, counted "
            f"from 0; {'name one of them' if number else f'start {count} ranks on it at most'}"
        )
    torch.accelerator.set_device_index(index)
    module = torch.get_device_module(kind)
    named = module.get_device_name(index) if hasattr(module, "get_device_name") else ""
    return Chosen(torch.device(kind, index), named)


def move(model: PreTrainedModel, device: torch.device) -> None:
    """To a device. A head that is the embedding stays so, also where torch moves each tensor by itself."""
    head, embedding = model.get_output_embeddings(), model.get_input_embeddings()
    is_tied = head.weight is embedding.weight
    torch.nn.Module.to(model, device)
    if is_tied:
        head.weight = embedding.weight


def settled(config: TrainConfig, device: torch.device) -> TrainConfig:
    """The options with the arithmetic of the device: `auto` is bfloat16 on an accelerator, float32 on a CPU."""
    if config.model.compute_dtype != "auto":
        return config
    dtype = "float32" if device.type == "cpu" else "bfloat16"
    return config.model_copy(update={"model": config.model.model_copy(update={"compute_dtype": dtype})})


def is_left_open(config: TrainConfig, device: torch.device) -> bool:
    """Whether micro-batches may be made larger than the default, which suits a CPU."""
    return device.type != "cpu" and "micro_batch_tokens" not in config.batch.model_fields_set


def sent(tensor: Tensor, device: torch.device) -> Tensor:
    """The tensor on a device. The process does not wait for the copy; what the device does next does."""
    if device.type == "cpu":
        return tensor
    # From memory that can be moved by the system the copy would go through a buffer, and the process wait for it.
    is_pinned = device.type == "cuda" and tensor.device.type == "cpu"
    return (tensor.pin_memory() if is_pinned else tensor).to(device, non_blocking=is_pinned)


def wait_for(device: torch.device) -> None:
    """Until the device has done what it was given, so that a clock counts it."""
    if device.type != "cpu":
        torch.accelerator.synchronize(device)


def free_device_bytes(device: torch.device) -> int | None:
    """Bytes that this process may still take on an accelerator; None where it does not tell."""
    module = torch.get_device_module(device)
    if device.type == "mps":
        return int(torch.mps.recommended_max_memory() - torch.mps.driver_allocated_memory())
    if not hasattr(module, "mem_get_info"):
        return None
    # What torch's allocator keeps without using it is free as well.
    return int(module.mem_get_info(device)[0] + module.memory_reserved(device) - module.memory_allocated(device))


def give_back_memory() -> None:
    """What torch's allocator keeps without using it goes back to the device."""
    if torch.accelerator.is_available():
        torch.accelerator.empty_cache()
