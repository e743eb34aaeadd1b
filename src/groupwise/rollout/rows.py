"""The rows of a decoding batch, and what their sequences have been given so far."""

from collections.abc import Sequence

import torch
from torch import Tensor

from groupwise.completion import Completion, KeptSets


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
    """Tokens, log-probabilities and ends of all B sequences."""

    def __init__(self, limit_B: Tensor, longest: int, stop_ids: Sequence[int]) -> None:
        device = limit_B.device
        # What a row draws after its end lands in the column behind it.
        self._tokens_BT = torch.zeros(len(limit_B), longest + 1, dtype=torch.int64, device=device)
        self._logps_BT = torch.zeros(len(limit_B), longest + 1, dtype=torch.float32, device=device)
        self._stopped_B = torch.zeros(len(limit_B), dtype=torch.bool, device=device)
        self._stops = torch.tensor(stop_ids, device=device)
        self.length_B = limit_B.clone()

    def add(self, rows: Rows, token_A: Tensor, logp_A: Tensor) -> Tensor:
        """The next token of every row; the sequences that it ends."""
        self._tokens_BT[rows.sequence_A, rows.position_A] = token_A
        self._logps_BT[rows.sequence_A, rows.position_A] = logp_A
        # A row that has ended stays where it is, so that no position is ever outside of the context.
        rows.position_A = rows.position_A + rows.running_A
        stopping_A = (token_A.unsqueeze(1) == self._stops).any(dim=1) & rows.running_A
        stopped = rows.sequence_A[stopping_A]
        self.length_B[stopped] = rows.position_A[stopping_A]
        self._stopped_B[stopped] = True
        ended_A = rows.running_A & (self.length_B[rows.sequence_A] <= rows.position_A)
        rows.running_A = rows.running_A & ~ended_A
        return rows.sequence_A[ended_A]

    def completions(
        self, sequences: Sequence[int], version: int, kept_B: Sequence[KeptSets | None]
    ) -> list[Completion]:
        """Sequences that have ended; kept_B: of all sequences."""
        return [
            Completion(
                ids=self._tokens_BT[b, : (length := int(self.length_B[b]))].cpu().numpy().copy(),
                logps=self._logps_BT[b, :length].cpu().numpy().copy(),
                finish_reason="stop" if self._stopped_B[b] else "length",
                version=version,
                kept=kept_B[b],
            )
            for b in sequences
        ]
