"""Divides a step's groups over the ranks so that each has about as many tokens to train on."""

import json
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load, save
from torch import Tensor

from groupwise.completion import KeptSets
from groupwise.config import TrainConfig
from groupwise.ranks import Ranks
from groupwise.training.step_batch import StepBatch, division

# Groups stay where they are as long as no rank has so many times the tokens that it could have.
WORTHWHILE = 1.05


def balanced(batch: StepBatch, config: TrainConfig, step: int, ranks: Ranks) -> StepBatch:
    """This rank's groups of the step after the division, in order of their positions.

    Balanced within each optimizer step of the first epoch; later epochs mix the groups again and keep the division.
    """
    if ranks.size == 1:
        return batch
    groups, positions = batch.groups(), batch.positions(ranks)
    tokens = [int(batch.lengths_E[episodes].sum()) for episodes in groups]
    everywhere = ranks.gather(list(zip(positions, tokens, strict=True)), "the sizes of the groups")
    size_of = {position: size for own in everywhere for position, size in own}
    holder = {position: rank for rank, own in enumerate(everywhere) for position, _ in own}
    ordered = sorted(size_of)
    parts = [[ordered[g] for g in part] for part in division(len(ordered), config, step, 0)]
    owner = assigned(parts, size_of, ranks.size)
    if _most(parts, size_of, holder) <= WORTHWHILE * _most(parts, size_of, owner):
        return batch
    leaving = [i for i, position in enumerate(positions) if owner[position] != ranks.rank]
    sent = _bytes_of(_only(batch, leaving))
    received = [
        _from_bytes(part)
        for rank, part in enumerate(ranks.gather_bytes(sent, "the exchange of groups"))
        if rank != ranks.rank
    ]
    staying = [i for i, position in enumerate(positions) if owner[position] == ranks.rank]
    arriving = [_only(b, [i for i, p in enumerate(b.position_P) if owner[p] == ranks.rank]) for b in received]
    return _joined([_only(batch, staying), *arriving])


def assigned(parts: Sequence[Sequence[int]], size_of: dict[int, int], ranks: int) -> dict[int, int]:
    """The rank of each group: within each part the largest first, each to the rank that has the fewest tokens."""
    owner: dict[int, int] = {}
    total = [0] * ranks
    for part in parts:
        load_of = [0] * ranks
        for position in sorted(part, key=lambda p: (-size_of[p], p)):
            rank = min(range(ranks), key=lambda r: (load_of[r], total[r], r))
            owner[position] = rank
            load_of[rank] += size_of[position]
            total[rank] += size_of[position]
    return owner


def _most(parts: Sequence[Sequence[int]], size_of: dict[int, int], owner: dict[int, int]) -> int:
    """The tokens that are waited for: of the fullest rank in each part."""
    most = 0
    for part in parts:
        loads: dict[int, int] = {}
        for position in part:
            loads[owner[position]] = loads.get(owner[position], 0) + size_of[position]
        most += max(loads.values(), default=0)
    return most


def _only(batch: StepBatch, groups: Sequence[int]) -> StepBatch:
    """These of `batch.groups()`, numbered from 0."""
    own = batch.groups()
    taken = batch.take(np.concatenate([*(own[g] for g in groups), np.empty(0, np.int64)]))
    numbers = list(dict.fromkeys(taken.group_E.tolist()))
    new = {number: i for i, number in enumerate(numbers)}
    return replace(
        taken,
        prompt_ids_P=tuple(batch.prompt_ids_P[p] for p in numbers),
        domain_P=tuple(batch.domain_P[p] for p in numbers),
        position_P=tuple(batch.position_P[p] for p in numbers),
        group_E=torch.tensor([new[p] for p in taken.group_E.tolist()], dtype=torch.int64),
    )


def _joined(batches: Sequence[StepBatch]) -> StepBatch:
    """The groups of all these batches, in order of their positions."""
    # A rank without groups does not know which of its streams are there.
    filled = [batch for batch in batches if len(batch.group_E)]
    if not filled:
        return batches[0]
    groups = episodes = 0
    shifted = []
    for batch in filled:
        shifted.append(replace(batch, group_E=batch.group_E + groups, episode_B=batch.episode_B + episodes))
        groups, episodes = groups + len(batch.position_P), episodes + len(batch.group_E)

    def whole(values: list[Any]) -> Any:
        if values[0] is None:
            return None
        return torch.cat(values) if isinstance(values[0], Tensor) else sum(values, ())

    together = {field.name: whole([getattr(batch, field.name) for batch in shifted]) for field in fields(StepBatch)}
    joined = StepBatch(**together)
    return _only(joined, np.argsort(joined.position_P).tolist())


def _bytes_of(batch: StepBatch) -> bytes:
    """Its arrays in the form of safetensors, ragged ones end to end with their lengths."""
    tensors: dict[str, Tensor] = {}

    def ragged(name: str, arrays: Sequence[NDArray[Any]]) -> None:
        tensors[f"{name}/all"] = torch.from_numpy(np.concatenate(arrays)) if arrays else torch.zeros(0)
        tensors[f"{name}/lengths"] = torch.tensor([len(array) for array in arrays], dtype=torch.int64)

    for field in fields(batch):
        value = getattr(batch, field.name)
        if isinstance(value, Tensor):
            tensors[field.name] = value.clone()
        elif field.name in ("prompt_ids_P", "token_ids_B", "sampled_B") and value is not None:
            ragged(field.name, value)
    if batch.kept_E is not None:
        ragged("kept_ids_E", [kept.ids for kept in batch.kept_E])
        ragged("kept_counts_E", [kept.counts_T for kept in batch.kept_E])
    named = {"domain_P": batch.domain_P, "position_P": batch.position_P}
    return save(tensors, {"groups": json.dumps(named)})


def _from_bytes(content: bytes) -> StepBatch:
    tensors = load(content)
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    named = json.loads(header["__metadata__"]["groups"])

    def ragged(name: str) -> tuple[NDArray[Any], ...] | None:
        if f"{name}/all" not in tensors:
            return None
        ends = np.cumsum(tensors.pop(f"{name}/lengths").numpy())
        return tuple(np.split(tensors.pop(f"{name}/all").numpy(), ends[:-1])) if len(ends) else ()

    ids, counts = ragged("kept_ids_E"), ragged("kept_counts_E")
    kept = None if ids is None or counts is None else tuple(map(KeptSets, ids, counts))
    arrays = {name: ragged(name) for name in ("prompt_ids_P", "token_ids_B", "sampled_B")}
    streams = {field.name: tensors.get(field.name) for field in fields(StepBatch)}
    words = {"domain_P": tuple(named["domain_P"]), "position_P": tuple(named["position_P"])}
    values: dict[str, Any] = {**streams, **arrays, "kept_E": kept, **words}
    return StepBatch(**values)
