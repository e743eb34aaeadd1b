"""The key/value cache of the in-process engine, and the attention plans that fill and read it.

A prompt stands once for all sequences that continue it. What they sample stands in a ring of columns: every step
writes one column for all sequences, whenever they began, and a mask per sequence hides what is not its own. Rotary
keys carry their position, so that the order of the columns means nothing.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, baddbmm
from torch.nn.functional import pad, scaled_dot_product_attention

from groupwise.model.backends.attention import Block

# Columns that the ring grows by, at least, until it has all of them. Products over a part of a buffer cost two to four
# times as much as over a whole one, so that all columns there are take part, and those that nobody sees are lost.
GROWTH = 32


@dataclass(frozen=True)
class _Grid:
    """The standing rows by prompt, as many places for each prompt as the largest group needs.

    row_of_place: the (row, key head) that stands at each (prompt, key head, place), any one where there is none;
    place_of_row: the (prompt, key head, place) of each (row, key head). Both count in flattened axes.
    """

    row_of_place: Tensor
    place_of_row: Tensor
    width: int

    @staticmethod
    def of(prompt_A: Tensor, prompts: int, key_heads: int) -> "_Grid":
        """The places of rows with these prompts."""
        row_A, head_K = (torch.arange(count, device=prompt_A.device) for count in (len(prompt_A), key_heads))
        order_A = prompt_A.argsort(stable=True)
        count_P = prompt_A.bincount(minlength=prompts)
        width = int(count_P.max())
        place_A = torch.empty_like(order_A)
        place_A[order_A] = row_A - (count_P.cumsum(0) - count_P)[prompt_A[order_A]]
        place_AK = (prompt_A.unsqueeze(1) * key_heads + head_K) * width + place_A.unsqueeze(1)
        row_of_place = torch.zeros(prompts * key_heads * width, dtype=torch.int64, device=prompt_A.device)
        row_of_place[place_AK] = row_A.unsqueeze(1) * key_heads + head_K
        return _Grid(row_of_place, place_AK.view(-1), width)

    def spread(self, rows_BRX: Tensor) -> Tensor:
        """(A · K, R, X) of the rows to (P · K, places · R, X)."""
        _, repeats, last = rows_BRX.shape
        return rows_BRX.index_select(0, self.row_of_place).view(-1, self.width * repeats, last)

    def gather(self, placed_QWX: Tensor, repeats: int) -> Tensor:
        """Back to (A · K, R, X)."""
        return placed_QWX.view(-1, repeats, placed_QWX.shape[2]).index_select(0, self.place_of_row)


class KVCache:
    """Keys and values of A standing sequences and of the prompts that they continue."""

    def __init__(self, rows: int, columns: int, device: torch.device) -> None:
        self._columns = columns
        self._device = device
        self._prompts: dict[int, tuple[Tensor, Tensor]] = {}
        self._rings: dict[int, tuple[Tensor, Tensor]] = {}
        self._prompt_length_P = torch.empty(0, dtype=torch.int64, device=device)
        self._hidden_AC = torch.ones(rows, min(GROWTH, columns), dtype=torch.bool, device=device)
        self._clock = 0

    def change_prompts(self, kept_P: Tensor, new: Block) -> None:
        """These prompts stay, in this order, and room is made behind them for new ones; see `fill`."""
        self._kept_P = kept_P
        self._prompt_length_P = torch.cat([self._prompt_length_P[kept_P], new.lengths])
        if new.rows == 0:
            width = int(self._prompt_length_P.max())
            self._prompts = {
                layer: (keys[kept_P, :, :width].contiguous(), values[kept_P, :, :width].contiguous())
                for layer, (keys, values) in self._prompts.items()
            }

    def fill(self, layer: int, key_PKLD: Tensor, value_PKLD: Tensor) -> None:
        """The right-padded blocks of new prompts, of one layer."""
        blocks: tuple[Tensor, Tensor] = (key_PKLD, value_PKLD)
        width = int(self._prompt_length_P.max())
        stored = []
        for index, block in enumerate(blocks):
            parts = [block]
            if len(self._kept_P):
                parts = [self._prompts[layer][index].index_select(0, self._kept_P), block]
            widened = [pad(part[:, :, :width], (0, 0, 0, max(0, width - part.shape[2]))) for part in parts]
            stored.append(torch.cat(widened))
        self._prompts[layer] = (stored[0], stored[1])

    def begin(self, row_A: Tensor, prompt_A: Tensor) -> None:
        """New sequences take these rows; all rows then continue the prompts `prompt_A`."""
        self._hidden_AC[row_A] = True
        self._continue(prompt_A)

    def keep(self, row_A: Tensor, kept_P: Tensor, prompt_A: Tensor) -> None:
        """Only these rows and prompts stay; the rows then continue the prompts `prompt_A`.

        A row that moves takes a place before its own; the others stay where they are.
        """
        moved = (row_A != torch.arange(len(row_A), device=self._device)).nonzero().squeeze(1)
        sources = row_A[moved]
        for buffer in [self._hidden_AC, *(buffer for ring in self._rings.values() for buffer in ring)]:
            buffer[moved] = buffer[sources]
        self._hidden_AC = self._hidden_AC[: len(row_A)]
        self._rings = {
            layer: (keys[: len(row_A)], values[: len(row_A)]) for layer, (keys, values) in self._rings.items()
        }
        self._prompt_length_P = self._prompt_length_P[kept_P]
        if len(kept_P) < len(next(iter(self._prompts.values()))[0]):
            self._prompts = {
                layer: (keys.index_select(0, kept_P), values.index_select(0, kept_P))
                for layer, (keys, values) in self._prompts.items()
            }
        self._continue(prompt_A)

    def advance(self) -> None:
        """The next step begins: every row sees the column that it is about to write."""
        capacity = self._hidden_AC.shape[1]
        if self._clock == capacity < self._columns:
            more = min(max(GROWTH, capacity // 8), self._columns - capacity)
            self._hidden_AC = pad(self._hidden_AC, (0, more), value=True)
            # One after the other, so that the narrow ring of one layer alone stands next to its wide one.
            for layer in self._rings:
                keys_AKCD, values_AKCD = self._rings[layer]
                self._rings[layer] = (_widened(keys_AKCD, more), _widened(values_AKCD, more))
                del keys_AKCD, values_AKCD
        self._column = self._clock % self._hidden_AC.shape[1]
        self._clock += 1
        self._hidden_AC[:, self._column] = False
        self._mask_B1C = self._mask(self._hidden_AC.unsqueeze(1))

    def attend(self, layer: int, query_AHD: Tensor, key_AKD: Tensor, value_AKD: Tensor, scale: float) -> Tensor:
        """Write the newest token of every row and attend to its prompt and all its tokens: (A, H, D)."""
        rows, heads, width = query_AHD.shape
        key_heads, columns = key_AKD.shape[1], self._hidden_AC.shape[1]
        if layer not in self._rings:
            self._rings[layer] = (
                key_AKD.new_zeros(rows, key_heads, columns, width),
                value_AKD.new_zeros(rows, key_heads, columns, value_AKD.shape[2]),
            )
        keys_AKCD, values_AKCD = self._rings[layer]
        keys_AKCD[:, :, self._column] = key_AKD
        values_AKCD[:, :, self._column] = value_AKD
        keys_BCD, values_BCD = (ring_AKCD.flatten(0, 1) for ring_AKCD in (keys_AKCD, values_AKCD))
        keys_QLD, values_QLD = (stored.flatten(0, 1) for stored in self._prompts[layer])
        grid, repeats, prompt = self._grid, heads // key_heads, keys_QLD.shape[1]
        query_BRD = query_AHD.reshape(-1, repeats, width)
        placed_QWL = baddbmm(self._prompt_mask_Q1L, grid.spread(query_BRD), keys_QLD.transpose(1, 2), alpha=scale)
        own_BRC = baddbmm(self._mask_B1C, query_BRD, keys_BCD.transpose(1, 2), alpha=scale)
        scores_BRS = torch.cat([grid.gather(placed_QWL, repeats), own_BRC], dim=-1)
        shares_BRS = scores_BRS.softmax(dim=-1, dtype=torch.float32).to(query_AHD.dtype)
        prompt_BRL, own_BRC = (part.contiguous() for part in shares_BRS.split([prompt, columns], dim=-1))
        of_prompt_BRD = grid.gather(grid.spread(prompt_BRL) @ values_QLD, repeats)
        return baddbmm(of_prompt_BRD, own_BRC, values_BCD).view(rows, heads, -1)

    def _continue(self, prompt_A: Tensor) -> None:
        keys = next(iter(self._prompts.values()))[0]
        self._key_heads, self._dtype = keys.shape[1], keys.dtype
        self._grid = _Grid.of(prompt_A, len(keys), self._key_heads)
        column = torch.arange(keys.shape[2], device=self._device)
        self._prompt_mask_Q1L = self._mask((column >= self._prompt_length_P.unsqueeze(1)).unsqueeze(1))

    def _mask(self, hidden_X1Y: Tensor) -> Tensor:
        """Minus infinity where hidden, for every key head: (X · K, 1, Y)."""
        mask_X1Y = torch.zeros(hidden_X1Y.shape, dtype=self._dtype, device=self._device)
        return mask_X1Y.masked_fill_(hidden_X1Y, -torch.inf).repeat_interleave(self._key_heads, dim=0)


def _widened(ring_AKCD: Tensor, more: int) -> Tensor:
    """With so many further columns; they are zero, since what is not a number would pass through the mask."""
    rows, key_heads, columns, width = ring_AKCD.shape
    wide = ring_AKCD.new_empty(rows, key_heads, columns + more, width)
    wide[:, :, :columns] = ring_AKCD
    wide[:, :, columns:] = 0.0
    return wide


@dataclass
class PrefillAttention:
    """Prompts attend to themselves; their keys and values go to the cache."""

    prompts: Block
    cache: KVCache

    def attend(self, layer: int, query_1HTD: Tensor, key_1KTD: Tensor, value_1KTD: Tensor, scale: float) -> Tensor:
        """See `AttentionPlan`."""
        key, value = self.prompts.pad(key_1KTD), self.prompts.pad(value_1KTD)
        self.cache.fill(layer, key, value)
        attended = scaled_dot_product_attention(
            self.prompts.pad(query_1HTD), key, value, is_causal=True, scale=scale, enable_gqa=True
        )
        _, heads, tokens, _ = query_1HTD.shape
        return self.prompts.unpad(attended).view(1, tokens, heads, -1)


@dataclass
class DecodeAttention:
    """Each row of the cache attends with its newest token; the rows stand in the packed axis."""

    cache: KVCache

    def attend(self, layer: int, query_1HTD: Tensor, key_1KTD: Tensor, value_1KTD: Tensor, scale: float) -> Tensor:
        """See `AttentionPlan`."""
        query, key, value = (tensor[0].transpose(0, 1) for tensor in (query_1HTD, key_1KTD, value_1KTD))
        return self.cache.attend(layer, query, key, value, scale).unsqueeze(0)
