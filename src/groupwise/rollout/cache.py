"""The key/value cache of the in-process engine, and the attention plans that fill and read it."""

from dataclasses import dataclass

import torch
from torch import Tensor

from groupwise.policy.attention import Block


class KVCache:
    """Keys and values of B sequences, prompts right-aligned so that every step writes one column for all rows."""

    def __init__(self, prompts: Block, row_of_prompt: Tensor, columns: int) -> None:
        self._prompts = prompts
        self._prompt_of_row_B = row_of_prompt
        self._columns = columns
        self._layers: dict[int, tuple[Tensor, Tensor]] = {}
        self.filled = prompts.width
        column = torch.arange(columns, device=row_of_prompt.device)
        padding_B1 = (prompts.width - prompts.lengths)[row_of_prompt].unsqueeze(1)
        self._mask_BL = torch.zeros(len(row_of_prompt), columns, device=row_of_prompt.device)
        self._mask_BL.masked_fill_(column < padding_B1, -torch.inf)

    def fill(self, layer: int, key_PKLD: Tensor, value_PKLD: Tensor) -> None:
        """Store the right-padded prompt blocks of one layer, once for every row."""
        width = self._prompts.width
        shift_P1 = (width - self._prompts.lengths).unsqueeze(1)
        source_PL = (torch.arange(width, device=shift_P1.device) - shift_P1).clamp(min=0)
        stored = []
        for block in (key_PKLD, value_PKLD):
            aligned = block.gather(2, source_PL[:, None, :, None].expand_as(block))
            buffer = block.new_zeros(len(self._prompt_of_row_B), block.shape[1], self._columns, block.shape[3])
            buffer[:, :, :width] = aligned.index_select(0, self._prompt_of_row_B)
            stored.append(buffer)
        self._layers[layer] = (stored[0], stored[1])

    def attend(self, layer: int, query_BHD: Tensor, key_BKD: Tensor, value_BKD: Tensor, scale: float) -> Tensor:
        """Write the newest token of every row and attend to all tokens up to it: (B, H, D)."""
        keys_BKLD, values_BKLD = self._layers[layer]
        keys_BKLD[:, :, self.filled] = key_BKD
        values_BKLD[:, :, self.filled] = value_BKD
        end = self.filled + 1
        rows, heads, width = query_BHD.shape
        grouped = (query_BHD * scale).view(rows, key_BKD.shape[1], -1, width)
        scores = grouped @ keys_BKLD[:, :, :end].transpose(2, 3) + self._mask_BL[:, None, None, :end]
        attended = scores.softmax(dim=-1, dtype=torch.float32).to(query_BHD.dtype) @ values_BKLD[:, :, :end]
        return attended.reshape(rows, heads, width)

    def keep(self, rows: Tensor) -> None:
        """Only these rows stay, in this order."""
        self._mask_BL = self._mask_BL.index_select(0, rows)
        for layer, (keys, values) in self._layers.items():
            kept = []
            for buffer in (keys, values):
                smaller = buffer.new_empty(len(rows), *buffer.shape[1:])
                torch.index_select(buffer[:, :, : self.filled], 0, rows, out=smaller[:, :, : self.filled])
                kept.append(smaller)
            self._layers[layer] = (kept[0], kept[1])


@dataclass
class PrefillAttention:
    """Prompts attend to themselves; their keys and values go to the cache."""

    prompts: Block
    cache: KVCache

    def attend(self, layer: int, query_1HTD: Tensor, key_1KTD: Tensor, value_1KTD: Tensor, scale: float) -> Tensor:
        """See `AttentionPlan`."""
        key, value = self.prompts.pad(key_1KTD), self.prompts.pad(value_1KTD)
        self.cache.fill(layer, key, value)
        attended = torch.nn.functional.scaled_dot_product_attention(
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
