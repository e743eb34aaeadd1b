"""What holds for every advantage estimator, tried on small fixed rewards before anything is loaded or sampled."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from groupwise.lazy import torch
from groupwise.objective.advantages.estimator import AdvantageEstimator, GroupRewards, Moments
from groupwise.own_code import OwnCodeError

if TYPE_CHECKING:
    from torch import Tensor

# The rewards of a group, repeated to its size: mixed, all equal (with a mean that is not exact in binary), one right,
# one wrong, large.
GROUPS = ((0.0, 1.0, 0.2, 1.2), (0.3, 0.3, 0.3, 0.3), (0.0, 0.0, 0.0, 1.0), (1.0, 1.0, 0.9, 1.0), (1e4, 0.0, 3e4, 2.0))
EQUAL = 1


def estimator_problems(estimator: AdvantageEstimator, samples: int) -> list[str]:
    """What is wrong with an estimator for groups of so many samples, each as a sentence."""
    sizes = sorted({max(estimator.least_graded(samples), 1), samples})
    if estimator.needs_group:
        sizes = [size for size in sizes if size > 1]
    try:
        return next((found for size in sizes if (found := list(_problems(estimator, size)))), [])
    except OwnCodeError as failure:
        return [f"of small groups it {failure.text}"]


def _rewards(size: int) -> GroupRewards:
    totals_PG = torch.tensor([[row[i % 4] for i in range(size)] for row in GROUPS], dtype=torch.float64)
    if size < 4:
        # The last of a row are those that differ.
        totals_PG = torch.tensor([row[4 - size :] for row in GROUPS], dtype=torch.float64)
    weights_PK = torch.ones(len(GROUPS), 1, dtype=torch.float64)
    lengths_PG = 1 + torch.arange(len(GROUPS) * size).reshape(-1, size) % 7
    return GroupRewards(totals_PG, totals_PG >= 1.0, totals_PG.unsqueeze(-1), weights_PK, lengths_PG)


def _taken(rewards: GroupRewards, groups: Sequence[int], samples: Sequence[int]) -> GroupRewards:
    rows, columns = list(groups), list(samples)
    return GroupRewards(
        rewards.totals_PG[rows][:, columns],
        rewards.right_PG[rows][:, columns],
        rewards.components_PGK[rows][:, columns],
        rewards.weights_PK[rows],
        rewards.lengths_PG[rows][:, columns],
    )


class _Recorded:
    """Moments over all ranks: those that a call on all groups asked for, given again to a call on some of them."""

    def __init__(self, given: Sequence[Moments] = ()) -> None:
        self.asked: list[Moments] = []
        self._given = list(given)

    def __call__(self, parts: Sequence[Tensor], times: Sequence[Tensor] | None = None) -> Moments:
        if self._given:
            return self._given.pop(0)
        counted = None if times is None else torch.cat([tensor.flatten() for tensor in times])
        self.asked.append(Moments.of(torch.cat([tensor.flatten() for tensor in parts]), counted))
        return self.asked[-1]

    def again(self) -> _Recorded:
        return _Recorded(self.asked)


def _problems(estimator: AdvantageEstimator, size: int) -> Iterator[str]:
    rewards, recorded = _rewards(size), _Recorded()
    before_PG = rewards.totals_PG.clone()
    (whole_PG,) = estimator.advantages([rewards], recorded)
    if not bool(whole_PG.isfinite().all()):
        group = int((~whole_PG.isfinite()).any(-1).nonzero()[0])
        yield (
            f"for the rewards {_shown(before_PG[group])} its advantages are {_shown(whole_PG[group])}; expected finite "
            "numbers: add an epsilon to what it divides by"
        )
        return
    if not torch.equal(rewards.totals_PG, before_PG):
        yield "it changes the rewards in place; compute with methods without a trailing underscore, such as sub"
    if whole_PG.requires_grad:
        yield "its advantages carry a gradient; return them detached"
    (again_PG,) = estimator.advantages([_rewards(size)], recorded.again())
    if not torch.equal(again_PG, whole_PG):
        yield "two calls with the same rewards give different advantages; leave random numbers and state out"
    groups, samples = list(range(len(GROUPS))), list(range(size))
    (mixed_PG,) = estimator.advantages([_taken(rewards, groups, samples[::-1])], recorded.again())
    if not _close(mixed_PG, whole_PG.flip(-1)):
        yield "the samples of a group in another order do not get the same advantages; an advantage follows its reward"
    for some in (groups[:2], groups[2:]):
        (part_PG,) = estimator.advantages([_taken(rewards, some, samples)], recorded.again())
        if not _close(part_PG, whole_PG[some]):
            yield (
                "a group gets other advantages when other groups are left out, as they are on another rank or where "
                "an answer could not be judged; statistics of the step are `moments`, the second parameter of a "
                "function, or `over_ranks` of a subclass of AdvantageEstimator"
            )
            return
    compares = estimator.needs_group and not estimator.of_token and not recorded.asked
    if compares and bool((whole_PG[EQUAL].abs() > 1e-9).any()):
        yield (
            f"for {size} equal rewards of {GROUPS[EQUAL][0]} its advantages are {_shown(whole_PG[EQUAL])}; expected 0: "
            "a group without differences teaches nothing; compare with the group's mean, or declare needs_group=False"
        )


def _close(one: Tensor, other: Tensor) -> bool:
    return torch.allclose(one, other, rtol=1e-7, atol=1e-9)


def _shown(values_G: Tensor) -> str:
    return "[" + ", ".join(f"{value:.4g}" for value in values_G.tolist()[:6]) + "]"
