"""The key/value cache of the in-process engine, and the attention plans that fill and read it.

A prompt stands once for all sequences that continue it. What they sample stands in a ring of columns: every step
writes one column for all sequences, whenever they began, and a mask per sequence hides what is not its own. Rotary
keys carry their position, so that the order of the columns means nothing.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad, scaled_dot_product_attention

from groupwise.policy.attention import Block


@dataclass(frozen=True)
class _Grid:
    """The standing rows by prompt, as many places for each prompt as the largest group needs.

    row_of_place_PR: a row for every place, any one where there is none; place_of_row_A: where each row stands.
    as_they_stand: rows and places are the same.
    """

    row_of_place_PR: Tensor
    place_of_row_A: Tensor
    as_they_stand: bool

    @staticmethod
    def of(prompt_A: Tensor, prompts: int) -> "_Grid":
        """The places of rows with these prompts."""
        rows = len(prompt_A)
        order_A = prompt_A.argsort(stable=True)
        count_P = prompt_A.bincount(minlength=prompts)
        first_P = count_P.cumsum(0) - count_P
        width = int(count_P.max())
        sorted_A = prompt_A[order_A]
        place_A = sorted_A * width + torch.arange(rows, device=prompt_A.device) - first_P[sorted_A]
        place_of_row_A = torch.empty_like(place_A)
        place_of_row_A[order_A] = place_A
        row_of_place = torch.zeros(prompts * width, dtype=torch.int64, device=prompt_A.device)
        row_of_place[place_A] = order_A
        same = len(row_of_place) == rows and bool((order_A[1:] > order_A[:-1]).all())
        return _Grid(row_of_place.view(prompts, width), place_of_row_A, same)

    def spread(self, rows_AKRX: Tensor) -> Tensor:
        """(A, K, r, X) of the rows to (P, K, places · r, X)."""
        prompts, width = self.row_of_place_PR.shape
        _, heads, repeats, last = rows_AKRX.shape
        placed = rows_AKRX if self.as_they_stand else rows_AKRX.index_select(0, self.row_of_place_PR.view(-1))
        return placed.view(prompts, width, heads, repeats, last).transpose(1, 2).reshape(prompts, heads, -1, last)

    def gather(self, placed_PKQX: Tensor, repeats: int) -> Tensor:
        """Back to (A, K, r, X)."""
        prompts, heads, _, last = placed_PKQX.shape
        by_place = placed_PKQX.view(prompts, heads, -1, repeats, last).transpose(1, 2).reshape(-1, heads, repeats, last)
        return by_place if self.as_they_stand else by_place.index_select(0, self.place_of_row_A)


class KVCache:
    """Keys and values of A standing sequences and of the prompts that they continue."""

    def __init__(self, rows: int, columns: int, device: torch.device) -> None:
        self._columns = columns
        self._device = device
        self._prompts: dict[int, tuple[Tensor, Tensor]] = {}
        self._rings: dict[int, tuple[Tensor, Tensor]] = {}
        self._prompt_length_P = torch.empty(0, dtype=torch.int64, device=device)
        self._prompt_A = torch.zeros(rows, dtype=torch.int64, device=device)
        self._mask_AL = torch.full((rows, columns), -torch.inf, device=device)
        self._clock = 0

    @property
    def filled(self) -> int:
        """Columns of the ring that were written."""
        return min(self._clock, self._columns)

    def change_prompts(self, kept_P: Tensor, new: Block) -> None:
        """These prompts stay, in this order, and room is made behind them for new ones; see `fill`."""
        self._kept_P = kept_P
        self._prompt_length_P = torch.cat([self._prompt_length_P[kept_P], new.lengths])
        self._width = int(self._prompt_length_P.max())
        column = torch.arange(self._width, device=self._device)
        hidden_PL = column >= self._prompt_length_P.unsqueeze(1)
        self._prompt_mask_P11L = torch.zeros(hidden_PL.shape, device=self._device).masked_fill_(hidden_PL, -torch.inf)[
            :, None, None
        ]

        if new.rows == 0:
            self._prompts = {
                layer: (keys[kept_P, :, : self._width], values[kept_P, :, : self._width])
                for layer, (keys, values) in self._prompts.items()
            }

    def fill(self, layer: int, key_PKLD: Tensor, value_PKLD: Tensor) -> None:
        """The right-padded blocks of new prompts, of one layer."""
        blocks: tuple[Tensor, Tensor] = (key_PKLD, value_PKLD)
        stored = []
        for index, block in enumerate(blocks):
            parts = [block]
            if len(self._kept_P):
                parts = [self._prompts[layer][index].index_select(0, self._kept_P), block]
            widened = [pad(part[:, :, : self._width], (0, 0, 0, max(0, self._width - part.shape[2]))) for part in parts]
            stored.append(torch.cat(widened))
        self._prompts[layer] = (stored[0], stored[1])

    def begin(self, row_A: Tensor, prompt_A: Tensor) -> None:
        """New sequences take these rows; all rows then continue the prompts `prompt_A`."""
        self._mask_AL[row_A] = -torch.inf
        self._continue(prompt_A)

    def keep(self, row_A: Tensor, kept_P: Tensor, prompt_A: Tensor) -> None:
        """Only these rows and prompts stay, in this order; the rows then continue the prompts `prompt_A`."""
        filled = self.filled
        self._mask_AL = self._mask_AL.index_select(0, row_A)
        self._prompt_length_P = self._prompt_length_P[kept_P]
        self._prompt_mask_P11L = self._prompt_mask_P11L[kept_P]
        for layer, buffers in self._rings.items():
            kept = []
            for buffer in buffers:
                smaller = buffer.new_empty(len(row_A), *buffer.shape[1:])
                torch.index_select(buffer[:, :, :filled], 0, row_A, out=smaller[:, :, :filled])
                kept.append(smaller)
            self._rings[layer] = (kept[0], kept[1])
        if len(kept_P) < len(next(iter(self._prompts.values()))[0]):
            self._prompts = {
                layer: (keys.index_select(0, kept_P), values.index_select(0, kept_P))
                for layer, (keys, values) in self._prompts.items()
            }
        self._continue(prompt_A)

    def advance(self) -> None:
        """The next step begins: every row sees the column that it is about to write."""
        self._mask_AL[:, self._clock % self._columns] = 0.0
        self._clock += 1

    def attend(self, layer: int, query_AHD: Tensor, key_AKD: Tensor, value_AKD: Tensor, scale: float) -> Tensor:
        """Write the newest token of every row and attend to its prompt and all its tokens: (A, H, D)."""
        rows, heads, width = query_AHD.shape
        if layer not in self._rings:
            shape = (rows, key_AKD.shape[1], self._columns, width)
            self._rings[layer] = (key_AKD.new_zeros(shape), value_AKD.new_zeros(shape))
        keys_AKLD, values_AKLD = self._rings[layer]
        column = (self._clock - 1) % self._columns
        keys_AKLD[:, :, column] = key_AKD
        values_AKLD[:, :, column] = value_AKD
        keys_PKLD, values_PKLD = self._prompts[layer]
        filled, grid, repeats = self.filled, self._grid, heads // key_AKD.shape[1]
        query_AKRD = (query_AHD * scale).view(rows, -1, repeats, width)
        of_prompt = grid.spread(query_AKRD) @ keys_PKLD.transpose(2, 3) + self._prompt_mask_P11L
        of_own = query_AKRD @ keys_AKLD[:, :, :filled].transpose(2, 3) + self._mask_AL[:, None, None, :filled]
        scores = torch.cat([grid.gather(of_prompt, repeats), of_own], dim=-1)
        shares = scores.softmax(dim=-1, dtype=torch.float32).to(query_AHD.dtype)
        prompts = keys_PKLD.shape[2]
        attended = grid.gather(grid.spread(shares[..., :prompts]) @ values_PKLD, repeats)
        attended = attended + shares[..., prompts:] @ values_AKLD[:, :, :filled]
        return attended.reshape(rows, heads, width)

    def _continue(self, prompt_A: Tensor) -> None:
        self._grid = _Grid.of(prompt_A, len(self._prompt_length_P))


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
        _, heads, tokens, width = query_1HTD.shape
        return self.prompts.unpad(attended).view(1, tokens, heads, width)


@dataclass
class DecodeAttention:
    """Each row of the cache attends with its newest token; the rows stand in the packed axis."""

    cache: KVCache

    def attend(self, layer: int, query_1HTD: Tensor, key_1KTD: Tensor, value_1KTD: Tensor, scale: float) -> Tensor:
        """See `AttentionPlan`."""
        query, key, value = (tensor[0].transpose(0, 1) for tensor in (query_1HTD, key_1KTD, value_1KTD))
        return self.cache.attend(layer, query.contiguous(), key, value, scale).unsqueeze(0)
