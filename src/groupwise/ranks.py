"""The processes that train together. One process alone needs no process group."""

import json
from dataclasses import dataclass
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

T = TypeVar("T")


@dataclass(frozen=True)
class Ranks:
    """This process among those that train together; collectives are the identity for one process.

    rank: of this process, from 0. size: number of processes.
    """

    rank: int = 0
    size: int = 1

    @staticmethod
    def current() -> "Ranks":
        """Those of the initialised process group, or one process."""
        if dist.is_available() and dist.is_initialized():
            return Ranks(dist.get_rank(), dist.get_world_size())
        return Ranks()

    def share(self, items: list[T]) -> list[T]:
        """The items that this process works on: every size-th one."""
        return items[self.rank :: self.size]

    def sum(self, values: list[float]) -> list[float]:
        """Element-wise sum over all processes, in float64."""
        if self.size == 1:
            return values
        total = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(total)
        return [float(value) for value in total]

    def sum_gradients(self, gradients: list[Tensor]) -> None:
        """Sum gradients over all processes, in place."""
        if self.size > 1:
            for gradient in gradients:
                dist.all_reduce(gradient)

    def gather(self, value: T) -> list[T]:
        """What every process passed, in the order of the ranks. The value has to survive JSON: nothing is pickled."""
        if self.size == 1:
            return [value]
        own = torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8)
        return [json.loads(bytes(part.tolist())) for part in self._gather_rows(own)]

    def concatenate(self, own_N: Tensor) -> tuple[Tensor, slice]:
        """The rows of all processes end to end in the order of the ranks, and where those of this one are.

        The rows of several processes are float32, since one without rows does not know the precision of the others.
        """
        parts = [own_N] if self.size == 1 else self._gather_rows(own_N.float())
        start = sum(len(part) for part in parts[: self.rank])
        return torch.cat(parts), slice(start, start + len(own_N))

    def _gather_rows(self, own_N: Tensor) -> list[Tensor]:
        """The rows of each process, whose number may differ."""
        sizes = [torch.zeros(1, dtype=torch.int64) for _ in range(self.size)]
        dist.all_gather(sizes, torch.tensor([len(own_N)]))
        padded_N = own_N.new_zeros(max(1, *map(int, sizes)))
        padded_N[: len(own_N)] = own_N
        parts = [torch.zeros_like(padded_N) for _ in range(self.size)]
        dist.all_gather(parts, padded_N)
        return [part_N[: int(size)] for part_N, size in zip(parts, sizes, strict=True)]
