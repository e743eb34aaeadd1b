"""The pass of the model over packed tokens: its own, or for layers of the Llama kind the same in fewer passes.

For known layers the residual stream, norms, rotary embedding, attention, gated activation and plain linear maps are
computed here. Whatever replaced a linear map, or was hung onto it, takes part: such maps are called as they are.

Axes: T packed tokens, D model width, X heads side by side.
"""

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from groupwise.model.backends.packed_cpu.activation_checkpointing import recomputed, recomputed_layers
from groupwise.model.backends.packed_cpu.attention import SharedPromptAttention
from groupwise.model.backends.packed_cpu.fused import rms_norm, rotary, rotary_table, swiglu
from groupwise.model.backends.packed_cpu.in_place import embedded
from groupwise.model.backends.packed_cpu.linear import mapped, normed_maps, normed_mlp
from groupwise.model.backends.packed_cpu.supported import is_known_backbone, is_plain, is_plain_map
from groupwise.model.packing import PackedBatch


def hidden_states(
    backbone: nn.Module, batch: PackedBatch, recompute_layers: bool = False, in_place: bool = False
) -> Tensor:
    """Hidden states behind the last norm, (T, D).

    recompute_layers: of each layer only the input is kept, and the backward pass computes the layer again. in_place:
    the gradient of the embedding of known layers is added to its `.grad` (see in_place.py).
    """
    if is_known_backbone(backbone):
        return _known(backbone, batch, recompute_layers, in_place)
    with recomputed_layers(backbone, recompute_layers):
        hidden_1TD: Tensor = backbone(
            input_ids=batch.token_ids_1T,
            position_ids=batch.position_ids_1T,
            use_cache=False,
            plan=batch.attention,
        ).last_hidden_state
    return hidden_1TD[0]


def _known(backbone: Any, batch: PackedBatch, recompute_layers: bool, in_place: bool) -> Tensor:
    hidden_TD = embedded(backbone.embed_tokens, batch.token_ids_1T[0], in_place)
    cosine_1TD, sine_1TD = backbone.rotary_emb(hidden_TD, position_ids=batch.position_ids_1T)
    table = rotary_table(cosine_1TD[0], sine_1TD[0], backbone.config.num_attention_heads)
    recomputing = recompute_layers and torch.is_grad_enabled()
    for layer in backbone.layers:
        arguments = (layer, hidden_TD, table, batch.attention)
        hidden_TD = recomputed(_layer, *arguments) if recomputing else _layer(*arguments)
    return _norm(backbone.norm, hidden_TD, torch.promote_types(hidden_TD.dtype, torch.float32))


def _layer(layer: Any, hidden_TD: Tensor, table: tuple[Tensor, Tensor], plan: SharedPromptAttention) -> Tensor:
    attention = layer.self_attn
    width, dtype = attention.head_dim, _product_dtype(hidden_TD)
    maps = (attention.q_proj, attention.k_proj, attention.v_proj)
    query_TX, key_TX, value_TX = _normed_maps(layer.input_layernorm, hidden_TD, maps, dtype)
    if hasattr(attention, "q_norm"):
        query_TX, key_TX = _head_norm(attention.q_norm, query_TX), _head_norm(attention.k_norm, key_TX)
    query_TX, key_TX = rotary(query_TX, *table, width), rotary(key_TX, *table, width)
    query, key, value = (rows.view(len(rows), -1, width) for rows in (query_TX, key_TX, value_TX))
    attended_TX = plan.attend_rows(query, key, value, attention.scaling).flatten(1)
    out = attention.o_proj
    hidden_TD = hidden_TD + (mapped(attended_TX, out, dtype) if is_plain_map(out) else out(attended_TX))
    return hidden_TD + _normed_mlp(layer.post_attention_layernorm, hidden_TD, layer.mlp, dtype)


def _normed_maps(norm: Any, hidden_TD: Tensor, maps: Sequence[nn.Module], dtype: torch.dtype) -> tuple[Tensor, ...]:
    if all(map(is_plain_map, maps)):
        return normed_maps(hidden_TD, norm.weight, norm.variance_epsilon, dtype, cast("Sequence[nn.Linear]", maps))
    normed_TD = _norm(norm, hidden_TD, dtype)
    return tuple(module(normed_TD) for module in maps)


def _normed_mlp(norm: Any, hidden_TD: Tensor, mlp: Any, dtype: torch.dtype) -> Tensor:
    gated = is_plain(mlp, "MLP") and mlp.config.hidden_act in ("silu", "swish")
    if gated and all(is_plain_map(part) and part.bias is None for part in (mlp.gate_proj, mlp.up_proj, mlp.down_proj)):
        parts = mlp.gate_proj, mlp.up_proj, mlp.down_proj
        return normed_mlp(hidden_TD, norm.weight, norm.variance_epsilon, dtype, *parts)
    normed_TD = _norm(norm, hidden_TD, dtype)
    made_TD: Tensor
    if gated:
        made_TD = mlp.down_proj(swiglu(mlp.gate_proj(normed_TD), mlp.up_proj(normed_TD)))
    else:
        made_TD = mlp(normed_TD.unsqueeze(0))[0]
    return made_TD


def _product_dtype(hidden_TD: Tensor) -> torch.dtype:
    """What linear maps are computed in: inputs in this type are not converted once more by each of them."""
    device = hidden_TD.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else hidden_TD.dtype


def _norm(norm: Any, values_TD: Tensor, dtype: torch.dtype) -> Tensor:
    return rms_norm(values_TD, norm.weight, norm.variance_epsilon, dtype)


def _head_norm(norm: Any, rows_TX: Tensor) -> Tensor:
    width = norm.weight.shape[0]
    rows_RD = rows_TX.reshape(-1, width)
    return _norm(norm, rows_RD, torch.promote_types(rows_TX.dtype, torch.float32)).view_as(rows_TX)
