"""Attention plans: what each token sees, handed to an unchanged Hugging Face model.

A model that is loaded with the attention implementation `groupwise` asks the plan that its forward call was given.
The model then runs all its linear layers on one row of packed tokens, and the plan alone knows about prompts that are
shared by a group, about completions, and about the key/value cache.

Axes: T packed tokens, P prompts, B sequences, H heads, K key/value heads, D head width, L positions of a padded block.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

from groupwise.model.backends.packed_cpu.tiles import Tile, tile_attention, tiles_of
from groupwise.model.device import sent

IMPLEMENTATION = "groupwise"


class AttentionPlan(Protocol):
    """Decides what the queries of one forward pass attend to."""

    def attend(self, layer: int, query_1HTD: Tensor, key_1KTD: Tensor, value_1KTD: Tensor, scale: float) -> Tensor:
        """The attention output, with axes (1, T, H, D)."""
        ...


def _attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,  # noqa: ARG001  (part of the interface; always None for an own implementation)
    scaling: float | None = None,
    plan: AttentionPlan | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    if plan is None:
        raise RuntimeError("this architecture does not hand the attention plan to its layers")
    if softcap is not None or s_aux is not None:
        raise RuntimeError("this architecture uses soft-capped scores or attention sinks, which are not supported")
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    layer: Any = module.layer_idx
    return plan.attend(int(layer), query, key, value, scale), None


AttentionInterface.register(IMPLEMENTATION, _attention)


class _Pad(torch.autograd.Function):
    """Rows of a flat tensor into the slots of padded blocks; each row goes to at most one slot.

    Because the map is one to one, the backward pass is a gather too. The generic backward of indexing would have to
    add into rows, which on a CPU costs more than the attention itself. Slots without a row hold some finite row: the
    plan masks them as keys and drops them as queries, so that their gradient is zero.
    """

    @staticmethod
    def forward(ctx: Any, rows_TX: Tensor, row_of_slot_S: Tensor, slot_of_row_R: Tensor, row_R: Tensor) -> Tensor:
        ctx.save_for_backward(slot_of_row_R, row_R)
        ctx.rows = rows_TX.shape[0]
        return rows_TX.index_select(0, row_of_slot_S)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        slot_of_row_R, row_R = ctx.saved_tensors
        grad_SX = grads[0]
        grad_TX = grad_SX.new_zeros(ctx.rows, grad_SX.shape[1])
        grad_TX[row_R] = grad_SX.index_select(0, slot_of_row_R)
        return grad_TX, None, None, None


class _Unpad(torch.autograd.Function):
    """Slots of padded blocks back into flat rows, the inverse of `_Pad`."""

    @staticmethod
    def forward(ctx: Any, slots_SX: Tensor, slot_of_row_R: Tensor) -> Tensor:
        ctx.save_for_backward(slot_of_row_R)
        ctx.slots = slots_SX.shape[0]
        return slots_SX.index_select(0, slot_of_row_R)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        (slot_of_row_R,) = ctx.saved_tensors
        grad_SX = grads[0].new_zeros(ctx.slots, grads[0].shape[1])
        grad_SX[slot_of_row_R] = grads[0]
        return grad_SX, None


@dataclass(frozen=True)
class Block:
    """Consecutive runs of packed tokens laid out as a right-padded block of `rows` × `width` slots.

    row_of_slot_S: packed position that fills each slot (position 0 where the slot is padding).
    slot_of_row_R, row_R: for every packed token of the block, its slot and its packed position.
    lengths: tokens of each run.
    """

    rows: int
    width: int
    row_of_slot_S: Tensor
    slot_of_row_R: Tensor
    row_R: Tensor
    lengths: Tensor

    @staticmethod
    def of_runs(starts: list[int], lengths: list[int], device: torch.device) -> "Block":
        """The block of runs that begin at `starts` and have `lengths` tokens."""
        rows, width = len(starts), max(lengths, default=0)
        start = torch.tensor(starts, dtype=torch.int64).view(rows, 1)
        length = torch.tensor(lengths, dtype=torch.int64).view(rows, 1)
        column = torch.arange(width).view(1, width)
        real = column < length
        position = torch.where(real, start + column, 0)
        slots = torch.arange(rows * width).view(rows, width)
        return Block(
            rows,
            width,
            *(sent(part, device) for part in (position.reshape(-1), slots[real], position[real], length.view(rows))),
        )

    def pad(self, packed_1HTD: Tensor) -> Tensor:
        """(1, H, T, D) packed to (rows, H, width, D)."""
        _, heads, tokens, width = packed_1HTD.shape
        rows_TX = packed_1HTD[0].transpose(0, 1).reshape(tokens, heads * width)
        slots_SX: Tensor = _Pad.apply(rows_TX, self.row_of_slot_S, self.slot_of_row_R, self.row_R)
        return slots_SX.view(self.rows, self.width, heads, width).transpose(1, 2)

    def unpad(self, block: Tensor) -> Tensor:
        """(rows, H, width, D) back to (R, H * D), in the order of `row_R`."""
        slots_SX = block.transpose(1, 2).reshape(self.rows * self.width, -1)
        rows_RX: Tensor = _Unpad.apply(slots_SX, self.slot_of_row_R)
        return rows_RX


# Completions share a padded block while the shortest is at least this share of the longest: a block costs attention for
# its width squared, and every further block costs its own calls.
SHORTEST_IN_BLOCK = 0.6


@dataclass(frozen=True)
class _Bucket:
    """Completions of similar length in one block, with the prompt of each and what each position may see."""

    block: Block
    prompt_B: Tensor
    mask_B1LS: Tensor


@dataclass(frozen=True)
class PackedRuns:
    """Where prompts and completions stand in the packed tokens.

    prompts: start and length of each. starts, lengths, owners: of each completion its first packed position, its
    tokens, and its prompt.
    """

    prompts: Sequence[tuple[int, int]]
    starts: Sequence[int]
    lengths: Sequence[int]
    owners: Sequence[int]


class SharedPromptAttention:
    """Packed prompts, each followed by its completions, which see their prompt and themselves.

    A prompt stands once in the packed tokens, however many completions share it. On a CPU the attention is computed in
    tiles, elsewhere by the fused kernel on padded blocks.
    """

    def __init__(self, runs: PackedRuns, device: torch.device) -> None:
        self.runs, self._device = runs, device

    def attend(self, layer: int, query_1HTD: Tensor, key_1KTD: Tensor, value_1KTD: Tensor, scale: float) -> Tensor:  # noqa: ARG002
        """Attention of prompts to themselves and of completions to their prompt and themselves."""
        query_THD, key_TKD, value_TKD = (rows[0].transpose(0, 1) for rows in (query_1HTD, key_1KTD, value_1KTD))
        return self.attend_rows(query_THD, key_TKD, value_TKD, scale).to(query_1HTD.dtype).unsqueeze(0)

    def attend_rows(self, query_THD: Tensor, key_TKD: Tensor, value_TKD: Tensor, scale: float) -> Tensor:
        """The same for tokens in the first axis, (T, H, D)."""
        if self._device.type == "cpu":
            precise = torch.promote_types(query_THD.dtype, torch.float32)
            query_THD, key_TKD, value_TKD = (rows.to(precise) for rows in (query_THD, key_TKD, value_TKD))
            return tile_attention(query_THD, key_TKD, value_TKD, self._tiles, scale)
        query, key, value = (rows.transpose(0, 1).unsqueeze(0) for rows in (query_THD, key_TKD, value_TKD))
        return self._padded.attend(query.to(value.dtype), key.to(value.dtype), value, scale)[0]

    @cached_property
    def _tiles(self) -> list[Tile]:
        runs = self.runs
        completions: list[list[tuple[int, int]]] = [[] for _ in runs.prompts]
        for start, length, owner in zip(runs.starts, runs.lengths, runs.owners, strict=True):
            completions[owner].append((start, start + length))
        return [
            tile
            for (start, length), own in zip(runs.prompts, completions, strict=True)
            for tile in tiles_of((start, start + length), own, self._device)
        ]

    @cached_property
    def _padded(self) -> "_PaddedAttention":
        return _PaddedAttention(self.runs, self._device)


class _PaddedAttention:
    """Attention on right-padded blocks of completions of similar length."""

    def __init__(self, runs: PackedRuns, device: torch.device) -> None:
        starts, lengths = ([run[part] for run in runs.prompts] for part in (0, 1))
        self._prompts = Block.of_runs(starts, lengths, device)
        self._buckets = []
        for members in similar(runs.lengths):
            block = Block.of_runs([runs.starts[b] for b in members], [runs.lengths[b] for b in members], device)
            prompt_B = sent(torch.tensor([runs.owners[b] for b in members]), device)
            self._buckets.append(_Bucket(block, prompt_B, _mask(self._prompts, block, prompt_B)))
        rows = [self._prompts.row_R, *(bucket.block.row_R for bucket in self._buckets)]
        self._order_T = torch.cat(rows).argsort()

    def attend(self, query_1HTD: Tensor, key_1KTD: Tensor, value_1KTD: Tensor, scale: float) -> Tensor:
        prompts = self._prompts
        key_PKLD, value_PKLD = prompts.pad(key_1KTD), prompts.pad(value_1KTD)
        # Right padding comes after every real token, so that causality alone hides it.
        of_prompts = scaled_dot_product_attention(
            prompts.pad(query_1HTD), key_PKLD, value_PKLD, is_causal=True, scale=scale, enable_gqa=True
        )
        rows = [prompts.unpad(of_prompts)]
        for bucket in self._buckets:
            block, owner = bucket.block, bucket.prompt_B
            key = torch.cat([key_PKLD.index_select(0, owner), block.pad(key_1KTD)], dim=2)
            value = torch.cat([value_PKLD.index_select(0, owner), block.pad(value_1KTD)], dim=2)
            mask = bucket.mask_B1LS.to(query_1HTD.dtype)
            attended = scaled_dot_product_attention(
                block.pad(query_1HTD), key, value, attn_mask=mask, scale=scale, enable_gqa=True
            )
            rows.append(block.unpad(attended))
        flat_TX: Tensor = _Unpad.apply(torch.cat(rows), self._order_T)
        return flat_TX.view(1, query_1HTD.shape[2], query_1HTD.shape[1], value_1KTD.shape[3])


def similar(lengths: Sequence[int]) -> list[list[int]]:
    """Indices of the runs that have tokens, longest first, parted where they become much shorter."""
    order = sorted((b for b, length in enumerate(lengths) if length > 0), key=lambda b: -lengths[b])
    parts: list[list[int]] = []
    for b in order:
        if not parts or lengths[b] < SHORTEST_IN_BLOCK * lengths[parts[-1][0]]:
            parts.append([])
        parts[-1].append(b)
    return parts


def _mask(prompts: Block, completions: Block, prompt_B: Tensor) -> Tensor:
    """0 where a position of a completion may look, minus infinity elsewhere."""
    device = prompt_B.device
    seen_BP = torch.arange(prompts.width, device=device) < prompts.lengths[prompt_B].unsqueeze(1)
    causal_LL = torch.ones(completions.width, completions.width, dtype=torch.bool, device=device).tril()
    seen_B1LS = torch.cat(
        [
            seen_BP[:, None, None, :].expand(-1, 1, completions.width, -1),
            causal_LL[None, None].expand(completions.rows, 1, -1, -1),
        ],
        dim=-1,
    )
    return torch.zeros(seen_B1LS.shape, device=device).masked_fill_(~seen_B1LS, -torch.inf)
