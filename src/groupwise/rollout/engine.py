"""What an engine is asked and what it returns: the records between sampling and training."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

FinishReason = Literal["stop", "length"]


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How tokens are drawn. The same object serves the engine and every scorer of its completions.

    temperature: 0 takes the most likely token. top_k 0 and top_p 1 keep the whole vocabulary.
    stop_ids: a completion ends with the first of these, which belongs to it.
    """

    temperature: float
    max_new_tokens: int
    stop_ids: tuple[int, ...]
    top_k: int = 0
    top_p: float = 1.0


@dataclass(frozen=True, slots=True)
class SampleRequest:
    """One prompt, and a seed for each completion that is wanted of it."""

    prompt_ids: NDArray[np.int64]
    seeds: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Completion:
    """What the engine produced; these ids, and no others, are graded and trained on.

    logps: log-probability of each token under the distribution it was drawn from, float32.
    finish_reason: `stop` after a stop token, `length` at max_new_tokens or at the end of the context.
    version: of the weights that sampled it.
    """

    ids: NDArray[np.int64]
    logps: NDArray[np.float32]
    finish_reason: FinishReason
    version: int


class RolloutEngine(Protocol):
    """Samples completions with weights that it is given, version by version."""

    version: int

    def generate(self, requests: Sequence[SampleRequest], sampling: SamplingParams) -> list[list[Completion]]:
        """The completions of each request, in the order of its seeds."""
        ...

    def load_weights(self, weights: Iterable[tuple[str, Tensor]], version: int) -> None:
        """Take over the weights; completions carry `version` from now on."""
        ...
