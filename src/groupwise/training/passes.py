"""Passes of the model over the micro-batches of a rank: as many on each rank, where these divide the weights."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar

import numpy as np
from torch import Tensor

from groupwise.model.load import Policy
from groupwise.model.packing import SequenceGroup, pack
from groupwise.model.score import Scoring, score
from groupwise.model.shards import together
from groupwise.stopping import now

T = TypeVar("T")


def counted(policy: Policy, parts: Sequence[T]) -> list[T | None]:
    """The parts, and None for each pass that another rank makes beyond those of this one."""
    if policy.shards is None:
        return list(parts)
    most = max(policy.shards.ranks.gather(len(parts), "the number of passes"))
    return [*parts, *[None] * (most - len(parts))]


@contextmanager
def a_pass(policy: Policy, what: str) -> Iterator[None]:
    """The work of one pass, in front of which a step can be left. what: names it for the screen."""
    now(what)
    with together(policy, what):
        yield


def empty_pass(policy: Policy, scoring: Scoring) -> Tensor:
    """A pass that adds nothing, for the sake of the other ranks': 0, with a gradient of 0 for every weight."""
    ids = np.zeros(1, dtype=np.int64)
    batch = pack([SequenceGroup(ids, (ids,))], policy.device)
    return score(policy, batch, replace(scoring, router=False)).logps_N.sum() * 0.0
