"""How large a model is, from its configuration alone: no weight is read."""

from dataclasses import dataclass
from importlib import resources
from pathlib import Path

BUNDLED = "bundled"


@dataclass(frozen=True)
class ModelSize:
    """Weights, shared ones once, and what a token takes in the cache of an engine."""

    parameters: int
    embedding_parameters: int
    layers: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    context: int

    def cache_values_per_token(self) -> int:
        """Numbers that the engine keeps for one token: a key and a value of each head and layer."""
        return 2 * self.layers * self.kv_heads * self.head_dim


def model_size(path: str) -> ModelSize | str:
    """The size of a model, or why it cannot be told. Nothing is looked up on the network."""
    # Both take seconds to import; nothing else of an explanation needs them.
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    source = Path(str(resources.files("groupwise") / "bundled" / "model")) if path == BUNDLED else Path(path)
    try:
        if source.suffix == ".gguf":
            if not source.is_file():
                return f"there is no file '{path}'"
            config = AutoConfig.from_pretrained(str(source.parent), gguf_file=source.name)
        else:
            name = str(source) if source.is_dir() else path
            config = AutoConfig.from_pretrained(name, local_files_only=True, trust_remote_code=False)
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config, trust_remote_code=False)
    except (OSError, ValueError, KeyError, ImportError, RuntimeError, AttributeError, TypeError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        return f"the model '{path}' cannot be read from here: {reason}"
    heads = config.num_attention_heads
    return ModelSize(
        parameters=sum(weight.numel() for weight in model.parameters()),
        embedding_parameters=model.get_input_embeddings().weight.numel(),
        layers=config.num_hidden_layers,
        kv_heads=getattr(config, "num_key_value_heads", None) or heads,
        head_dim=getattr(config, "head_dim", None) or config.hidden_size // heads,
        vocabulary=config.vocab_size,
        context=config.max_position_embeddings,
    )
