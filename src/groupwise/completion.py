"""What a model is given and what it produced: the records between sampling, grading and training."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

FinishReason = Literal["stop", "length"]


@dataclass(frozen=True, slots=True)
class Prompt:
    """ids: what the model continues. opened: whether the model's turn already stands inside an open `<think>`."""

    ids: NDArray[np.int64]
    text: str
    opened: bool


@dataclass(frozen=True, slots=True)
class KeptSets:
    """The tokens that could be drawn at each position of a completion.

    ids: of all sets, end to end, int32; counts_T: size of each set, int32.
    """

    ids: NDArray[np.int32]
    counts_T: NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Completion:
    """What the engine produced; these ids, and no others, are graded and trained on.

    logps: log-probability of each token under the distribution it was drawn from, float32.
    finish_reason: `stop` after a stop token or a text of `sampling.stop`, `length` at max_new_tokens or at the end of
    the context.
    version: of the weights that sampled it. kept: the sets that were sampled from, where they were asked for.
    """

    ids: NDArray[np.int64]
    logps: NDArray[np.float32]
    finish_reason: FinishReason
    version: int
    kept: KeptSets | None = None
