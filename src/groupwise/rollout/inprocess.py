"""Sampling in the trainer's own process: prompts once per group, a row that ends makes room for a waiting sample."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from groupwise.completion import Completion
from groupwise.model.cache import KVCache
from groupwise.model.decoder import Decoder
from groupwise.model.load import Policy
from groupwise.model.stop_strings import StopStrings
from groupwise.rollout.batch import Queue, Record, Rows
from groupwise.rollout.engine import RolloutEngine, SampleRequest, SamplingParams
from groupwise.rollout.plain_sampling import sample_plain
from groupwise.rollout.sampling import draw, uniforms
from groupwise.stopping import now

# Waiting samples take the places of ended rows when fewer than this share of the rows is still running, and when none
# waits, the running rows are moved together in the cache. Prefilling some prompts at once costs less than one by one,
# and moving costs a copy of the rows that move; an ended row costs its share of every further token.
REFILL_BELOW = 0.9
COMPACT_BELOW = 0.9


class InProcessEngine(RolloutEngine):
    """Samples with the trainer's own weights; with copies of those that are adapted or of a reduced precision."""

    def __init__(self, policy: Policy, batch_sequences: int, shares: bool = True) -> None:
        self._policy = policy
        self._model = policy.sampling_copy(shares)
        shared = {weight.data_ptr() for weight in policy.model.parameters()}
        # The weights that are not the trainer's.
        self._own = {name: w for name, w in self._model.named_parameters() if w.data_ptr() not in shared}
        self._batch_sequences = batch_sequences
        self._asleep = False
        self.version = 0

    def load_weights(self, weights: Iterable[tuple[str, Tensor]], version: int) -> None:
        """Take over the weights; where engine and trainer share them there is nothing to copy."""
        with torch.no_grad():
            for name, weight in weights if self._own else ():
                own = self._own.get(name)
                if own is not None and self._asleep:
                    own.data = weight.detach().to(own.data, copy=True)
                elif own is not None:
                    own.copy_(weight)
        self._asleep = False
        self.version = version

    def sleep(self) -> None:
        """Give back a copy of the weights; those of the trainer stay, and can be sampled from."""
        self._asleep = bool(self._own)
        for weight in self._own.values():
            weight.data = weight.data.new_empty(0)

    def sample_fewer(self) -> int:
        """Half as many rows."""
        self._batch_sequences //= 2
        return self._batch_sequences

    def close(self) -> None:
        """Nothing was started."""

    def stream(
        self, requests: Sequence[SampleRequest], sampling: SamplingParams
    ) -> Iterator[tuple[int, list[Completion]]]:
        """See `RolloutEngine`."""
        if self._asleep:
            raise RuntimeError("the engine sleeps: it samples again after load_weights")
        for request in requests:
            room = self._policy.max_context_tokens - len(request.prompt_ids)
            if len(request.prompt_ids) == 0 or room < 1:
                raise ValueError(f"a prompt of {len(request.prompt_ids)} tokens leaves no room for a completion")
        if any(request.seeds for request in requests):
            yield from self._decode(requests, sampling)

    @torch.inference_mode()
    def _decode(
        self, requests: Sequence[SampleRequest], sampling: SamplingParams
    ) -> Iterator[tuple[int, list[Completion]]]:
        device = self._policy.device
        queue = Queue(requests, sampling.max_new_tokens, self._policy.max_context_tokens, device)
        stop = StopStrings.of(self._policy.tokenizer, sampling.stop) if sampling.stop else None
        record = Record(queue.limit_B, queue.longest, sampling.stop_ids, stop)
        sampling = replace(sampling, vocabulary=self._policy.vocabulary)
        if self._policy.backend == "plain":
            batches = sample_plain(self._model, queue, record, sampling, self._batch_sequences)
        else:
            batches = self._sample_packed(queue, record, sampling)
        for tokens, ended in enumerate(batches, start=1):
            now(f"token {tokens} of the answers")
            for request in queue.finish(ended):
                if not sampling.record_kept:
                    yield request, record.completions(queue.sequences_of(request), self.version)
        if sampling.record_kept:
            for request, asked in enumerate(requests):
                if asked.seeds:
                    yield request, record.completions(queue.sequences_of(request), self.version)

    def _sample_packed(self, queue: Queue, record: Record, sampling: SamplingParams) -> Iterator[Tensor]:
        """Sample all sequences of the queue into the record; those that have ended, as they do."""
        device = self._policy.device
        count = min(self._batch_sequences, len(queue.seeds))
        rows = Rows(count, queue.longest, device)
        cache = KVCache(count, queue.longest, device)
        decoder = Decoder(self._model)
        logits_AV = torch.empty(0, device=device)
        divided: dict[int, Tensor] = {}
        running = 0
        while running or queue.waiting:
            if queue.waiting and running < REFILL_BELOW * count:
                free_A = (~rows.running_A).nonzero().squeeze(1)[: queue.waiting]
                begun = queue.take(len(free_A))
                first = divided | self._prefill(queue, cache, begun, rows.sequence_A[rows.running_A], decoder)
                requests_of = queue.request_B[begun].tolist()
                first_AV = torch.stack([first[request] for request in requests_of])
                # Only the last request can have further sequences that begin later.
                divided = {requests_of[-1]: first[requests_of[-1]]}
                logits_AV = first_AV if len(free_A) == count else logits_AV.index_copy(0, free_A, first_AV)
                rows.begin(
                    free_A, begun, uniforms([queue.seeds[sequence] for sequence in begun.tolist()], queue.longest)
                )
                cache.begin(free_A, queue.place_of(rows.sequence_A))
                running = int(rows.running_A.sum())

            token_A, logp_A, kept_AV = draw(logits_AV, rows.uniform(), sampling)
            ended = record.add(rows, token_A, logp_A, kept_AV)
            running -= len(ended)
            yield ended
            if running == 0:
                continue
            if not queue.waiting and running < COMPACT_BELOW * len(rows.sequence_A):
                kept = rows.closed_up()
                rows.keep(kept)
                token_A = token_A[kept]
                cache.keep(kept, queue.stay(rows.sequence_A), queue.place_of(rows.sequence_A))
            cache.advance()
            positions_A = queue.prompt_length_B[rows.sequence_A] + rows.position_A - 1
            logits_AV = decoder.step(token_A, positions_A, cache)

    def _prefill(
        self, queue: Queue, cache: KVCache, begun: Tensor, continued: Tensor, decoder: Decoder
    ) -> dict[int, Tensor]:
        """The logits behind the prompts that come to the cache, (V) by request.

        They are those of the sequences that begin, and take the place of those that no sequence continues any more.
        """
        kept_P, new = queue.stay(continued), queue.enter(begun)
        logits_PV = decoder.prefill([queue.requests[request].prompt_ids for request in new], kept_P, cache)
        return dict(zip(new, logits_PV, strict=True))
