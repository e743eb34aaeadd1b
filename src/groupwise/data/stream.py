"""The endless order of problems. A position says all about where training stands in it; nothing else is state."""

import functools
import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from groupwise.problem import Problem


@dataclass(frozen=True, slots=True)
class ProblemStream:
    """Problems at the positions 0, 1, 2, …; the same position always gives the same problem."""

    problem_at: Callable[[int], Problem]
    problems_per_epoch: int | None = None
    """None where problems are generated and never come round again."""

    def at(self, position: int) -> Problem:
        """The problem at a position. Raises ValueError for a negative one."""
        if position < 0:
            raise ValueError(f"a position counts from 0, not {position}")
        return self.problem_at(position)


def shuffled_stream(problems: Sequence[Problem], seed: int) -> ProblemStream:
    """Problems of a file, each exactly once in an epoch, every epoch in its own order."""
    if not problems:
        raise ValueError("no problems to draw from")
    count = len(problems)

    @functools.lru_cache(maxsize=2)
    def order(epoch: int) -> npt.NDArray[np.int64]:
        return epoch_order(count, seed, epoch)

    return ProblemStream(lambda position: problems[order(position // count)[position % count]], count)


def mixed_stream(streams: Sequence[ProblemStream], shares: Sequence[float]) -> ProblemStream:
    """Several streams in turn, each as often as its share says: of the first n problems, within one problem of it.

    Which stream a position draws from follows from the shares alone.
    """
    if len(streams) == 1:
        return streams[0]
    total = math.fsum(shares)
    drawn = [0] * len(streams)
    places: list[tuple[int, int]] = []

    def problem_at(position: int) -> Problem:
        while len(places) <= position:
            due = [share / total * (len(places) + 1) - count for share, count in zip(shares, drawn, strict=True)]
            source = due.index(max(due))
            places.append((source, drawn[source]))
            drawn[source] += 1
        source, own_position = places[position]
        return streams[source].at(own_position)

    epochs = [stream.problems_per_epoch for stream in streams]
    # Within so many positions every file has come round once.
    longest = max(
        (math.ceil(count * total / share) for count, share in zip(epochs, shares, strict=True) if count), default=0
    )
    return ProblemStream(problem_at, None if None in epochs else longest)


def epoch_order(count: int, seed: int, epoch: int) -> npt.NDArray[np.int64]:
    """The order of `count` problems in one epoch, from (seed, "order", epoch) alone."""
    digest = hashlib.blake2b(f"{seed}/order/{epoch}".encode(), digest_size=16).digest()
    generator = np.random.Generator(np.random.PCG64(int.from_bytes(digest, "little")))
    return generator.permutation(count)
