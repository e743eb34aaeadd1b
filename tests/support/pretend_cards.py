"""A machine that has so many CUDA devices, as far as torch says; nothing can be computed on them."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from unittest.mock import patch

import torch


@contextmanager
def cuda_devices(count: int, current: int = 0) -> Iterator[list[int]]:
    """The indices that were made the current device."""
    chosen: list[int] = []
    says = {
        "is_available": lambda: count > 0,
        "current_accelerator": lambda: torch.device("cuda") if count else None,
        "device_count": lambda: count,
        "current_device_index": lambda: current,
        "set_device_index": chosen.append,
    }
    module = SimpleNamespace(get_device_name=lambda index: f"card {index}")
    with ExitStack() as stack:
        for name, answer in says.items():
            stack.enter_context(patch.object(torch.accelerator, name, answer))
        stack.enter_context(patch.object(torch, "get_device_module", lambda _: module))
        yield chosen
