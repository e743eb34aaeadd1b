"""From completions to rewards by component: the place where the engine's ids meet the reward functions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase

from groupwise.config import RewardOptions
from groupwise.policy.prompt import Prompt
from groupwise.rewards.answer import score_answer
from groupwise.rewards.combine import COMPONENTS, combine
from groupwise.rewards.length import score_overlong
from groupwise.rewards.think_format import score_think_ids, score_think_text
from groupwise.rewards.types import Response, Score
from groupwise.rollout.engine import Completion
from groupwise.tasks.problem import Problem


@dataclass(frozen=True)
class GradedGroup:
    """One problem with its graded completions.

    position: of the problem in the stream. scores_GK: in the order of `COMPONENTS`. totals_G: what is compared within
    the group, float64. failed: a reward function could not judge one of the completions, so that the group teaches
    nothing and is left out of every statistic of rewards.
    """

    position: int
    problem: Problem
    prompt: Prompt
    completions: tuple[Completion, ...]
    texts_G: tuple[str, ...]
    scores_GK: tuple[tuple[Score, ...], ...]
    rewards_GK: NDArray[np.float64]
    totals_G: NDArray[np.float64]
    failed: bool

    def rows(self, advantages_G: Sequence[float] | None) -> list[dict[str, Any]]:
        """A record of each completion, for the rollout files."""
        return [
            {
                "problem": self.problem.id,
                "question": self.problem.question,
                "answer": self.problem.answer,
                "sample": g,
                "completion": self.texts_G[g],
                "tokens": len(completion.ids),
                "finish_reason": completion.finish_reason,
                "version": completion.version,
                "rewards": {name: score.value for name, score in zip(COMPONENTS, self.scores_GK[g], strict=True)},
                "status": {name: score.status for name, score in zip(COMPONENTS, self.scores_GK[g], strict=True)},
                "total": float(self.totals_G[g]),
                "advantage": None if advantages_G is None else float(advantages_G[g]),
            }
            for g, completion in enumerate(self.completions)
        ]


class Grader:
    """Grades completions as the configuration says."""

    def __init__(
        self,
        options: RewardOptions,
        tokenizer: PreTrainedTokenizerBase,
        think_ids: tuple[int, int] | None,
        max_new_tokens: int,
    ) -> None:
        self._options = options
        self._max_new_tokens = max_new_tokens
        self._tokenizer = tokenizer
        self._think_ids = think_ids

    def grade(
        self,
        position: int,
        problem: Problem,
        prompt: Prompt,
        completions: Sequence[Completion],
        stop_ids: Sequence[int],
    ) -> GradedGroup:
        """Grade the completions of one problem."""
        texts, scores = [], []
        for completion in completions:
            ids = [int(token) for token in completion.ids]
            # The stop token ends the answer without being part of it; every other special token stays visible.
            content = ids[:-1] if ids[-1] in stop_ids else ids
            response = Response(
                ids=tuple(content),
                text=self._tokenizer.decode(content, skip_special_tokens=False),
                truncated=completion.finish_reason == "length",
                opened=prompt.opened,
            )
            texts.append(response.text)
            correct = score_answer(response, problem.answer, self._options.answer)
            length = score_overlong(len(completion.ids), self._max_new_tokens, self._options.overlong_buffer_tokens)
            scores.append((correct, self._format(response), length))
        rewards_GK = np.array([[score.value for score in row] for row in scores], dtype=np.float64)
        return GradedGroup(
            position=position,
            problem=problem,
            prompt=prompt,
            completions=tuple(completions),
            texts_G=tuple(texts),
            scores_GK=tuple(scores),
            rewards_GK=rewards_GK,
            totals_G=combine(rewards_GK, self._options),
            failed=any(score.status == "error" for row in scores for score in row),
        )

    def _format(self, response: Response) -> Score:
        if self._think_ids is None:
            return score_think_text(response)
        return score_think_ids(response, *self._think_ids, self._tokenizer)
