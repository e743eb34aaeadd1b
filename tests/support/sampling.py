"""Requests to an engine, and its answers scored."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from groupwise.completion import Completion
from groupwise.model.load import Policy
from groupwise.model.packing import Ids, SequenceGroup
from groupwise.rollout.engine import SampleRequest, SamplingParams
from groupwise.rollout.sampling import derive_seed
from tests.support.tiny import packed_scores, random_ids

PROMPTS = [random_ids(np.random.default_rng(11), length) for length in (9, 1, 20, 4)]
STOPS = (1, 2, 3, 4)


def sampling(
    temperature: float = 1.0,
    max_new_tokens: int = 24,
    stop_ids: tuple[int, ...] = STOPS,
    top_k: int = 0,
    top_p: float = 1.0,
    min_p: float = 0.0,
    record_kept: bool = False,
) -> SamplingParams:
    return SamplingParams(temperature, max_new_tokens, stop_ids, top_k, top_p, min_p, record_kept)


def requests(sizes: Sequence[int] = (5, 3, 1, 6), prompts: Sequence[Ids] = PROMPTS) -> list[SampleRequest]:
    return [
        SampleRequest(prompt, tuple(derive_seed(3, "test", index, g) for g in range(size)))
        for index, (prompt, size) in enumerate(zip(prompts, sizes, strict=True))
    ]


def scored(
    policy: Policy, asked: Sequence[SampleRequest], answers: list[list[Completion]], temperature: float
) -> Tensor:
    groups = [
        SequenceGroup(request.prompt_ids, tuple(completion.ids for completion in group))
        for request, group in zip(asked, answers, strict=True)
    ]
    with torch.no_grad():
        return packed_scores(policy, groups, temperature)[0]


def recorded(answers: list[list[Completion]]) -> Tensor:
    return torch.from_numpy(np.concatenate([completion.logps for group in answers for completion in group]))
