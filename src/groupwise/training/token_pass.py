"""What the passes of a step's updates said of each token, found again for the completion that it belongs to."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from groupwise.ranks import Ranks
from groupwise.training.step_batch import StepBatch

Key = tuple[int, int]
"""Position of a group in the stream, and number of the sample in it."""


# Enough to colour a token and to plot it; more would be most of what is written.
DECIMALS = 4


class TokenValues(NamedTuple):
    """Over the T tokens of one completion, rounded: π_new/π_old and the entropy in nats at the temperature, in the last
    pass that trained on it, and the advantages that it was trained with."""

    ratios_T: NDArray[np.float64]
    entropies_T: NDArray[np.float64]
    advantages_T: NDArray[np.float64]


@dataclass(frozen=True)
class TokenPass:
    """One micro-batch of an update: whose its episodes are, how long each is, and what `TokenValues` has, over 3, N,
    the ratio as its logarithm."""

    keys_E: tuple[Key, ...]
    lengths_E: tuple[int, ...]
    values_3N: NDArray[np.float32]

    @staticmethod
    def of(batch: StepBatch, log_ratios_N: NDArray[np.float32], entropies_N: NDArray[np.float32]) -> TokenPass:
        """Nothing where the batch does not say which samples it holds."""
        if batch.sample_E is None or not batch.position_P:
            return TokenPass((), (), np.empty((3, 0), np.float32))
        positions = [batch.position_P[p] for p in batch.group_E.tolist()]
        values_3N = np.stack([log_ratios_N, entropies_N, batch.advantages_N.cpu().numpy()])
        keys_E = tuple(zip(positions, batch.sample_E.tolist(), strict=True))
        return TokenPass(keys_E, tuple(batch.lengths_E.tolist()), values_3N)

    def rounded(self) -> NDArray[np.float64]:
        """The values as they are written, with the ratio itself."""
        with np.errstate(over="ignore"):
            return rounded(np.concatenate([np.exp(self.values_3N[:1]), self.values_3N[1:]]))


def rounded(values: NDArray[Any]) -> NDArray[np.float64]:
    """To `DECIMALS`, without the sign of a zero."""
    wide: NDArray[np.float64] = values.astype(np.float64)
    return np.add(np.round(wide, DECIMALS), 0.0, dtype=np.float64)


def token_values(passes: Sequence[TokenPass], own_positions: Iterable[int], ranks: Ranks) -> dict[Key, TokenValues]:
    """What is known of the tokens of this rank's groups, the last pass over each; other ranks may have trained on
    some of them. Every rank takes part."""
    last: dict[Key, NDArray[np.float64]] = {}
    for made in reversed(passes):
        if all(key in last for key in made.keys_E):
            continue
        parts = np.split(made.rounded(), np.cumsum(made.lengths_E)[:-1], axis=1)
        last = dict(zip(made.keys_E, parts, strict=True)) | last
    if ranks.size > 1:
        own = set(own_positions)
        away = {key: values for key, values in last.items() if key[0] not in own}
        received = [_from_bytes(part) for part in ranks.gather_bytes(_to_bytes(away), "the exchange of token values")]
        last = {key: values for part in [last, *received] for key, values in part.items() if key[0] in own}
    return {key: TokenValues(*values) for key, values in last.items()}


def _to_bytes(values: Mapping[Key, NDArray[np.float64]]) -> bytes:
    header = json.dumps([[*key, value.shape[1]] for key, value in values.items()])
    return b"\n".join([header.encode(), b"".join(value.tobytes() for value in values.values())])


def _from_bytes(content: bytes) -> dict[Key, NDArray[np.float64]]:
    header, _, body = content.partition(b"\n")
    flat, start, values = np.frombuffer(body), 0, dict[Key, NDArray[np.float64]]()
    for position, sample, tokens in json.loads(header):
        values[position, sample] = flat[start : start + 3 * tokens].reshape(3, tokens)
        start += 3 * tokens
    return values
