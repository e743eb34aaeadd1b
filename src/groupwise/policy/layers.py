"""The pass of the model over packed tokens: its own, or for layers of the Llama kind the same in fewer passes.

For known layers the residual stream, norms, rotary embedding, attention and gated activation are computed here. Linear
maps stay calls of the model's own modules, so that whatever replaced them takes part.

Axes: T packed tokens, D model width, X heads side by side.
"""

from typing import Any

import torch
from torch import Tensor, nn

from groupwise.policy.attention import SharedPromptAttention
from groupwise.policy.fused import rms_norm, rotary, rotary_table, swiglu
from groupwise.policy.known import is_known_backbone, is_plain
from groupwise.policy.packing import PackedBatch
from groupwise.policy.recompute import recomputed, recomputed_layers


def hidden_states(backbone: nn.Module, batch: PackedBatch, recompute_layers: bool = False) -> Tensor:
    """Hidden states behind the last norm, (T, D).

    recompute_layers: of each layer only the input is kept, and the backward pass computes the layer again.
    """
    if is_known_backbone(backbone):
        return _known(backbone, batch, recompute_layers)
    with recomputed_layers(backbone, recompute_layers):
        hidden_1TD: Tensor = backbone(
            input_ids=batch.token_ids_1T,
            position_ids=batch.position_ids_1T,
            use_cache=False,
            plan=batch.attention,
        ).last_hidden_state
    return hidden_1TD[0]


def _known(backbone: Any, batch: PackedBatch, recompute_layers: bool) -> Tensor:
    hidden_TD = backbone.embed_tokens(batch.token_ids_1T)[0]
    cosine_1TD, sine_1TD = backbone.rotary_emb(hidden_TD, position_ids=batch.position_ids_1T)
    table = rotary_table(cosine_1TD[0], sine_1TD[0], backbone.config.num_attention_heads)
    recomputing = recompute_layers and torch.is_grad_enabled()
    for layer in backbone.layers:
        arguments = (layer, hidden_TD, table, batch.attention)
        hidden_TD = recomputed(_layer, *arguments) if recomputing else _layer(*arguments)
    return _norm(backbone.norm, hidden_TD, torch.promote_types(hidden_TD.dtype, torch.float32))


def _layer(layer: Any, hidden_TD: Tensor, table: tuple[Tensor, Tensor], plan: SharedPromptAttention) -> Tensor:
    attention, mlp = layer.self_attn, layer.mlp
    width, dtype = attention.head_dim, _product_dtype(hidden_TD)
    normed_TD = _norm(layer.input_layernorm, hidden_TD, dtype)
    query_TX, key_TX = attention.q_proj(normed_TD), attention.k_proj(normed_TD)
    if hasattr(attention, "q_norm"):
        query_TX, key_TX = _head_norm(attention.q_norm, query_TX), _head_norm(attention.k_norm, key_TX)
    query_TX, key_TX = rotary(query_TX, *table, width), rotary(key_TX, *table, width)
    query, key, value = (rows.view(len(rows), -1, width) for rows in (query_TX, key_TX, attention.v_proj(normed_TD)))
    attended_TX = plan.attend_rows(query, key, value, attention.scaling).flatten(1)
    hidden_TD = hidden_TD + attention.o_proj(attended_TX)
    normed_TD = _norm(layer.post_attention_layernorm, hidden_TD, dtype)
    if is_plain(mlp, "MLP") and mlp.config.hidden_act in ("silu", "swish"):
        made_TD: Tensor = mlp.down_proj(swiglu(mlp.gate_proj(normed_TD), mlp.up_proj(normed_TD)))
    else:
        made_TD = mlp(normed_TD.unsqueeze(0))[0]
    return hidden_TD + made_TD


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
