"""Which models have layers whose pass can be computed here instead of by their own modules."""

from typing import Any

from torch import nn

# What the classes of such models in transformers are called, by the name of their module.
SUPPORTED_MODELS = {"llama": "Llama", "mistral": "Mistral", "qwen2": "Qwen2", "qwen3": "Qwen3"}


def is_supported(backbone: Any) -> bool:
    """Whether every module whose own forward pass would be passed over is one of transformers' plain Llama kind.

    These are the backbone, its layers, their attention, and the norms. A subclass, a hook, or a forward of the
    module's own may compute anything, and is not supported.
    """
    if not is_plain(backbone, "Model"):
        return False
    layers = list(backbone.layers)
    norms = [backbone.norm]
    for layer in layers:
        norms += [layer.input_layernorm, layer.post_attention_layernorm]
        norms += [getattr(layer.self_attn, name) for name in ("q_norm", "k_norm") if hasattr(layer.self_attn, name)]
    folder = type(backbone).__module__
    return (
        len(layers) == backbone.config.num_hidden_layers
        and all(is_plain(layer, "DecoderLayer") and is_plain(layer.self_attn, "Attention") for layer in layers)
        and all(is_plain(norm, "RMSNorm") for norm in norms)
        and all(type(part).__module__ == folder for part in [*layers, *norms])
    )


def is_plain(part: nn.Module, kind: str) -> bool:
    """Whether the module is exactly the supported models' class of this kind, without hooks."""
    names = {
        (f"transformers.models.{folder}.modeling_{folder}", prefix + kind)
        for folder, prefix in SUPPORTED_MODELS.items()
    }
    return (type(part).__module__, type(part).__qualname__) in names and is_bare(part)


def is_plain_linear(part: nn.Module) -> bool:
    """Whether the module is a linear layer of torch with weights as torch keeps them, without hooks."""
    return type(part) is nn.Linear and type(part.weight) is nn.Parameter and is_bare(part)


def is_bare(part: nn.Module) -> bool:
    """Whether the module has no hooks, and the forward of its class."""
    hooks = (part._forward_hooks, part._forward_pre_hooks, part._backward_hooks, part._backward_pre_hooks)
    return not any(hooks) and "forward" not in vars(part)
