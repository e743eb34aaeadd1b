"""A problem with its graded completions, and what becomes of those that could not be judged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from groupwise.completion import Completion, Prompt
from groupwise.errors import DataError
from groupwise.grading.records import Score, Verdict
from groupwise.grading.reward_options import CORRECTNESS, OnError, RewardOptions
from groupwise.grading.totals import combine
from groupwise.problem import Problem

if TYPE_CHECKING:
    from groupwise.config import TrainConfig


class GradingError(DataError):
    """A reward could not judge, and the configuration says that this ends the run."""


@dataclass(frozen=True)
class GradedGroup:
    """One problem with its graded completions.

    position: of the problem in the stream. names_K: the components of the reward. scores_GK: in their order.
    verdicts_G: what the grader of answers or programs said. totals_G: what is compared within the group, float64.
    dropped_G: completions that a reward function could not judge, left out alone; their total is NaN. failed: too few
    are left, or the whole group is to be left out, so that it teaches nothing and counts in no statistic of rewards.
    """

    position: int
    problem: Problem
    prompt: Prompt
    completions: tuple[Completion, ...]
    texts_G: tuple[str, ...]
    names_K: tuple[str, ...]
    scores_GK: tuple[tuple[Score, ...], ...]
    verdicts_G: tuple[Verdict | None, ...]
    rewards_GK: NDArray[np.float64]
    totals_G: NDArray[np.float64]
    dropped_G: NDArray[np.bool_]
    failed: bool

    @property
    def kept(self) -> NDArray[np.intp]:
        """Indices of the completions that count."""
        return np.flatnonzero(~self.dropped_G)

    @property
    def kept_rewards(self) -> NDArray[np.float64]:
        """Rewards of the completions that count, over K."""
        return self.rewards_GK[self.kept]

    @property
    def kept_totals(self) -> NDArray[np.float64]:
        """Totals of the completions that count."""
        return self.totals_G[self.kept]

    @property
    def kept_right(self) -> NDArray[np.bool_]:
        """Which of the completions that count are right, in full."""
        right: NDArray[np.bool_] = self.kept_rewards[:, self.names_K.index(CORRECTNESS)] == 1.0
        return right

    def trained(self, mask_truncated: bool) -> NDArray[np.bool_]:
        """Which completions are trained on: those that count and, with `mask_truncated`, were not cut off."""
        cut_G = np.array([completion.finish_reason == "length" for completion in self.completions])
        return ~(self.dropped_G | (mask_truncated & cut_G))

    def failures(self) -> list[dict[str, Any]]:
        """What could not be judged: problem and where it stands, number of the sample, component, reason."""
        return [
            {
                "problem": self.problem.id,
                "source": self.problem.source,
                "sample": g,
                "component": name,
                "reason": score.detail,
            }
            for g, scores in enumerate(self.scores_GK)
            for name, score in zip(self.names_K, scores, strict=True)
            if score.status == "error"
        ]


def graded_group(
    position: int,
    problem: Problem,
    prompt: Prompt,
    completions: tuple[Completion, ...],
    texts_G: tuple[str, ...],
    verdicts_G: tuple[Verdict | None, ...],
    columns: dict[str, list[Score]],
    config: TrainConfig,
) -> GradedGroup:
    """Put the scores of all components together: totals, and what becomes of those that could not be judged.

    Raises:
        GradingError: if that is to end the run.
    """
    names_K, options = tuple(columns), config.rewards_of(problem.domain)
    scores_GK = tuple(zip(*columns.values(), strict=True))
    rewards_GK = np.array([[score.value for score in row] for row in scores_GK], dtype=np.float64)
    errors_GK = np.array([[score.status == "error" for score in row] for row in scores_GK])
    dropped_G, failed = np.zeros(len(completions), dtype=bool), False
    least = config.advantage.estimator.least_graded(config.batch.samples_per_prompt)
    for name, errors_G in zip(names_K, errors_GK.T, strict=True):
        match on_error(name, options, config.grading.on_error) if errors_G.any() else None:
            case "drop_sample":
                dropped_G |= errors_G
            case "drop_group":
                failed = True
            case "stop":
                first = columns[name][int(errors_G.argmax())]
                raise GradingError(
                    f"the reward '{name}' could not judge an answer to {problem.place}, and is to stop "
                    f"the run then: {first.detail}"
                )
    return GradedGroup(
        position=position,
        problem=problem,
        prompt=prompt,
        completions=completions,
        texts_G=texts_G,
        names_K=names_K,
        scores_GK=scores_GK,
        verdicts_G=verdicts_G,
        rewards_GK=rewards_GK,
        totals_G=combine(rewards_GK, options, names_K),
        dropped_G=dropped_G,
        failed=failed or bool(dropped_G.any() and (~dropped_G).sum() < least),
    )


def on_error(name: str, options: RewardOptions, default: OnError) -> OnError:
    """What a failure of a component does."""
    function = options.correctness.grader if name == CORRECTNESS else name
    return options.functions[function].on_error if function in options.functions else default
