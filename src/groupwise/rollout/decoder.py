"""One decoding step of a model: its own forward pass, or the same in fewer calls where its layers are known.

A step of a small batch is bound by calls, not by arithmetic, and a Hugging Face layer makes many of them. For layers
of the Llama kind the norms, the rotary embedding and the residual stream are done here; the linear maps and the MLP
stay calls of the model's own modules, so that whatever replaced them takes part.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import rms_norm
from transformers import PreTrainedModel

from groupwise.rollout.cache import DecodeAttention, KVCache, PrefillAttention

# Models of transformers whose pass `_llama_step` repeats: what their classes are called, by the name of their module.
KNOWN_MODELS = {"llama": "Llama", "mistral": "Mistral", "qwen2": "Qwen2", "qwen3": "Qwen3"}


def forward(
    model: PreTrainedModel, ids_T: Tensor, positions_T: Tensor, plan: PrefillAttention | DecodeAttention, known: bool
) -> Tensor:
    """Hidden states of packed tokens, (T, D). known: what `is_known` says of the model."""
    backbone = getattr(model, model.base_model_prefix)
    if known and isinstance(plan, DecodeAttention):
        return _llama_step(backbone, ids_T, positions_T, plan.cache)
    hidden: Tensor = backbone(
        input_ids=ids_T.unsqueeze(0), position_ids=positions_T.unsqueeze(0), use_cache=False, plan=plan
    ).last_hidden_state[0]
    return hidden


def is_known(model: PreTrainedModel) -> bool:
    """Whether every module whose own forward pass would be passed over is one that `_llama_step` repeats.

    A subclass, a hook, or a forward of the module's own may compute anything, and makes the model unknown.
    """
    backbone: Any = getattr(model, model.base_model_prefix)
    for folder, prefix in KNOWN_MODELS.items():
        module = f"transformers.models.{folder}.modeling_{folder}"
        if type(backbone).__module__ == module and type(backbone).__name__ == f"{prefix}Model":
            break
    else:
        return False

    def plain(part: Any, kind: str) -> bool:
        name = (type(part).__module__, type(part).__qualname__)
        hooked = part._forward_hooks or part._forward_pre_hooks
        return name == (module, prefix + kind) and not hooked and "forward" not in vars(part)

    layers = list(backbone.layers)
    norms = [backbone.norm]
    for layer in layers:
        norms += [layer.input_layernorm, layer.post_attention_layernorm]
        norms += [getattr(layer.self_attn, name) for name in ("q_norm", "k_norm") if hasattr(layer.self_attn, name)]
    return (
        len(layers) == backbone.config.num_hidden_layers
        and plain(backbone, "Model")
        and all(plain(layer, "DecoderLayer") and plain(layer.self_attn, "Attention") for layer in layers)
        and all(plain(norm, "RMSNorm") for norm in norms)
    )


def _llama_step(backbone: Any, ids_A: Tensor, positions_A: Tensor, cache: KVCache) -> Tensor:
    """The pass of a Llama-like model over one new token of each row."""
    hidden_AD = backbone.embed_tokens(ids_A)
    cosine, sine = backbone.rotary_emb(hidden_AD, position_ids=positions_A.unsqueeze(0))
    half = cosine.shape[-1] // 2
    # Both halves of a head turn by the same angles, the first against the other.
    cosine_A1D = cosine[0].unsqueeze(1)
    sine_A1D = torch.cat([-sine[0, :, :half], sine[0, :, half:]], dim=-1).unsqueeze(1)

    def turned(heads_AHD: Tensor) -> Tensor:
        return torch.addcmul(heads_AHD * cosine_A1D, heads_AHD.roll(half, dims=-1), sine_A1D)

    for index, layer in enumerate(backbone.layers):
        attention = layer.self_attn
        shape = (len(ids_A), -1, attention.head_dim)
        normed_AD = _norm(layer.input_layernorm, hidden_AD)
        query_AHD = attention.q_proj(normed_AD).view(shape)
        key_AKD = attention.k_proj(normed_AD).view(shape)
        value_AKD = attention.v_proj(normed_AD).view(shape)
        if hasattr(attention, "q_norm"):
            query_AHD, key_AKD = _norm(attention.q_norm, query_AHD), _norm(attention.k_norm, key_AKD)
        attended_AHD = cache.attend(index, turned(query_AHD), turned(key_AKD), value_AKD, attention.scaling)
        hidden_AD = hidden_AD + attention.o_proj(attended_AHD.reshape(len(ids_A), -1))
        normed_AD = _norm(layer.post_attention_layernorm, hidden_AD)
        hidden_AD = hidden_AD + layer.mlp(normed_AD.unsqueeze(0))[0]
    return _norm(backbone.norm, hidden_AD)


def _norm(norm: Any, values: Tensor) -> Tensor:
    return rms_norm(values, norm.weight.shape, norm.weight, norm.variance_epsilon)
