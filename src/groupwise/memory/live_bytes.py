"""The bytes of tensors that are alive, operation by operation, on any device and without its allocator."""

import weakref
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class LiveBytes(TorchDispatchMode):
    """Counts the tensors that are made inside of this context, in the backward pass too.

    now: bytes alive. timeline: the same behind each operation. What one operation takes and gives back inside of itself
    is not seen.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now = 0
        self.timeline: list[int] = []
        self._sizes: dict[int, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for made in _storages((result,)):
            key = made._cdata
            if key not in self._sizes and all(key != given._cdata for given in _storages((*args, kwargs))):
                self._sizes[key] = made.nbytes()
                self.now += made.nbytes()
                weakref.finalize(made, self._freed, key)
        self.timeline.append(self.now)
        return result

    def _freed(self, key: int) -> None:
        self.now -= self._sizes.pop(key, 0)


def _storages(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value.untyped_storage()
        elif isinstance(value, list | tuple):
            yield from _storages(value)
        elif isinstance(value, dict):
            yield from _storages(value.values())
