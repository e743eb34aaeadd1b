"""Sampling in the trainer's own process: each prompt once per group, a preallocated cache, finished rows leave."""

from collections.abc import Iterable, Iterator, Sequence
from typing import cast

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from groupwise.policy.attention import Block
from groupwise.policy.load import Policy
from groupwise.rollout.cache import DecodeAttention, KVCache, PrefillAttention
from groupwise.rollout.engine import Completion, KeptSets, SampleRequest, SamplingParams
from groupwise.rollout.kept import KeptRecorder
from groupwise.rollout.sampling import draw, uniforms

# Rows are moved together in the cache when fewer than this share of them is still running. Moving costs one copy of
# the cache; a finished row costs its share of every further token.
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
        parts: list[list[Completion]] = [[] for _ in requests]
        for wave in self._waves(requests):
            for place, completions in self._decode([request for _, request in wave], sampling):
                index = wave[place][0]
                parts[index] += completions
                if len(parts[index]) == len(requests[index].seeds):
                    yield index, parts[index]

    def _waves(self, requests: Sequence[SampleRequest]) -> list[list[tuple[int, SampleRequest]]]:
        """Requests with their index, cut into batches of at most `batch_sequences` sequences; a larger group is
        divided."""
        waves: list[list[tuple[int, SampleRequest]]] = [[]]
        room = self._batch_sequences
        for index, request in enumerate(requests):
            seeds = request.seeds
            while seeds:
                if room == 0:
                    waves.append([])
                    room = self._batch_sequences
                waves[-1].append((index, SampleRequest(request.prompt_ids, seeds[:room])))
                taken = min(room, len(seeds))
                seeds, room = seeds[taken:], room - taken
        return [wave for wave in waves if wave]

    @torch.inference_mode()
    def _decode(
        self, requests: Sequence[SampleRequest], sampling: SamplingParams
    ) -> Iterator[tuple[int, list[Completion]]]:
        policy, device = self._policy, self._policy.device
        lengths = [len(request.prompt_ids) for request in requests]
        rows = sum(len(request.seeds) for request in requests)
        limits = [min(sampling.max_new_tokens, policy.max_context_tokens - length) for length in lengths]
        limit = max(limits)
        uniforms_BT = uniforms([seed for request in requests for seed in request.seeds], limit).to(device)
        prompt_of_row_B = torch.repeat_interleave(torch.tensor([len(request.seeds) for request in requests])).to(device)
        prompt_length_B = torch.tensor(lengths, device=device)[prompt_of_row_B]
        stops = torch.tensor(sampling.stop_ids, device=device)
        starts = np.cumsum([0, *lengths[:-1]]).tolist()
        prompts = Block.of_runs(starts, lengths, device)
        cache = KVCache(prompts, prompt_of_row_B, max(lengths) + limit)

        tokens_BT = torch.zeros(rows, limit, dtype=torch.int64, device=device)
        logps_BT = torch.zeros(rows, limit, dtype=torch.float32, device=device)
        length_B = torch.tensor(limits, device=device)[prompt_of_row_B]
        stopped_B = torch.zeros(rows, dtype=torch.bool, device=device)

        hidden_TD = self._forward(
            torch.from_numpy(np.concatenate([request.prompt_ids for request in requests])).to(device),
            torch.cat([torch.arange(length, device=device) for length in lengths]),
            PrefillAttention(prompts, cache),
        )
        ends_P = torch.tensor(starts, device=device) + torch.tensor(lengths, device=device) - 1
        logits_BV = policy_logits(self._model, hidden_TD[ends_P])[prompt_of_row_B]

        def finished(place: int) -> tuple[int, list[Completion]]:
            rows_of = range(first_row_P[place], first_row_P[place + 1])
            return place, [
                Completion(
                    ids=tokens_BT[row, : (length := int(length_B[row]))].cpu().numpy().copy(),
                    logps=logps_BT[row, :length].cpu().numpy().copy(),
                    finish_reason="stop" if stopped_B[row] else "length",
                    version=self.version,
                    kept=kept_B[row],
                )
                for row in rows_of
            ]

        first_row_P = np.cumsum([0, *(len(request.seeds) for request in requests)]).tolist()
        kept_B: list[KeptSets] | list[None] = [None] * rows
        waiting_P = np.diff(first_row_P)
        running = rows
        recorder = KeptRecorder()
        # `row_A` are the rows that still stand in the cache, `running_A` those of them that have not ended.
        row_A = torch.arange(rows, device=device)
        running_A = torch.ones(rows, dtype=torch.bool, device=device)
        decode = DecodeAttention(cache)
        for position in range(limit):
            token_A, logp_A, logps_AV = draw(logits_BV, uniforms_BT[row_A, position], sampling)
            if sampling.record_kept:
                recorder.record(row_A, logps_AV > -torch.inf)
            tokens_BT[row_A, position] = token_A
            logps_BT[row_A, position] = logp_A
            stopped = row_A[(token_A.unsqueeze(1) == stops).any(dim=1) & running_A]
            length_B[stopped] = position + 1
            stopped_B[stopped] = True
            ended_A = running_A & (length_B[row_A] <= position + 1)
            running_A = running_A & ~ended_A
            before, running = running, int(running_A.sum())
            if running < before and not sampling.record_kept:
                ended = prompt_of_row_B[row_A[ended_A]].cpu().numpy()
                waiting_P -= np.bincount(ended, minlength=len(waiting_P))
                yield from (finished(int(place)) for place in np.unique(ended) if waiting_P[place] == 0)
            if running == 0:
                break
            if running < COMPACT_BELOW * len(row_A):
                kept = running_A.nonzero().squeeze(1)
                cache.keep(kept)
                row_A, token_A, running_A = row_A[kept], token_A[kept], running_A[kept]
            hidden_AD = self._forward(token_A, prompt_length_B[row_A] + position, decode)
            cache.filled += 1
            logits_BV = policy_logits(self._model, hidden_AD)

        if sampling.record_kept:
            kept_B = recorder.sets(length_B.tolist())
            yield from (finished(place) for place in range(len(requests)))

    def _forward(self, ids_T: Tensor, positions_T: Tensor, plan: PrefillAttention | DecodeAttention) -> Tensor:
        backbone = getattr(self._model, self._policy.model.base_model_prefix)
        hidden: Tensor = backbone(
            input_ids=ids_T.unsqueeze(0), position_ids=positions_T.unsqueeze(0), use_cache=False, plan=plan
        ).last_hidden_state[0]
        return hidden


def policy_logits(model: torch.nn.Module, hidden: Tensor) -> Tensor:
    """Float32 logits of hidden states."""
    head = cast(PreTrainedModel, model).get_output_embeddings()
    logits: Tensor = head(hidden)
    return logits.float()
