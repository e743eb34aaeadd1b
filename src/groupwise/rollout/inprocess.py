"""Sampling in the trainer's own process: prompts once per group, a row that ends makes room for a waiting sample."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from groupwise.policy.attention import Block
from groupwise.policy.load import Policy
from groupwise.rollout.cache import KVCache, PrefillAttention
from groupwise.rollout.decoder import forward, step_of
from groupwise.rollout.engine import Completion, KeptSets, SampleRequest, SamplingParams
from groupwise.rollout.kept import KeptRecorder
from groupwise.rollout.queue import Queue
from groupwise.rollout.sampling import draw, uniforms

# Waiting samples take the places of ended rows when fewer than this share of the rows is still running, and when none
# waits, the running rows are moved together in the cache. Prefilling some prompts at once costs less than one by one,
# and moving costs one copy of the cache; an ended row costs its share of every further token.
REFILL_BELOW = 0.9
COMPACT_BELOW = 0.75


class InProcessEngine:
    """Samples with the trainer's own weights, or with a copy of them in a reduced precision."""

    def __init__(self, policy: Policy, batch_sequences: int) -> None:
        self._policy = policy
        self._model = policy.sampling_copy()
        self._batch_sequences = batch_sequences
        self.version = 0

    def load_weights(self, weights: Iterable[tuple[str, Tensor]], version: int) -> None:
        """Take over the weights; where engine and trainer share them there is nothing to copy."""
        if self._model is not self._policy.model:
            own = dict(self._model.named_parameters())
            with torch.no_grad():
                for name, weight in weights:
                    own[name].copy_(weight)
        self.version = version

    def generate(self, requests: Sequence[SampleRequest], sampling: SamplingParams) -> list[list[Completion]]:
        """The completions of each request, in the order of its seeds.

        Raises:
            ValueError: for a prompt without tokens, or one that leaves no room in the context.
        """
        answers: list[list[Completion]] = [[] for _ in requests]
        for index, completions in self.stream(requests, sampling):
            answers[index] = completions
        return answers

    def stream(
        self, requests: Sequence[SampleRequest], sampling: SamplingParams
    ) -> Iterator[tuple[int, list[Completion]]]:
        """The same, each with its index as soon as all completions of the request are there; see `generate`."""
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
        rows = min(self._batch_sequences, queue.sequences)
        cache = KVCache(rows, queue.longest, device)
        step = step_of(self._model)
        stops = torch.tensor(sampling.stop_ids, device=device)
        recorder = KeptRecorder()

        tokens_BT = torch.zeros(queue.sequences, queue.longest + 1, dtype=torch.int64, device=device)
        logps_BT = torch.zeros(queue.sequences, queue.longest + 1, dtype=torch.float32, device=device)
        stopped_B = torch.zeros(queue.sequences, dtype=torch.bool, device=device)
        length_B = queue.limit_B.clone()
        # Of the rows that stand in the cache: the sequence of each, how many tokens it has, whether it has not ended.
        sequence_A = torch.full((rows,), -1, dtype=torch.int64, device=device)
        position_A = torch.zeros(rows, dtype=torch.int64, device=device)
        running_A = torch.zeros(rows, dtype=torch.bool, device=device)
        uniform_AT = torch.zeros(rows, queue.longest + 1, dtype=torch.float64, device=device)
        logits_AV = torch.empty(0, device=device)
        first_logits: dict[int, Tensor] = {}
        running = 0
        while running or queue.waiting:
            if queue.waiting and running < REFILL_BELOW * rows:
                free_A = (~running_A).nonzero().squeeze(1)[: queue.waiting]
                begun_A, continued_A = queue.take(len(free_A)), sequence_A[running_A]
                sequence_A[free_A] = begun_A
                first_logits |= self._prefill(queue, cache, begun_A, continued_A)
                requests_A = queue.requests_of(begun_A)
                new_AV = torch.stack([first_logits[request] for request in requests_A])
                # Only the last request can have further samples that begin later.
                first_logits = {requests_A[-1]: first_logits[requests_A[-1]]}
                logits_AV = new_AV if len(new_AV) == rows else logits_AV.index_copy(0, free_A, new_AV)
                cache.begin(free_A, queue.place_of(sequence_A))
                position_A[free_A] = 0
                running_A[free_A] = True
                uniform_AT[free_A, :-1] = uniforms(queue.seeds(begun_A), queue.longest).to(device)
                running = int(running_A.sum())

            uniform_A = uniform_AT.gather(1, position_A.unsqueeze(1)).squeeze(1)
            token_A, logp_A, kept_AV = draw(logits_AV, uniform_A, sampling)
            if kept_AV is not None:
                recorder.record(sequence_A[running_A], kept_AV[running_A])
            # What a row draws after its end lands behind it.
            tokens_BT[sequence_A, position_A] = token_A
            logps_BT[sequence_A, position_A] = logp_A
            position_A = (position_A + 1).clamp_(max=queue.longest)
            stopping_A = (token_A.unsqueeze(1) == stops).any(dim=1) & running_A
            stopped = sequence_A[stopping_A]
            length_B[stopped] = position_A[stopping_A]
            stopped_B[stopped] = True
            ended_A = running_A & (length_B[sequence_A] <= position_A)
            running_A = running_A & ~ended_A
            before, running = running, int(running_A.sum())
            if running < before:
                for request in queue.finish(sequence_A[ended_A]):
                    if not sampling.record_kept:
                        yield request, self._completions(queue.sequences_of(request), tokens_BT, logps_BT, length_B, stopped_B, [])
            if running == 0:
                continue
            if not queue.waiting and running < COMPACT_BELOW * len(sequence_A):
                kept = running_A.nonzero().squeeze(1)
                sequence_A, token_A, position_A = sequence_A[kept], token_A[kept], position_A[kept]
                running_A, uniform_AT = running_A[kept], uniform_AT[kept]
                cache.keep(kept, queue.stay(sequence_A), queue.place_of(sequence_A))
            cache.advance()
            hidden_AD = step(token_A, queue.prompt_length(sequence_A) + position_A - 1, cache)
            logits_AV = policy_logits(self._model, hidden_AD)

        if sampling.record_kept:
            kept_B = recorder.sets(length_B.tolist())
            for request in range(len(requests)):
                if requests[request].seeds:
                    yield request, self._completions(queue.sequences_of(request), tokens_BT, logps_BT, length_B, stopped_B, kept_B)

    def _prefill(self, queue: Queue, cache: KVCache, begun: Tensor, continued: Tensor) -> dict[int, Tensor]:
        """Prompts of the sequences that begin take the places of those that no sequence continues any more.

        Returns:
            The logits after each new prompt, by request.
        """
        device = self._policy.device
        kept_P = queue.stay(continued)
        requests = queue.enter(begun)
        new = [queue.prompt_ids(request) for request in requests]
        lengths = [len(ids) for ids in new]
        starts = np.cumsum([0, *lengths])[:-1].tolist()
        block = Block.of_runs(starts, lengths, device)
        cache.change_prompts(kept_P, block)
        if not new:
            return {}
        ids_T = torch.from_numpy(np.concatenate(new)).to(device)
        positions_T = torch.cat([torch.arange(length, device=device) for length in lengths])
        hidden_TD = forward(self._model, ids_T, positions_T, PrefillAttention(block, cache))
        last = torch.tensor(starts, device=device) + block.lengths - 1
        return dict(zip(requests, policy_logits(self._model, hidden_TD[last]), strict=True))

    def _completions(
        self,
        sequences: Tensor,
        tokens_BT: Tensor,
        logps_BT: Tensor,
        length_B: Tensor,
        stopped_B: Tensor,
        kept_B: Sequence[KeptSets],
    ) -> list[Completion]:
        """The finished sequences of a request."""
        return [
            Completion(
                ids=tokens_BT[b, : (length := int(length_B[b]))].cpu().numpy().copy(),
                logps=logps_BT[b, :length].cpu().numpy().copy(),
                finish_reason="stop" if stopped_B[b] else "length",
                version=self.version,
                kept=kept_B[b] if kept_B else None,
            )
            for b in sequences.tolist()
        ]


def policy_logits(model: torch.nn.Module, hidden: Tensor) -> Tensor:
    """Float32 logits of hidden states."""
    logits: Tensor = model.get_output_embeddings()(hidden)  # type: ignore[operator]
    return logits.float()
