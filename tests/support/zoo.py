"""Architectures as tiny models with random weights, wide enough apart that a wrong mask, cap or position shows.

All layers of an architecture that has several kinds of them are there. Weights are drawn on a CPU from a seed.
"""

from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig, PreTrainedModel

from groupwise.model.load import load_policy
from groupwise.model.save import save_pretrained

VOCABULARY = 97
WINDOW = 16
ORIGINAL_CONTEXT = 32
"""Of the model whose rotation changes behind it."""

_IDS: dict[str, Any] = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
_SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "initializer_range": 0.1,
}
_EXPERTS: dict[str, Any] = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
_LINEAR: dict[str, Any] = {
    "num_hidden_layers": 4,
    "head_dim": 16,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
}
_SLIDING: dict[str, Any] = {"sliding_window": WINDOW, "head_dim": 16}
_LATENT: dict[str, Any] = {
    "num_key_value_heads": 4,
    "kv_lora_rank": 16,
    "q_lora_rank": 24,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 8,
    "v_head_dim": 12,
    "n_routed_experts": 4,
    "n_group": 1,
    "topk_group": 1,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "first_k_dense_replace": 1,
}
_LONG_ROPE: dict[str, Any] = {
    "original_max_position_embeddings": ORIGINAL_CONTEXT,
    "rope_parameters": {
        "rope_type": "longrope",
        "rope_theta": 10000.0,
        "short_factor": [1.0] * 8,
        "long_factor": [1.0 + 2 * i for i in range(8)],
        "original_max_position_embeddings": ORIGINAL_CONTEXT,
    },
}

# Model type in transformers, and what differs from the sizes above.
ZOO: dict[str, tuple[str, dict[str, Any]]] = {
    "Qwen2": ("qwen2", {}),
    "Qwen3": ("qwen3", {"head_dim": 16}),
    "Qwen3-MoE": ("qwen3_moe", {"head_dim": 16, **_EXPERTS}),
    "Qwen3-Next": ("qwen3_next", {**_LINEAR, **_EXPERTS, "shared_expert_intermediate_size": 32}),
    "Qwen3.5": ("qwen3_5_text", _LINEAR),
    "Llama": ("llama", {}),
    "Llama4": (
        "llama4_text",
        {
            "num_hidden_layers": 4,
            "head_dim": 16,
            "intermediate_size_mlp": 96,
            "num_local_experts": 4,
            "attention_chunk_size": 64,
        },
    ),
    "Mistral": ("mistral", {"sliding_window": None}),
    "Mistral, window": ("mistral", {"sliding_window": WINDOW}),
    "Mixtral": ("mixtral", {"num_local_experts": 4, "sliding_window": None}),
    "Gemma2": (
        "gemma2",
        {**_SLIDING, "attn_logit_softcapping": 1.0, "final_logit_softcapping": 2.0, "query_pre_attn_scalar": 16},
    ),
    "Gemma2, final cap only": (
        "gemma2",
        {**_SLIDING, "attn_logit_softcapping": None, "final_logit_softcapping": 2.0, "sliding_window": 256},
    ),
    "Gemma3": ("gemma3_text", {**_SLIDING, "num_hidden_layers": 6}),
    "Gemma4": (
        "gemma4_text",
        {
            **_SLIDING,
            "num_hidden_layers": 6,
            "hidden_size_per_layer_input": 8,
            "vocab_size_per_layer_input": 1024,
            "num_kv_shared_layers": 0,
            "global_head_dim": 32,
        },
    ),
    "Phi-3": ("phi3", {"sliding_window": None}),
    "Phi-3, long-rope": ("phi3", {"sliding_window": None, **_LONG_ROPE}),
    "OLMo2": ("olmo2", {}),
    "OLMo3": ("olmo3", {"sliding_window": WINDOW, "num_hidden_layers": 4}),
    "SmolLM3": ("smollm3", {"num_hidden_layers": 4}),
    "GLM4": ("glm4", {"head_dim": 16}),
    "GLM4-MoE": (
        "glm4_moe",
        {"head_dim": 16, "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32},
    ),
    "DeepSeek-V3": ("deepseek_v3", _LATENT),
    "GPT-2": ("gpt2", {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 256}),
    "OPT": ("opt", {"ffn_dim": 96, "word_embed_proj_dim": 64}),
    "GPT-OSS": ("gpt_oss", {**_SLIDING, "num_local_experts": 4, "num_experts_per_tok": 2}),
    "Cohere2": ("cohere2", {"sliding_window": WINDOW, "num_hidden_layers": 4, "logit_scale": 0.25}),
    "Granite": ("granite", {"logits_scaling": 4.0, "embedding_multiplier": 3.0, "residual_multiplier": 0.5}),
    "Falcon-H1": (
        "falcon_h1",
        {"head_dim": 16, "mamba_d_ssm": 64, "mamba_n_heads": 4, "mamba_d_head": 16, "mamba_d_state": 16},
    ),
    "Nemotron-H": (
        "nemotron_h",
        {
            "hybrid_override_pattern": "M-*-",
            "num_hidden_layers": 4,
            "head_dim": 16,
            "mamba_num_heads": 4,
            "mamba_head_dim": 16,
            "ssm_state_size": 16,
            "n_groups": 1,
            "chunk_size": 16,
        },
    ),
    "LFM2": ("lfm2", {"num_hidden_layers": 4, "full_attn_idxs": [1, 3], "block_ff_dim": 96}),
}


def build(name: str, vocabulary: int = VOCABULARY) -> PreTrainedModel:
    """The model with its own eager attention, in evaluation mode."""
    model_type, changes = ZOO[name]
    torch.manual_seed(0)
    config = AutoConfig.for_model(model_type, **{**_SIZES, **changes, **_IDS, "vocab_size": vocabulary})
    model: PreTrainedModel = AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    with torch.no_grad():
        for weight in model.parameters():
            # What is drawn as one constant would hide that it is left out.
            if weight.ndim == 1:
                weight.add_(0.1 * torch.randn_like(weight))
    model.generation_config = GenerationConfig()
    return model.eval()


def save(name: str, folder: Path) -> None:
    """The model with the bundled tokenizer, as a folder of the Hugging Face form."""
    tokenizer = load_policy("bundled").tokenizer
    model = build(name, len(tokenizer))
    model.config.eos_token_id = model.generation_config.eos_token_id = tokenizer.eos_token_id
    save_pretrained(model, tokenizer, folder)
