"""From completions to rewards by component: the place where the engine's ids meet the reward functions."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from groupwise.closing import Closing
from groupwise.completion import Completion, Prompt
from groupwise.grading.components.component import Answers
from groupwise.grading.functions.returned import Returns
from groupwise.grading.functions.token_spans import in_tokens
from groupwise.grading.graded_group import GradedGroup, graded_group
from groupwise.grading.grader_pool import GraderPool
from groupwise.grading.records import Response, Score, Verdict
from groupwise.grading.reward_options import CORRECTNESS, RewardOptions, component_names
from groupwise.problem import Problem
from groupwise.stopping import result

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from groupwise.config import TrainConfig


@dataclass(frozen=True)
class PendingGroup:
    """A group whose rewards may still be worked on in other processes.

    verdicts_G: of the grader of answers or programs; functions: scores over G by name.
    """

    position: int
    problem: Problem
    prompt: Prompt
    completions: tuple[Completion, ...]
    responses_G: tuple[Response, ...]
    clean_texts_G: tuple[str, ...]
    verdicts_G: tuple[Future[Verdict] | Verdict, ...] | None
    functions: dict[str, Future[list[Score]]]


class Grader(Closing):
    """Grades completions as the configuration says. Workers start when they are first needed, and end with `close`.

    objects: see `GraderPool`.
    """

    def __init__(
        self,
        config: TrainConfig,
        tokenizer: PreTrainedTokenizerBase,
        think_ids: tuple[int, int] | None,
        objects: Mapping[str, Callable[..., Any]] | None = None,
    ) -> None:
        self._config = config
        self._tokenizer = tokenizer
        self._tag_ids = dict(zip(("<think>", "</think>"), think_ids, strict=True)) if think_ids else {}
        self._pieces: dict[int, str] = {}
        self._pool = GraderPool(config, objects)
        self.names_K = component_names(list(config.reward_tables().values()))

    @property
    def sandbox_name(self) -> str:
        """The sandbox that is in use; empty for none."""
        return self._pool.sandbox_name

    def check(self, problems: Sequence[Problem], encode: Callable[[str], list[int]]) -> list[str]:
        """See `GraderPool.check`."""
        return self._pool.check(problems, encode)

    def close(self) -> None:
        """End all workers."""
        self._pool.close()

    def for_measuring(self) -> Grader:
        """The same grader, with its workers, for what a measurement reads: correctness and format.

        A failure leaves the group out, and never ends the run.
        """
        config = self._config
        domains = {
            name: domain.model_copy(update={"rewards": _measured(config.rewards_of(name))})
            for name, domain in config.domains.items()
        }
        grading = config.grading.model_copy(update={"on_error": "drop_group"})
        measured = {"rewards": _measured(config.rewards), "domains": domains, "grading": grading}
        grader = copy.copy(self)
        grader._config = config.model_copy(update=measured)
        grader.names_K = component_names(list(grader._config.reward_tables().values()))
        return grader

    def grade(
        self,
        position: int,
        problem: Problem,
        prompt: Prompt,
        completions: Sequence[Completion],
        stop_ids: Sequence[int],
        step: int | None = None,
    ) -> GradedGroup:
        """Grade the completions of one problem, and wait for it."""
        return self.result(self.submit(position, problem, prompt, completions, stop_ids, step))

    def submit(
        self,
        position: int,
        problem: Problem,
        prompt: Prompt,
        completions: Sequence[Completion],
        stop_ids: Sequence[int],
        step: int | None = None,
    ) -> PendingGroup:
        """Begin to grade: what is slow is begun in other processes.

        step: of the run that samples, for reward functions that ask; None for a measurement.
        """
        options, sampling = self._config.rewards_of(problem.domain), self._config.sampling
        responses, clean_texts = [], []
        for completion in completions:
            ids = [int(token) for token in completion.ids]
            # The stop token ends the answer without being part of it; every other special token stays visible.
            ended = bool(ids) and ids[-1] in stop_ids
            content = ids[:-1] if ended else ids
            text = self._tokenizer.decode(content, skip_special_tokens=False)
            clean = self._tokenizer.decode(content, skip_special_tokens=True)
            truncated = completion.finish_reason == "length"
            if sampling.stop and not truncated and not ended:
                text, clean = (cut(whole, sampling.stop, sampling.keep_stop) for whole in (text, clean))
                while content and len(self._tokenizer.decode(content[:-1], skip_special_tokens=False)) >= len(text):
                    content = content[:-1]
            responses.append(Response(tuple(content), text, truncated, prompt.opened))
            clean_texts.append(clean)
        verdicts = None
        if options.correctness.grader not in options.functions:
            verdicts = tuple(self._pool.verdict(problem, response, options.correctness) for response in responses)
        return PendingGroup(
            position=position,
            problem=problem,
            prompt=prompt,
            completions=tuple(completions),
            responses_G=tuple(responses),
            clean_texts_G=tuple(clean_texts),
            verdicts_G=verdicts,
            functions={
                name: self._pool.function(name, options.functions[name], problem, responses, clean_texts, step)
                for name in options.functions
            },
        )

    def result(self, pending: PendingGroup) -> GradedGroup:
        """The graded group, once all its rewards are there.

        Raises:
            GradingError: if a reward could not judge and is to stop the run then.
        """
        options = self._config.rewards_of(pending.problem.domain)
        responses = pending.responses_G
        columns = {name: result(scores, f"the reward {name}") for name, scores in pending.functions.items()}
        for name in options.span_weights:
            columns[name] = self._in_tokens(pending, columns[name], options.functions[name].returns)
        verdicts: tuple[Verdict | None, ...] = (None,) * len(responses)
        if pending.verdicts_G is None:
            columns[CORRECTNESS] = columns[options.correctness.grader]
        else:
            verdicts = tuple(result(v, "grading") if isinstance(v, Future) else v for v in pending.verdicts_G)
            columns[CORRECTNESS] = [options.correctness.score_verdict(v) for v in verdicts if v is not None]
        answers = Answers(
            responses_G=responses,
            tokens_G=[len(completion.ids) for completion in pending.completions],
            correctness_G=columns[CORRECTNESS],
            max_new_tokens=self._config.sampling.max_new_tokens,
            tag_ids=self._tag_ids,
            decoder=self._tokenizer,
        )
        for name, component in options.components.items():
            if options.is_used(name):
                columns[name] = component.score(answers)
        return graded_group(
            position=pending.position,
            problem=pending.problem,
            prompt=pending.prompt,
            completions=pending.completions,
            texts_G=tuple(response.text for response in responses),
            verdicts_G=verdicts,
            columns={name: columns.get(name, [OFF] * len(responses)) for name in self.names_K},
            config=self._config,
        )

    def _in_tokens(self, pending: PendingGroup, scores_G: Sequence[Score], returns: Returns) -> list[Score]:
        """Scores with spans in tokens of the completions."""

        def decode(ids: Sequence[int]) -> str:
            # Most tokens are asked for by themselves, and again and again.
            if len(ids) == 1 and ids[0] in self._pieces:
                return self._pieces[ids[0]]
            text = str(self._tokenizer.decode(list(ids), skip_special_tokens=True))
            if len(ids) == 1:
                self._pieces[ids[0]] = text
            return text

        parts = zip(scores_G, pending.responses_G, pending.clean_texts_G, pending.completions, strict=True)
        return [
            replace(
                score,
                spans=in_tokens(
                    score.spans,
                    response.ids,
                    text if returns == "character_spans" else None,
                    len(completion.ids),
                    decode,
                ),
            )
            for score, response, text, completion in parts
        ]


def cut(text: str, stops: Sequence[str], keep: bool) -> str:
    """A text before or, with `keep`, behind that of `stops` which it completes first; whole where it has none."""
    found = [(start + len(stop), start) for stop in stops if (start := text.find(stop)) >= 0]
    return text[: min(found)[0 if keep else 1]] if found else text


def _measured(options: RewardOptions) -> RewardOptions:
    functions = {
        name: function.model_copy(update={"on_error": "drop_group"})
        for name, function in options.functions.items()
        if name == options.correctness.grader
    }
    format_ = options.format.model_copy(update={"weight": 0.0, "requires": ""})
    return RewardOptions(correctness=options.correctness, format=format_, functions=functions)


# Of a component that the domain of the problem does not use.
OFF = Score(0.0, "scored")
