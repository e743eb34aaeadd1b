"""Groups of sequences packed into one row of tokens, each prompt once."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from groupwise.model.backends.attention import PackedRuns, SharedPromptAttention
from groupwise.model.device import sent

Ids = NDArray[np.int64]


@dataclass(frozen=True)
class SequenceGroup:
    """Completions that share a prompt. A completion has at least one token.

    sampled: which tokens of each completion are scored, bool, the last one among them; None for all. The others are
    context.
    """

    prompt_ids: Ids
    completion_ids: tuple[Ids, ...]
    sampled: tuple[NDArray[np.bool_], ...] | None = None


@dataclass(frozen=True)
class PackedBatch:
    """One row of T tokens with everything that a forward pass and the loss need.

    Example: prompt `p q` with completions `a b` and `c` packs as `p q a` (the last token of a completion predicts
    nothing and is left out); `b` is predicted at index 2, `a` and `c` at index 1, the end of the prompt.

    token_ids_1T, position_ids_1T: input, and each token's position in its own sequence.
    predictor_N: packed index whose hidden state predicts each scored token.
    target_ids_N: the scored tokens; lengths_B: how many each sequence has, in the order of the groups.
    """

    token_ids_1T: Tensor
    position_ids_1T: Tensor
    predictor_N: Tensor
    target_ids_N: Tensor
    lengths_B: Tensor
    attention: SharedPromptAttention


def packed_tokens(prompt_tokens: int, completion_tokens: Sequence[int]) -> int:
    """How many packed tokens a group takes."""
    return prompt_tokens + sum(length - 1 for length in completion_tokens)


def pack(groups: Sequence[SequenceGroup], device: torch.device) -> PackedBatch:
    """Pack groups into one row.

    Raises:
        ValueError: for an empty prompt or completion.
    """
    tokens: list[Ids] = []
    positions: list[Ids] = []
    predictors: list[Ids] = []
    targets: list[Ids] = []
    prompts: list[tuple[int, int]] = []
    starts: list[int] = []
    lengths: list[int] = []
    scored: list[int] = []
    owners: list[int] = []
    cursor = 0
    for owner, group in enumerate(groups):
        prompt = len(group.prompt_ids)
        if prompt == 0 or any(len(ids) == 0 for ids in group.completion_ids):
            raise ValueError("a prompt or a completion without tokens cannot be scored")
        tokens.append(group.prompt_ids)
        positions.append(np.arange(prompt))
        prompts.append((cursor, prompt))
        last = cursor + prompt - 1
        cursor += prompt
        for index, ids in enumerate(group.completion_ids):
            inputs = len(ids) - 1
            tokens.append(ids[:-1])
            positions.append(np.arange(prompt, prompt + inputs))
            wanted = slice(None) if group.sampled is None else group.sampled[index]
            predictors.append(np.concatenate([[last], np.arange(cursor, cursor + inputs)])[wanted])
            targets.append(ids[wanted])
            scored.append(len(targets[-1]))
            starts.append(cursor)
            lengths.append(inputs)
            owners.append(owner)
            cursor += inputs

    def row(parts: list[Ids]) -> Tensor:
        joined = np.concatenate(parts) if parts else np.empty(0, np.int64)
        return sent(torch.from_numpy(joined.astype(np.int64)), device)

    return PackedBatch(
        token_ids_1T=row(tokens).unsqueeze(0),
        position_ids_1T=row(positions).unsqueeze(0),
        predictor_N=row(predictors),
        target_ids_N=row(targets),
        lengths_B=sent(torch.tensor(scored, dtype=torch.int64), device),
        attention=SharedPromptAttention(PackedRuns(prompts, starts, lengths, owners), device),
    )
