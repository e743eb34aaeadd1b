"""The passes of a model that samples: its own, or the step of one token in fewer calls where its layers are supported.

A step of a small batch is bound by calls, not by arithmetic, and a Hugging Face layer makes many of them. For layers
of the Llama kind the norms, the rotary embedding and the residual stream are done here. Linear layers that were
replaced or have hooks stay calls of the model's own modules, so that whatever replaced them takes part.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import linear, rms_norm
from transformers import PreTrainedModel

from groupwise.model.backends.attention import Block
from groupwise.model.backends.head import backbone_of, head_of
from groupwise.model.backends.supported import is_bare, is_plain, is_supported
from groupwise.model.cache import DecodeAttention, KVCache, PrefillAttention

# Weights of linear layers that share their input are copied side by side, one product instead of two or three, where
# all of them together take no more bytes than this. In larger models the products outweigh the calls.
JOINED_BYTES = 64 * 2**20

Linear = Callable[[Tensor], Tensor]


class Decoder:
    """Passes of one model, whose weights must stay as they are while it is in use."""

    def __init__(self, model: PreTrainedModel) -> None:
        self._head = head_of(model)
        self._backbone: Any = backbone_of(model)
        self._layers = _joined_linears(self._backbone.layers) if is_supported(self._backbone) else None

    def prefill(self, prompts: Sequence[NDArray[np.int64]], kept_P: Tensor, cache: KVCache) -> Tensor:
        """Float32 logits behind new prompts, (P, V); they come to the cache behind those that stay there, `kept_P`."""
        device = kept_P.device
        lengths = [len(ids) for ids in prompts]
        starts = np.cumsum([0, *lengths])[:-1].tolist()
        block = Block.of_runs(starts, lengths, device)
        cache.change_prompts(kept_P, block)
        if not prompts:
            return torch.empty(0, device=device)
        ids_T = torch.from_numpy(np.concatenate(prompts)).to(device)
        positions_T = torch.cat([torch.arange(length, device=device) for length in lengths])
        hidden_TD = self._forward(ids_T, positions_T, PrefillAttention(block, cache))
        return self._logits(hidden_TD[torch.tensor(starts, device=device) + block.lengths - 1])

    def step(self, ids_A: Tensor, positions_A: Tensor, cache: KVCache) -> Tensor:
        """Float32 logits behind one new token of each row, (A, V)."""
        if self._layers is None:
            return self._logits(self._forward(ids_A, positions_A, DecodeAttention(cache)))
        backbone = self._backbone
        hidden_AD = backbone.embed_tokens(ids_A)
        cosine, sine = backbone.rotary_emb(hidden_AD, position_ids=positions_A.unsqueeze(0))
        half = cosine.shape[-1] // 2
        # Both halves of a head turn by the same angles, the first against the other.
        rotation = cosine[0].unsqueeze(1), torch.cat([-sine[0, :, :half], sine[0, :, half:]], dim=-1).unsqueeze(1)
        for index, (layer, (attention_in, mlp)) in enumerate(zip(backbone.layers, self._layers, strict=True)):
            attention = layer.self_attn
            heads_AXD = attention_in(_norm(layer.input_layernorm, hidden_AD)).view(len(ids_A), -1, attention.head_dim)
            attended_AHD = cache.attend(index, *_rotated(attention, heads_AXD, rotation), attention.scaling)
            hidden_AD = hidden_AD + attention.o_proj(attended_AHD.view(len(ids_A), -1))
            hidden_AD = hidden_AD + mlp(_norm(layer.post_attention_layernorm, hidden_AD))
        return self._logits(_norm(backbone.norm, hidden_AD))

    def _logits(self, hidden_AD: Tensor) -> Tensor:
        logits_AV: Tensor = self._head(hidden_AD)
        return logits_AV.float()

    def _forward(self, ids_T: Tensor, positions_T: Tensor, plan: PrefillAttention | DecodeAttention) -> Tensor:
        hidden_1TD: Tensor = self._backbone(
            input_ids=ids_T.unsqueeze(0), position_ids=positions_T.unsqueeze(0), use_cache=False, plan=plan
        ).last_hidden_state
        return hidden_1TD[0]


def _rotated(attention: Any, heads_AXD: Tensor, rotation: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values from what the three linear layers made, side by side."""
    key_heads = heads_AXD.shape[1] // (attention.num_key_value_groups + 2)
    heads = heads_AXD.shape[1] - 2 * key_heads
    turning_AXD, value_AKD = heads_AXD[:, :-key_heads], heads_AXD[:, -key_heads:]
    if hasattr(attention, "q_norm"):
        query_AHD, key_AKD = turning_AXD.split([heads, key_heads], dim=1)
        turning_AXD = torch.cat([_norm(attention.q_norm, query_AHD), _norm(attention.k_norm, key_AKD)], dim=1)
    cosine_A1D, sine_A1D = rotation
    swapped_AXD = turning_AXD.roll(turning_AXD.shape[-1] // 2, dims=-1)
    turned_AXD = torch.addcmul(turning_AXD * cosine_A1D, swapped_AXD, sine_A1D)
    return turned_AXD[:, :heads], turned_AXD[:, heads:], value_AKD


def _norm(norm: Any, values: Tensor) -> Tensor:
    return rms_norm(values, norm.weight.shape, norm.weight, norm.variance_epsilon)


def _joined_linears(layers: Sequence[Any]) -> list[tuple[Linear, Linear]]:
    """For every layer what makes its queries, keys and values, side by side, and its MLP."""
    inputs = [[layer.self_attn.q_proj, layer.self_attn.k_proj, layer.self_attn.v_proj] for layer in layers]
    gates = [[layer.mlp.gate_proj, layer.mlp.up_proj] if is_plain(layer.mlp, "MLP") else [] for layer in layers]
    weights = [weight for linears in inputs + gates for part in linears for weight in part.parameters()]
    small = sum(weight.numel() * weight.element_size() for weight in weights) <= JOINED_BYTES
    return [
        (_side_by_side(own, small), partial(_gated, layer.mlp, _side_by_side(gate, small) if gate else None))
        for layer, own, gate in zip(layers, inputs, gates, strict=True)
    ]


def _gated(mlp: Any, gate_and_up: Linear | None, hidden_AD: Tensor) -> Tensor:
    if gate_and_up is None:
        projected_1AD: Tensor = mlp(hidden_AD.unsqueeze(0))
        return projected_1AD[0]
    gate_AF, up_AF = gate_and_up(hidden_AD).chunk(2, dim=-1)
    projected_AD: Tensor = mlp.down_proj(mlp.act_fn(gate_AF) * up_AF)
    return projected_AD


def _side_by_side(parts: Sequence[nn.Module], joined: bool) -> Linear:
    """The outputs of linear layers with the same input, along the last axis."""
    linears = [part for part in parts if type(part) is nn.Linear and is_bare(part)]
    weights: list[Tensor] = [part.weight for part in linears]
    biases: list[Tensor] = [part.bias for part in linears if part.bias is not None]
    if joined and len(linears) == len(parts) and len(biases) in (0, len(parts)):
        return partial(linear, weight=torch.cat(weights), bias=torch.cat(biases) if biases else None)
    return lambda hidden_AD: torch.cat([part(hidden_AD) for part in parts], dim=-1)
