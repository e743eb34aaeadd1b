"""Sampling passes by the model's own forward and cache: rows that begin together, filled up in front of their prompts.

Axes: A rows, P different prompts, T positions so far, V vocabulary, D model width.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedModel

from groupwise.model.backends.head import backbone_of, own_logits


class PlainDecoder:
    """Passes of one model over one batch of rows; see `begin`."""

    def __init__(self, model: PreTrainedModel) -> None:
        self._model: Any = model
        self._backbone: Any = backbone_of(model)
        self._cache: Any = None

    def begin(self, prompts: Sequence[NDArray[np.int64]], place_A: Tensor) -> Tensor:
        """Float32 logits behind the prompts, (A, V), for rows that continue the prompt at `place_A` each."""
        device, longest = place_A.device, max(map(len, prompts))
        lengths_P = torch.tensor([len(ids) for ids in prompts], device=device)
        mask_PT = (torch.arange(longest, device=device) >= longest - lengths_P.unsqueeze(1)).long()
        ids_PT = torch.zeros_like(mask_PT)
        ids_PT[mask_PT.bool()] = torch.from_numpy(np.concatenate(prompts)).to(device)
        self._mask_AT, self._length_A = mask_PT, lengths_P
        logits_PV = self._pass(ids_PT, (mask_PT.cumsum(1) - 1).clamp(min=0))
        self.keep(place_A)
        return logits_PV[place_A]

    def keep(self, row_A: Tensor) -> None:
        """These rows stand from now on, in this order; a row may stand more than once."""
        self._cache.reorder_cache(row_A)
        self._mask_AT, self._length_A = self._mask_AT[row_A], self._length_A[row_A]

    def step(self, ids_A: Tensor, running_A: Tensor) -> Tensor:
        """Float32 logits behind one new token of each row, (A, V). A row that has ended takes no further position."""
        self._length_A = self._length_A + running_A
        self._mask_AT = torch.cat([self._mask_AT, torch.ones_like(self._mask_AT[:, :1])], dim=1)
        return self._pass(ids_A.unsqueeze(1), (self._length_A - 1).unsqueeze(1))

    def _pass(self, ids_AT: Tensor, positions_AT: Tensor) -> Tensor:
        output = self._backbone(
            input_ids=ids_AT,
            attention_mask=self._mask_AT,
            position_ids=positions_AT,
            past_key_values=self._cache,
            use_cache=True,
        )
        self._cache = output.past_key_values
        return own_logits(self._model, output.last_hidden_state[:, -1]).float()
