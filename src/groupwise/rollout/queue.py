"""The sequences of a call of the engine: which wait, which prompts stand in the cache, which groups are complete."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from groupwise.rollout.engine import SampleRequest


class Queue:
    """B sequences in the order of their requests and seeds; they begin in this order.

    limit_B: tokens that each may have; longest: the largest of them. places: the requests whose prompts stand in the
    cache, in its order.
    """

    def __init__(self, requests: Sequence[SampleRequest], most: int, context: int, device: torch.device) -> None:
        self._requests = requests
        self._seeds = [seed for request in requests for seed in request.seeds]
        sizes_R = torch.tensor([len(request.seeds) for request in requests], device=device)
        self._request_B = torch.repeat_interleave(sizes_R)
        self._prompt_length_B = torch.tensor([len(r.prompt_ids) for r in requests], device=device)[self._request_B]
        self._unfinished_R = sizes_R
        self._first_R = [0, *sizes_R.cumsum(0).tolist()]
        self._begun = 0
        self.limit_B = (context - self._prompt_length_B).clamp(max=most)
        self.longest = int(self.limit_B.max())
        self.places: list[int] = []

    @property
    def sequences(self) -> int:
        """How many there are in all."""
        return len(self._seeds)

    @property
    def waiting(self) -> int:
        """How many have not begun."""
        return len(self._seeds) - self._begun

    def take(self, count: int) -> Tensor:
        """The next ones begin."""
        first, self._begun = self._begun, self._begun + count
        return torch.arange(first, self._begun, device=self._request_B.device)

    def seeds(self, sequences: Tensor) -> list[int]:
        """Their seeds."""
        return [self._seeds[sequence] for sequence in sequences.tolist()]

    def requests_of(self, sequences: Tensor) -> list[int]:
        """The request of each."""
        return [int(request) for request in self._request_B[sequences]]

    def prompt_ids(self, request: int) -> NDArray[np.int64]:
        """The prompt of a request."""
        return self._requests[request].prompt_ids

    def prompt_length(self, sequence_A: Tensor) -> Tensor:
        """Tokens of the prompts of these sequences."""
        return self._prompt_length_B[sequence_A]

    def sequences_of(self, request: int) -> range:
        """All sequences of a request."""
        return range(self._first_R[request], self._first_R[request + 1])

    def place_of(self, sequence_A: Tensor) -> Tensor:
        """Where in the cache the prompt of each stands; 0 for one that ended, and whose prompt has left."""
        place_R = torch.zeros(len(self._requests), dtype=torch.int64, device=sequence_A.device)
        place_R[self.places] = torch.arange(len(self.places), device=sequence_A.device)
        return place_R[self._request_B[sequence_A]]

    def stay(self, running: Tensor) -> Tensor:
        """The places of the prompts that these sequences continue; the others leave."""
        needed = set(self._request_B[running].tolist())
        kept = [place for place, request in enumerate(self.places) if request in needed]
        self.places = [self.places[place] for place in kept]
        return torch.tensor(kept, dtype=torch.int64, device=running.device)

    def enter(self, begun: Tensor) -> list[int]:
        """The requests of these sequences whose prompts are not in the cache; they take the places behind the rest."""
        new = [r for r in dict.fromkeys(self._request_B[begun].tolist()) if r not in self.places]
        self.places += new
        return new

    def finish(self, ended: Tensor) -> list[int]:
        """These sequences have ended; the requests that are complete by it."""
        if len(ended) == 0:
            return []
        request_E = self._request_B[ended]
        self._unfinished_R -= request_E.bincount(minlength=len(self._unfinished_R))
        return [request for request in request_E.unique().tolist() if self._unfinished_R[request] == 0]
