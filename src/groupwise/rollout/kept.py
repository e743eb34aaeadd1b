"""Recording which tokens could be drawn at each position."""

import numpy as np
import torch
from torch import Tensor

from groupwise.completion import KeptSets


class KeptRecorder:
    """Collects the kept sets of all rows, position by position."""

    def __init__(self) -> None:
        self._rows: list[Tensor] = []
        self._ids: list[Tensor] = []
        self._counts: list[tuple[Tensor, Tensor]] = []

    def record(self, row_A: Tensor, kept_AV: Tensor) -> None:
        """The sets of one position, for the rows that are in the cache."""
        index, ids = kept_AV.nonzero(as_tuple=True)
        self._rows.append(row_A[index].cpu().to(torch.int32))
        self._ids.append(ids.cpu().to(torch.int32))
        self._counts.append((row_A.cpu(), kept_AV.sum(dim=1).cpu().to(torch.int32)))

    def sets(self, lengths: list[int]) -> list[KeptSets]:
        """The sets of each row for its first `length` positions; a row stays in the cache for a while after its end."""
        order = torch.cat(self._rows).argsort(stable=True)
        ids = torch.cat(self._ids)[order].numpy()
        counts: list[list[int]] = [[] for _ in lengths]
        for rows, sizes in self._counts:
            for row, size in zip(rows.tolist(), sizes.tolist(), strict=True):
                counts[row].append(size)
        sets, start = [], 0
        for row, length in enumerate(lengths):
            taken = np.asarray(counts[row][:length], dtype=np.int32)
            sets.append(KeptSets(ids[start : start + int(taken.sum())].copy(), taken))
            start += sum(counts[row])
        return sets
