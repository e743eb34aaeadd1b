"""Sampling by the model's own pass: batches of similar prompts that begin together and shrink as their rows end."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedModel

from groupwise.model.backends.plain import turning_point
from groupwise.model.plain_decoder import PlainDecoder
from groupwise.rollout.batch import Queue, Record, Rows
from groupwise.rollout.engine import SamplingParams
from groupwise.rollout.sampling import draw, uniforms

# Ended rows leave the cache when fewer than this share of its rows is still running: a copy of those against their part
# of every further step.
COMPACT_BELOW = 0.8


class Waiting(NamedTuple):
    """A sequence that is to be begun, or continued behind the tokens that it has; context: all of its tokens."""

    sequence: int
    context: NDArray[np.int64]
    tokens: int


def sample_plain(
    model: PreTrainedModel, queue: Queue, record: Record, sampling: SamplingParams, batch_sequences: int
) -> Iterator[Tensor]:
    """Sample all sequences of the queue into the record; those that have ended, as they do."""
    turn = turning_point(model.config)
    prompts = [queue.requests[request].prompt_ids for request in queue.request_B.tolist()]
    waiting = [Waiting(b, prompts[b], 0) for b in sorted(range(len(prompts)), key=lambda b: len(prompts[b]))]
    while waiting:
        # With angles of rotation of their own, long sequences and short ones do not share a batch.
        is_long = turn is not None and len(waiting[0].context) > turn
        batch = [one for one in waiting[:batch_sequences] if is_long or turn is None or len(one.context) <= turn]
        waiting = waiting[len(batch) :]
        for ended, turned in _batch(model, batch, queue, record, sampling, None if is_long else turn):
            yield ended
            waiting += turned


def _batch(
    model: PreTrainedModel,
    batch: Sequence[Waiting],
    queue: Queue,
    record: Record,
    sampling: SamplingParams,
    turn: int | None,
) -> Iterator[tuple[Tensor, list[Waiting]]]:
    """The rows that end at each step, and those that have to be read again, since they pass `turn` tokens."""
    device = queue.request_B.device
    # Sequences of a request share their prompt until they have tokens.
    keys = [(int(queue.request_B[one.sequence]), one.sequence if one.tokens else -1) for one in batch]
    places = {key: place for place, key in enumerate(dict.fromkeys(keys))}
    contexts = {key: one.context for key, one in zip(keys, batch, strict=True)}
    rows, every = Rows(len(batch), queue.longest, device), torch.arange(len(batch), device=device)
    sequence_A = torch.tensor([one.sequence for one in batch], device=device)
    rows.begin(every, sequence_A, uniforms([queue.seeds[one.sequence] for one in batch], queue.longest))
    rows.position_A = torch.tensor([one.tokens for one in batch], device=device)
    decoder = PlainDecoder(model)
    logits_AV = decoder.begin(list(contexts.values()), torch.tensor([places[key] for key in keys], device=device))
    while True:
        token_A, logp_A, kept_AV = draw(logits_AV, rows.uniform(), sampling)
        ended = record.add(rows, token_A, logp_A, kept_AV)
        turned: list[Waiting] = []
        if turn is not None:
            length_A = queue.prompt_length_B[rows.sequence_A] + rows.position_A
            turns_A = rows.running_A & (length_A > turn)
            turning = zip(rows.sequence_A[turns_A].tolist(), rows.position_A[turns_A].tolist(), strict=True)
            for sequence, tokens in turning:
                prompt_ids = queue.requests[int(queue.request_B[sequence])].prompt_ids
                turned.append(Waiting(sequence, np.concatenate([prompt_ids, record.tokens(sequence, tokens)]), tokens))
            rows.running_A = rows.running_A & ~turns_A
        yield ended, turned
        running = int(rows.running_A.sum())
        if running == 0:
            return
        if running < COMPACT_BELOW * len(rows.running_A):
            kept = rows.closed_up()
            rows.keep(kept)
            decoder.keep(kept)
            token_A = token_A[kept]
        logits_AV = decoder.step(token_A, rows.running_A)
