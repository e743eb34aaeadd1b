"""The state of one call of the engine: what waits, what stands in the rows of the cache, and what was sampled.

Axes: B sequences of the call, A rows of the cache, R requests, T positions, V vocabulary.
"""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from groupwise.completion import Completion, KeptSets
from groupwise.model.stop_strings import StopStrings
from groupwise.rollout.engine import SampleRequest


class Queue:
    """B sequences in the order of their requests and seeds; they begin in this order.

    seeds, request_B, prompt_length_B: of each sequence. limit_B: tokens that each may have; longest: the largest of
    them. places: the requests whose prompts stand in the cache, in its order.
    """

    def __init__(self, requests: Sequence[SampleRequest], most: int, context: int, device: torch.device) -> None:
        self.requests = requests
        self.seeds = [seed for request in requests for seed in request.seeds]
        sizes_R = torch.tensor([len(request.seeds) for request in requests], device=device)
        self.request_B = torch.repeat_interleave(sizes_R)
        self.prompt_length_B = torch.tensor([len(r.prompt_ids) for r in requests], device=device)[self.request_B]
        self._unfinished_R = sizes_R
        self._first_R = [0, *sizes_R.cumsum(0).tolist()]
        self._begun = 0
        self.limit_B = (context - self.prompt_length_B).clamp(max=most)
        self.longest = int(self.limit_B.max())
        self.places: list[int] = []

    @property
    def waiting(self) -> int:
        """How many have not begun."""
        return len(self.seeds) - self._begun

    def take(self, count: int) -> Tensor:
        """The next ones begin."""
        first, self._begun = self._begun, self._begun + count
        return torch.arange(first, self._begun, device=self.request_B.device)

    def sequences_of(self, request: int) -> range:
        """All sequences of a request."""
        return range(self._first_R[request], self._first_R[request + 1])

    def place_of(self, sequence_A: Tensor) -> Tensor:
        """Where in the cache the prompt of each stands; 0 for one that ended, and whose prompt has left."""
        place_R = torch.zeros(len(self.requests), dtype=torch.int64, device=sequence_A.device)
        place_R[self.places] = torch.arange(len(self.places), device=sequence_A.device)
        return place_R[self.request_B[sequence_A]]

    def stay(self, running: Tensor) -> Tensor:
        """The places of the prompts that these sequences continue; the others leave."""
        needed = set(self.request_B[running].tolist())
        kept = [place for place, request in enumerate(self.places) if request in needed]
        self.places = [self.places[place] for place in kept]
        return torch.tensor(kept, dtype=torch.int64, device=running.device)

    def enter(self, begun: Tensor) -> list[int]:
        """The requests of these sequences whose prompts are not in the cache; they take the places behind the rest."""
        new = [r for r in dict.fromkeys(self.request_B[begun].tolist()) if r not in self.places]
        self.places += new
        return new

    def finish(self, ended: Tensor) -> list[int]:
        """These sequences have ended; the requests that are complete by it."""
        if len(ended) == 0:
            return []
        request_E = self.request_B[ended]
        self._unfinished_R -= request_E.bincount(minlength=len(self._unfinished_R))
        return [request for request in request_E.unique().tolist() if self._unfinished_R[request] == 0]


class Rows:
    """A rows that stand in the cache.

    sequence_A: the sequence of each; position_A: how many tokens it has; running_A: whether it has not ended;
    uniform_AT: its numbers to draw with.
    """

    def __init__(self, count: int, longest: int, device: torch.device) -> None:
        self.sequence_A = torch.zeros(count, dtype=torch.int64, device=device)
        self.position_A = torch.zeros(count, dtype=torch.int64, device=device)
        self.running_A = torch.zeros(count, dtype=torch.bool, device=device)
        self.uniform_AT = torch.zeros(count, longest + 1, dtype=torch.float64, device=device)

    def begin(self, free_A: Tensor, sequences: Tensor, uniforms: Tensor) -> None:
        """Sequences take rows that are free."""
        self.sequence_A[free_A] = sequences
        self.position_A[free_A] = 0
        self.running_A[free_A] = True
        self.uniform_AT[free_A, :-1] = uniforms.to(self.uniform_AT.device)

    def closed_up(self) -> Tensor:
        """The running rows, those at the end in the places of the ended ones before them; all others where they are."""
        count = int(self.running_A.sum())
        kept = torch.arange(count, device=self.running_A.device)
        kept[~self.running_A[:count]] = self.running_A[count:].nonzero().squeeze(1) + count
        return kept

    def keep(self, kept: Tensor) -> None:
        """Only these rows stay, in this order."""
        self.sequence_A, self.position_A = self.sequence_A[kept], self.position_A[kept]
        self.running_A, self.uniform_AT = self.running_A[kept], self.uniform_AT[kept]

    def uniform(self) -> Tensor:
        """The number of each row's next token."""
        return self.uniform_AT.gather(1, self.position_A.unsqueeze(1)).squeeze(1)


class Record:
    """Tokens, log-probabilities, kept sets and ends of all B sequences."""

    def __init__(self, limit_B: Tensor, longest: int, stop_ids: Sequence[int], stop: StopStrings | None = None) -> None:
        device = limit_B.device
        # What a row draws after its end lands in the column behind it.
        self._tokens_BT = torch.zeros(len(limit_B), longest + 1, dtype=torch.int64, device=device)
        self._logps_BT = torch.zeros(len(limit_B), longest + 1, dtype=torch.float32, device=device)
        self._stopped_B = torch.zeros(len(limit_B), dtype=torch.bool, device=device)
        self._stops = torch.tensor(stop_ids, device=device)
        self._strings = stop
        self._ending_V = None if stop is None else stop.ending_V.to(device)
        self._length_B = limit_B.clone()
        # Of every position: the sequence of each kept token, the token, and the sequences with the size of each set.
        self._owners: list[Tensor] = []
        self._ids: list[Tensor] = []
        self._counts: list[tuple[Tensor, Tensor]] = []

    def add(self, rows: Rows, token_A: Tensor, logp_A: Tensor, kept_AV: Tensor | None) -> Tensor:
        """The next token of every row, and the tokens that it was drawn from; the sequences that it ends."""
        if kept_AV is not None:
            self._add_kept(rows.sequence_A[rows.running_A], kept_AV[rows.running_A])
        self._tokens_BT[rows.sequence_A, rows.position_A] = token_A
        self._logps_BT[rows.sequence_A, rows.position_A] = logp_A
        # A row that has ended stays where it is, so that no position is ever outside of the context.
        rows.position_A = rows.position_A + rows.running_A
        stopping_A = (token_A.unsqueeze(1) == self._stops).any(dim=1) & rows.running_A
        if self._strings is not None and self._ending_V is not None:
            for row in (self._ending_V[token_A] & rows.running_A & ~stopping_A).nonzero().squeeze(1).tolist():
                ids = self._tokens_BT[rows.sequence_A[row], : rows.position_A[row]].tolist()
                stopping_A[row] = self._strings.are_in(ids)
        # Every row is written, those that do not stop as they were: to pick rows out a device would be waited for.
        length_A = torch.where(stopping_A, rows.position_A, self._length_B[rows.sequence_A])
        self._length_B[rows.sequence_A] = length_A
        self._stopped_B[rows.sequence_A] |= stopping_A
        ended_A = rows.running_A & (length_A <= rows.position_A)
        rows.running_A = rows.running_A & ~ended_A
        return rows.sequence_A[ended_A]

    def tokens(self, sequence: int, count: int) -> NDArray[np.int64]:
        """The first tokens of a sequence."""
        return self._tokens_BT[sequence, :count].cpu().numpy()

    def completions(self, sequences: Sequence[int], version: int) -> list[Completion]:
        """Sequences that have ended. Kept sets are divided once all sequences have."""
        return [
            Completion(
                ids=self._tokens_BT[b, : (length := int(self._length_B[b]))].cpu().numpy().copy(),
                logps=self._logps_BT[b, :length].cpu().numpy().copy(),
                finish_reason="stop" if self._stopped_B[b] else "length",
                version=version,
                kept=self._kept_B[b] if self._ids else None,
            )
            for b in sequences
        ]

    def _add_kept(self, sequence_A: Tensor, kept_AV: Tensor) -> None:
        index, ids = kept_AV.nonzero(as_tuple=True)
        self._owners.append(sequence_A[index].cpu().to(torch.int32))
        self._ids.append(ids.cpu().to(torch.int32))
        self._counts.append((sequence_A.cpu(), kept_AV.sum(dim=1).cpu().to(torch.int32)))

    @cached_property
    def _kept_B(self) -> list[KeptSets]:
        order = torch.cat(self._owners).argsort(stable=True)
        ids = torch.cat(self._ids)[order].numpy()
        counts: list[list[int]] = [[] for _ in range(len(self._length_B))]
        for sequences, sizes in self._counts:
            for b, size in zip(sequences.tolist(), sizes.tolist(), strict=True):
                counts[b].append(size)
        ends = np.cumsum([sum(of_one) for of_one in counts])[:-1]
        return [
            KeptSets(own.copy(), np.asarray(of_one, dtype=np.int32))
            for own, of_one in zip(np.split(ids, ends), counts, strict=True)
        ]
