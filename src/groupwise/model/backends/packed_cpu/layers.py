"""The pass over packed tokens for layers of the Llama kind, the same as their own in fewer passes over memory.

The residual stream, norms, rotary embedding, attention, gated activation and plain linear layers are computed here.
Whatever replaced a linear layer, or hooks on one, take part: such layers are called as they are.

Axes: T packed tokens, D model width, X heads side by side.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn

from groupwise.model.adapters import applied
from groupwise.model.backends.activation_checkpointing import checkpointed
from groupwise.model.backends.attention import SharedPromptAttention
from groupwise.model.backends.in_place import embedded, takes_in_place
from groupwise.model.backends.packed import Packed
from groupwise.model.backends.packed_cpu.fused import rms_norm, rotary, rotary_table, swiglu
from groupwise.model.backends.packed_cpu.linear import normed_linears, normed_mlp
from groupwise.model.backends.protocol import InPlace, Scoring
from groupwise.model.backends.supported import is_plain, is_plain_linear
from groupwise.model.packing import PackedBatch
from groupwise.model.shards import call_through


class PackedCpu(Packed):
    """See `Backend`: the layers of supported models in fewer passes over memory."""

    def hidden_states(self, batch: PackedBatch, scoring: Scoring) -> Tensor:
        """Hidden states behind the last norm, (T, D)."""
        backbone: Any = self.policy.backbone
        hidden_TD = embedded(backbone.embed_tokens, batch.token_ids_1T[0], scoring.in_place)
        cosine_1TD, sine_1TD = backbone.rotary_emb(hidden_TD, position_ids=batch.position_ids_1T)
        table = rotary_table(cosine_1TD[0], sine_1TD[0], backbone.config.num_attention_heads)
        checkpointing = scoring.checkpoint_layers and torch.is_grad_enabled()
        whole = self.policy.shards is None
        for layer in backbone.layers:
            forward = partial(checkpointed, _layer, layer) if checkpointing else partial(_layer, layer)
            arguments = (hidden_TD, table, batch.attention)
            hidden_TD = forward(*arguments) if whole else call_through(layer, forward, *arguments)
        return _norm(backbone.norm, hidden_TD, torch.promote_types(hidden_TD.dtype, torch.float32))

    def in_place(self, scoring: Scoring, masked: bool) -> InPlace:
        """See `Backend`."""
        embedding = self.policy.model.get_input_embeddings()
        head = super().in_place(scoring, masked).head
        return InPlace(head, all(map(takes_in_place, embedding.parameters())))


def _layer(layer: Any, hidden_TD: Tensor, table: tuple[Tensor, Tensor], plan: SharedPromptAttention) -> Tensor:
    attention = layer.self_attn
    width, dtype = attention.head_dim, _product_dtype(hidden_TD)
    linears = (attention.q_proj, attention.k_proj, attention.v_proj)
    query_TX, key_TX, value_TX = _normed_linears(layer.input_layernorm, hidden_TD, linears, dtype)
    if hasattr(attention, "q_norm"):
        query_TX, key_TX = _head_norm(attention.q_norm, query_TX), _head_norm(attention.k_norm, key_TX)
    query_TX, key_TX = rotary(query_TX, *table, width), rotary(key_TX, *table, width)
    query, key, value = (rows.view(len(rows), -1, width) for rows in (query_TX, key_TX, value_TX))
    attended_TX = plan.attend_rows(query, key, value, attention.scaling).flatten(1)
    hidden_TD = hidden_TD + applied(attention.o_proj, attended_TX, dtype)
    return hidden_TD + _normed_mlp(layer.post_attention_layernorm, hidden_TD, layer.mlp, dtype)


def _normed_linears(
    norm: Any, hidden_TD: Tensor, linears: Sequence[nn.Module], dtype: torch.dtype
) -> tuple[Tensor, ...]:
    if all(map(is_plain_linear, linears)):
        plain = cast("Sequence[nn.Linear]", linears)
        return normed_linears(hidden_TD, norm.weight, norm.variance_epsilon, dtype, plain)
    normed_TD = _norm(norm, hidden_TD, dtype)
    return tuple(applied(module, normed_TD, dtype) for module in linears)


def _normed_mlp(norm: Any, hidden_TD: Tensor, mlp: Any, dtype: torch.dtype) -> Tensor:
    gated = is_plain(mlp, "MLP") and mlp.config.hidden_act in ("silu", "swish")
    parts = (mlp.gate_proj, mlp.up_proj, mlp.down_proj) if gated else ()
    if gated and all(is_plain_linear(part) and part.bias is None for part in parts):
        return normed_mlp(hidden_TD, norm.weight, norm.variance_epsilon, dtype, parts)
    normed_TD = _norm(norm, hidden_TD, dtype)
    made_TD: Tensor
    if gated:
        gate_TF, up_TF = (applied(part, normed_TD, dtype) for part in parts[:2])
        made_TD = applied(mlp.down_proj, swiglu(gate_TF, up_TF), dtype)
    else:
        made_TD = mlp(normed_TD.unsqueeze(0))[0]
    return made_TD


def _product_dtype(hidden_TD: Tensor) -> torch.dtype:
    """What linear layers are computed in: inputs in this type are not converted once more by each of them."""
    device = hidden_TD.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else hidden_TD.dtype


def _norm(norm: Any, values_TD: Tensor, dtype: torch.dtype) -> Tensor:
    return rms_norm(values_TD, norm.weight, norm.variance_epsilon, dtype)


def _head_norm(norm: Any, rows_TX: Tensor) -> Tensor:
    width = norm.weight.shape[0]
    rows_RD = rows_TX.reshape(-1, width)
    return _norm(norm, rows_RD, torch.promote_types(rows_TX.dtype, torch.float32)).view_as(rows_TX)
