"""What an engine is asked, what every engine can do, and the one that a configuration asks for."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from groupwise.completion import Completion
from groupwise.config import TrainConfig
from groupwise.config.data import KEPT_LIMIT, SamplingOptions
from groupwise.model.load import Policy
from groupwise.rollout.engine_options import InProcess, Vllm, VllmServer


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How tokens are drawn. The same object serves the engine and every scorer of its completions.

    temperature: 0 takes the most likely token. top_k 0, top_p 1 and min_p 0 keep the whole vocabulary.
    stop_ids: a completion ends with the first of these, which belongs to it. stop: it also ends with the token that
    completes one of these texts, wherever they begin and end in tokens; all of these tokens belong to it.
    vocabulary: tokens from this id on are never drawn (see `Policy`, from which the engine takes it).
    record_kept: completions carry the set of tokens that was sampled from at each position, so that every scorer can
    normalise over the same one. It then has at most `KEPT_LIMIT` tokens, whatever top_k says.
    """

    temperature: float
    max_new_tokens: int
    stop_ids: tuple[int, ...]
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    record_kept: bool = False
    stop: tuple[str, ...] = ()
    vocabulary: int | None = None


def sampling_params(options: SamplingOptions, stop_ids: tuple[int, ...]) -> SamplingParams:
    """How a run with these options draws tokens."""
    return SamplingParams(
        temperature=options.temperature,
        max_new_tokens=options.max_new_tokens,
        stop_ids=stop_ids,
        top_k=min(options.top_k or KEPT_LIMIT, KEPT_LIMIT) if options.replay_mask else options.top_k,
        top_p=options.top_p,
        min_p=options.min_p,
        record_kept=options.replay_mask,
        stop=tuple(options.stop),
    )


@dataclass(frozen=True, slots=True)
class SampleRequest:
    """One prompt, and a seed for each completion that is wanted of it."""

    prompt_ids: NDArray[np.int64]
    seeds: tuple[int, ...]


class RolloutEngine(Protocol):
    """Samples completions with weights that it is given, version by version."""

    version: int

    def generate(self, requests: Sequence[SampleRequest], sampling: SamplingParams) -> list[list[Completion]]:
        """The completions of each request, in the order of its seeds; see `stream`."""
        answers: list[list[Completion]] = [[] for _ in requests]
        for index, completions in self.stream(requests, sampling):
            answers[index] = completions
        return answers

    def stream(
        self, requests: Sequence[SampleRequest], sampling: SamplingParams
    ) -> Iterator[tuple[int, list[Completion]]]:
        """The same, each with the index of its request as soon as it is complete, so that grading can begin.

        Raises:
            ValueError: for a prompt without tokens, or one that leaves no room in the context.
            RuntimeError: for an engine that gave its weights back and was given none since.
        """
        ...

    def load_weights(self, weights: Iterable[tuple[str, Tensor]], version: int) -> None:
        """Take over the weights; completions carry `version` from now on. An engine that sleeps is awake again."""
        ...

    def sleep(self) -> None:
        """Give back what only sampling needs, while the trainer trains; `load_weights` comes before more sampling."""
        ...

    def sample_fewer(self) -> int:
        """Sample fewer answers at once from now on, where memory ran out; how many. 0 if it cannot be fewer."""
        ...

    def close(self) -> None:
        """End whatever the engine started; it samples no more."""
        ...


def make_engine(
    config: TrainConfig, policy: Policy, say: Callable[[str], None] = lambda _: None, shares: bool = True
) -> RolloutEngine:
    """The engine that a configuration asks for, with the policy's weights of now. Whoever makes it closes it.

    say: is told what it read back of its weights, and of servers that are gone and come again. shares: whether it may
    sample with the trainer's own weights, which are not there as a whole once ranks divide them.
    """
    # What an engine needs is imported where it is chosen.
    match config.engine:
        case InProcess(batch_sequences=sequences):
            from groupwise.rollout.inprocess import InProcessEngine

            return InProcessEngine(policy, sequences, shares)
        case Vllm() as options:
            from groupwise.rollout.vllm.inprocess import VllmEngine

            return VllmEngine(policy, options, say)
        case VllmServer() as options:
            from groupwise.rollout.vllm.server import VllmServerEngine

            return VllmServerEngine(policy, options, say)
