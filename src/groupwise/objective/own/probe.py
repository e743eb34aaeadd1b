"""A small fixed batch on which techniques are tried: extreme ratios, advantages of both signs and 0, empty episodes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from groupwise.lazy import torch
from groupwise.objective.ratios.ratio import LOG_RATIO_LIMIT
from groupwise.objective.segments import segment_index
from groupwise.objective.step_tokens import StepTokens

if TYPE_CHECKING:
    from torch import Tensor

    from groupwise.objective.ratios.ratio import RatioLevel

# log π - log π_old of the tokens of an episode; for every advantage each of these. In some all tokens moved one way, so
# that the ratio of the whole answer is extreme too.
EPISODES: tuple[tuple[float, ...], ...] = (
    (-LOG_RATIO_LIMIT, -3.0, -0.7, -0.1, 0.0, 0.1, 0.7, 3.0, LOG_RATIO_LIMIT),
    (LOG_RATIO_LIMIT, 3.0, 0.4),
    (),
    (-LOG_RATIO_LIMIT, -3.0, -0.4),
    (0.05,),
    # Between the usual bounds, so that one that is claimed at the wrong place shows.
    tuple(0.05 * i for i in range(-24, 25)),
)
ADVANTAGES = (2.0, 0.5, 0.0, -0.5, -2.0)


@dataclass(frozen=True)
class Probe:
    """Tokens of episodes as the loss sees them. weight_N: what the token's loss is multiplied by."""

    lengths_E: Tensor
    group_E: Tensor
    rewards_E: Tensor
    new_N: Tensor
    old_N: Tensor
    sampler_N: Tensor
    advantages_N: Tensor
    weight_N: Tensor

    def take(self, episodes: Sequence[int]) -> Probe:
        """These episodes in this order."""
        chosen_E = torch.tensor(list(episodes), dtype=torch.int64)
        tokens_N = self.tokens_of(episodes)
        taken = {"E": chosen_E, "N": tokens_N}
        return Probe(**{field.name: getattr(self, field.name)[taken[field.name[-1]]] for field in fields(self)})

    def tokens_of(self, episodes: Sequence[int]) -> Tensor:
        """Where the tokens of these episodes lie on N."""
        episode_N = segment_index(self.lengths_E, len(self.new_N))
        return torch.cat([(episode_N == episode).nonzero().flatten() for episode in episodes])

    def to(self, dtype: torch.dtype) -> Probe:
        """Its streams in another precision."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return Probe(**{name: value.to(dtype) if name.endswith("N") else value for name, value in values.items()})

    def step_tokens(self, ratio: RatioLevel) -> StepTokens:
        """All of it as one optimizer step."""
        log_ratio_N = ratio.log_ratio(self.new_N, self.old_N, self.lengths_E)
        streams = (log_ratio_N, self.new_N, self.old_N, self.sampler_N, self.advantages_N)
        return StepTokens(*streams, self.lengths_E, self.group_E, self.rewards_E)

    def named(self, token: int) -> str:
        """A token by what is special about it."""
        moved, advantage = float(self.new_N[token] - self.old_N[token]), float(self.advantages_N[token])
        return f"log(π/π_old) = {moved:.3g} and A = {advantage:g}"


def probe() -> Probe:
    """The batch in float64, always the same."""
    rows = [(moves, advantage) for advantage in ADVANTAGES for moves in EPISODES]
    moves_N = torch.tensor([move for moves, _ in rows for move in moves], dtype=torch.float64)
    lengths_E = torch.tensor([len(moves) for moves, _ in rows])
    advantages_E = torch.tensor([advantage for _, advantage in rows], dtype=torch.float64)
    count = torch.arange(len(moves_N), dtype=torch.float64)
    old_N = -0.3 - 0.02 * count - moves_N.clamp(min=0)
    return Probe(
        lengths_E=lengths_E,
        # Each group has every advantage.
        group_E=torch.arange(len(rows)) % len(EPISODES),
        rewards_E=advantages_E + 2.0,
        new_N=old_N + moves_N,
        old_N=old_N,
        sampler_N=old_N - 0.01 * torch.cos(count),
        advantages_N=advantages_E.repeat_interleave(lengths_E),
        weight_N=1.0 + 0.5 * torch.sin(count),
    )


def parts_and_orders(batch: Probe) -> tuple[list[list[int]], list[int]]:
    """The episodes in micro-batches, and all of them in another order."""
    episodes = list(range(len(batch.lengths_E)))
    cuts = [0, 1, 4, 11, len(episodes)]
    return [episodes[a:b] for a, b in itertools.pairwise(cuts)], [*episodes[1::2], *episodes[::2]][::-1]


def differs(one: Tensor, other: Tensor) -> int | None:
    """The first place at which two float64 results differ by more than rounding; None where there is none."""
    far_N = ~torch.isclose(one, other, rtol=1e-9, atol=1e-12, equal_nan=True)
    return int(far_N.nonzero()[0]) if bool(far_N.any()) else None
