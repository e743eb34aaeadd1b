"""How large a model is: read from the headers of its files without torch, or from a model without weights."""

from __future__ import annotations

import json
import math
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from groupwise.errors import first_line

if TYPE_CHECKING:
    from transformers import PreTrainedModel

BUNDLED = "bundled"

# Models whose weights in files are those in memory, by the same names.
PLAIN_MODELS = ("llama", "mistral", "qwen2", "qwen3")
# Of the dtypes in headers of safetensors that models are saved in.
TORCH_NAMES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
# What reading a file raises that is damaged, or of a kind that is not known here.
_DAMAGE = (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError, ArithmeticError)
EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"


@dataclass(frozen=True)
class ModelSize:
    """Weights, shared ones once, and the sizes that the memory of training and sampling depends on."""

    parameters: int
    embedding_parameters: int
    layers: int
    kv_heads: int
    head_dim: int
    hidden: int
    intermediate: int
    vocabulary: int

    @property
    def cache_values_per_token(self) -> int:
        """Numbers that an engine keeps for one token: a key and a value of each head and layer."""
        return 2 * self.layers * self.kv_heads * self.head_dim


def size_of(model: PreTrainedModel) -> ModelSize:
    """The size of a loaded model, or of one on the meta device."""
    embedding = model.get_input_embeddings()
    return _size(
        model.config,
        parameters=sum(weight.numel() for weight in model.parameters()),
        embedding_parameters=sum(weight.numel() for weight in embedding.parameters()),
        vocabulary=embedding.num_embeddings,
    )


def model_folder(path: str) -> Path:
    """The path of a model; that of the package for `bundled`."""
    return Path(str(resources.files("groupwise") / "bundled" / "model")) if path == BUNDLED else Path(path)


def read_size(path: str) -> ModelSize | str:
    """The size of a model that is not loaded, or why it cannot be found out. Nothing is looked up on the network."""
    source = model_folder(path)
    if source.suffix == ".gguf" and not source.is_file():
        return f"there is no file '{path}'"
    if not source.exists():
        cached = _cached_config(path)
        if cached is None:
            return f"the model '{path}' cannot be read from here: it is no folder, and not in the hub's cache"
        source = cached.parent
    try:
        return _from_headers(source)
    except _DAMAGE:
        # A format, an architecture or a fault that transformers knows more about.
        return _from_transformers(path, source)


def _cached_config(path: str) -> Path | None:
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        found = try_to_load_from_cache(path, "config.json")
    except HFValidationError:
        return None
    return Path(found) if isinstance(found, str) else None


def stored_dtype(path: str) -> str:
    """The dtype of most of the bytes in a model's files, by torch's name; `float32` where that cannot be found out."""
    source = model_folder(path)
    if not source.is_dir() and (config := _cached_config(path)) is not None:
        source = config.parent
    amounts: Counter[str] = Counter()
    for file in source.glob("*.safetensors"):
        with suppress(*_DAMAGE):
            for entry in _entries(file).values():
                first, last = entry["data_offsets"]
                amounts[TORCH_NAMES.get(entry["dtype"], "float32")] += last - first
    return max(amounts, key=lambda name: amounts[name], default="float32")


def _from_headers(folder: Path) -> ModelSize:
    """Raises one of the errors of damaged or unusual files where a folder does not have all that this needs."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    stated = {"num_key_value_heads", "head_dim" if config["model_type"] == "qwen3" else "hidden_size"} <= config.keys()
    if config["model_type"] not in PLAIN_MODELS or not stated or "quantization_config" in config:
        raise ValueError("sizes that follow from the code of the model")
    shapes = {name: shape for file in folder.glob("*.safetensors") for name, shape in _shapes(file).items()}
    counts = {name: math.prod(shape) for name, shape in shapes.items() if name.startswith(("model.", HEAD))}
    counts = {name: count for name, count in counts.items() if not name.endswith("inv_freq")}
    if config["tie_word_embeddings"]:
        counts.pop(HEAD, None)
    return _size(SimpleNamespace(**config), sum(counts.values()), counts[EMBEDDING], config["vocab_size"])


def _shapes(file: Path) -> dict[str, list[int]]:
    return {name: entry["shape"] for name, entry in _entries(file).items()}


def _entries(file: Path) -> dict[str, Any]:
    """Shape, dtype and place of the weights in a file: a length of 8 bytes, then JSON, then the weights."""
    with file.open("rb") as opened:
        length = int.from_bytes(opened.read(8), "little")
        if length > file.stat().st_size:
            raise ValueError("a header that is longer than its file")
        header: dict[str, Any] = json.loads(opened.read(length))
    header.pop("__metadata__", None)
    return header


def _from_transformers(path: str, source: Path) -> ModelSize | str:
    # Both take seconds to import.
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    try:
        folder, options = (source.parent, {"gguf_file": source.name}) if source.is_file() else (source, {})
        config = AutoConfig.from_pretrained(str(folder), trust_remote_code=False, local_files_only=True, **options)
        with torch.device("meta"):
            # An attention that is named in the file may be code on the hub.
            safe = {"trust_remote_code": False, "attn_implementation": "eager"}
            return size_of(AutoModelForCausalLM.from_config(config, **safe))
    except Exception as error:  # every reader of a library has errors of another kind
        return f"the model '{path}' cannot be read from here: {first_line(error)}"


def _size(config: Any, parameters: int, embedding_parameters: int, vocabulary: int) -> ModelSize:
    heads, hidden = config.num_attention_heads, config.hidden_size
    # Where the layers differ, the widest counts for all.
    own = list(getattr(config, "per_layer_config", None) or [config])
    return ModelSize(
        parameters=parameters,
        embedding_parameters=embedding_parameters,
        layers=config.num_hidden_layers,
        kv_heads=max(getattr(layer, "num_key_value_heads", None) or heads for layer in own),
        head_dim=max(getattr(layer, "head_dim", None) or hidden // heads for layer in own),
        hidden=hidden,
        intermediate=max(getattr(layer, "intermediate_size", None) or 4 * hidden for layer in own),
        vocabulary=vocabulary,
    )
