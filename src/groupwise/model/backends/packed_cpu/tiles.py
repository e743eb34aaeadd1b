"""Attention of packed groups in dense tiles: plain products, whose operands are slices of the packed tokens.

A tile is a run of queries, with their own keys and in front of them those of its context: the prompt, and what stands
before the tile in a run that was cut. Nothing is padded. On a CPU this takes less than the fused kernel, most of all in
the backward pass. A tile's scores are the only tensor that grows with queries times keys. They are not kept: the
backward pass computes them again, which costs less than to keep them.

Axes: T packed tokens, H heads, K key/value heads, D head width, Q queries of a tile and all heads that share a key
head, S keys that a tile sees.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

# Queries of a tile: few enough that little is computed above the diagonal, many enough that calls are amortised.
QUERIES = 128

Run = tuple[int, int]


@dataclass(frozen=True)
class Tile:
    """Packed tokens [first, end) that see all keys of `context`, ranges in front of them, and their own as masked.

    mask_1TS: 0 where a token may look, minus infinity elsewhere; over the context and then the tile itself.
    """

    first: int
    end: int
    context: tuple[Run, ...]
    mask_1TS: Tensor

    def keys(self, packed_KTD: Tensor) -> Tensor:
        """The rows that the tile sees."""
        if self.seen_from is not None:
            return packed_KTD[:, self.seen_from : self.end]
        parts = [packed_KTD[:, start:end] for start, end in self.context]
        return torch.cat([*parts, packed_KTD[:, self.first : self.end]], dim=1)

    @cached_property
    def seen_from(self) -> int | None:
        """Where the keys begin, if they are one run."""
        if not self.context:
            return self.first
        (start, end), *more = self.context
        return start if end == self.first and not more else None

    @cached_property
    def widths(self) -> list[int]:
        """Keys in each range of the context, and of the tile itself."""
        return [end - start for start, end in (*self.context, (self.first, self.end))]


def tiles_of(prompt: Run, completions: Sequence[Run], device: torch.device) -> list[Tile]:
    """Tiles of a prompt and of the completions that follow it in the packed tokens, each as [first, end).

    Short neighbours share a tile, whose mask keeps them apart; long runs are cut.
    """
    parts: list[list[Run]] = []
    for run in [prompt, *(run for run in completions if run[0] < run[1])]:
        if parts and run[1] - parts[-1][0][0] <= QUERIES:
            parts[-1].append(run)
        else:
            parts.append([run])
    return [
        _tile(prompt, runs, first, min(first + QUERIES, runs[-1][1]), device)
        for runs in parts
        for first in range(runs[0][0], runs[-1][1], QUERIES)
    ]


def _tile(prompt: Run, runs: Sequence[Run], first: int, end: int, device: torch.device) -> Tile:
    """Tokens [first, end) of one run, or of several that they hold whole."""
    start = runs[0][0]
    before = [] if start == prompt[0] else [prompt]
    if start < first:
        before.append((start, first))
    if len(before) == 2 and before[0][1] == before[1][0]:
        before = [(before[0][0], before[1][1])]
    hidden_TT = torch.ones(end - first, end - first, dtype=torch.bool).triu_(1)
    if len(runs) > 1:
        run_T = torch.repeat_interleave(torch.tensor([stop - begin for begin, stop in runs]))
        apart_TT = run_T.unsqueeze(1) != run_T
        if start == prompt[0]:
            apart_TT[:, : prompt[1] - prompt[0]] = False
        hidden_TT |= apart_TT
    mask_TT = torch.zeros(hidden_TT.shape).masked_fill_(hidden_TT, -torch.inf)
    mask_TS = pad(mask_TT, (sum(stop - begin for begin, stop in before), 0))
    return Tile(first, end, tuple(before), mask_TS.unsqueeze(0).to(device))


class _TileAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, query_THD: Tensor, key_TKD: Tensor, value_TKD: Tensor, tiles: Sequence[Tile], scale: float
    ) -> Tensor:
        heads = key_TKD.shape[1]
        repeats = query_THD.shape[1] // heads
        key_KTD, value_KTD = key_TKD.transpose(0, 1), value_TKD.transpose(0, 1)
        attended = []
        with torch.autocast(query_THD.device.type, enabled=False):
            for tile, query_KQD in zip(tiles, _by_tile(query_THD, heads, tiles), strict=True):
                shares_KQS = _shares(tile, query_KQD, key_KTD, repeats, scale)
                attended.append(_by_token(torch.bmm(shares_KQS, tile.keys(value_KTD)), repeats))
        ctx.save_for_backward(query_THD, key_TKD, value_TKD)
        ctx.tiles, ctx.scale = tiles, scale
        return torch.cat(attended)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        query_THD, key_TKD, value_TKD = ctx.saved_tensors
        tiles, scale, heads = ctx.tiles, ctx.scale, key_TKD.shape[1]
        repeats = query_THD.shape[1] // heads
        key_KTD, value_KTD = key_TKD.transpose(0, 1), value_TKD.transpose(0, 1)
        grad_query, grad_key_TKD, grad_value_TKD = [], torch.empty_like(key_TKD), torch.empty_like(value_TKD)
        queries, slopes = _by_tile(query_THD, heads, tiles), _by_tile(grads[0], heads, tiles)
        for tile, query_KQD, grad_KQD in zip(tiles, queries, slopes, strict=True):
            shares_KQS = _shares(tile, query_KQD, key_KTD, repeats, scale)
            _hand_back(tile, torch.bmm(shares_KQS.transpose(1, 2), grad_KQD), grad_value_TKD)
            slope_KQS = torch.bmm(grad_KQD, tile.keys(value_KTD).transpose(1, 2))
            slope_KQS = torch._softmax_backward_data(slope_KQS, shares_KQS, -1, slope_KQS.dtype)
            grad_query.append(_by_token(_scaled(slope_KQS, tile.keys(key_KTD), scale), repeats))
            _hand_back(tile, _scaled(slope_KQS.transpose(1, 2), query_KQD, scale), grad_key_TKD)
        return torch.cat(grad_query), grad_key_TKD, grad_value_TKD, None, None


def tile_attention(
    query_THD: Tensor, key_TKD: Tensor, value_TKD: Tensor, tiles: Sequence[Tile], scale: float
) -> Tensor:
    """Attention of packed tokens, (T, H, D).

    The tiles hold every token once, in order. All rows are in one precision, in which everything is computed.
    """
    attended_THD: Tensor = _TileAttention.apply(query_THD, key_TKD, value_TKD, tiles, scale)
    return attended_THD


def _shares(tile: Tile, query_KQD: Tensor, key_KTD: Tensor, repeats: int, scale: float) -> Tensor:
    """The softmax of a tile's scores."""
    mask_1QS = tile.mask_1TS.to(query_KQD.dtype)
    if repeats > 1:
        mask_1QS = mask_1QS.repeat_interleave(repeats, dim=1)
    return torch.baddbmm(mask_1QS, query_KQD, tile.keys(key_KTD).transpose(1, 2), alpha=scale).softmax(dim=-1)


def _scaled(one_KXS: Tensor, other_KSD: Tensor, scale: float) -> Tensor:
    """Their products times a factor, in one pass."""
    return torch.baddbmm(one_KXS.new_empty(()), one_KXS, other_KSD, beta=0, alpha=scale)


def _hand_back(tile: Tile, rows_KSD: Tensor, summed_TKD: Tensor) -> None:
    """Add what the keys of a tile were given to their packed tokens.

    Tiles come in order: nothing was added yet to the tile's own tokens, and its context is there already.
    """
    *context, own_KTD = rows_KSD.split(tile.widths, dim=1)
    summed_TKD[tile.first : tile.end] = own_KTD.transpose(0, 1)
    for (start, end), part_KTD in zip(tile.context, context, strict=True):
        summed_TKD[start:end].add_(part_KTD.transpose(0, 1))


def _by_tile(rows_THD: Tensor, heads: int, tiles: Sequence[Tile]) -> tuple[Tensor, ...]:
    """(K, Q, D) of each tile: the query heads that share a key head stand side by side as rows of one matrix."""
    tokens, query_heads, width = rows_THD.shape
    repeats = query_heads // heads
    rows_KQD = rows_THD.reshape(tokens, heads, -1, width).transpose(0, 1).reshape(heads, -1, width)
    parts: tuple[Tensor, ...] = rows_KQD.split([(tile.end - tile.first) * repeats for tile in tiles], dim=1)
    return parts


def _by_token(rows_KQD: Tensor, repeats: int) -> Tensor:
    """(Q, D) of every key head to the tokens and heads of the tile."""
    if repeats == 1:
        return rows_KQD.transpose(0, 1)
    heads, _, width = rows_KQD.shape
    return rows_KQD.view(heads, -1, repeats, width).transpose(0, 1).reshape(-1, heads * repeats, width)
