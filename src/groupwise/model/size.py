"""How large a model is: read from the headers of its files without torch, or from a model without weights."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from groupwise.errors import DataError, first_line

if TYPE_CHECKING:
    from transformers import PreTrainedModel

BUNDLED = "bundled"

# Models whose weights in files are those in memory, by the same names.
PLAIN_MODELS = ("llama", "mistral", "qwen2", "qwen3")
# Of the dtypes in headers of safetensors that models are saved in.
TORCH_NAMES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
# What reading a file raises that is damaged, or of a kind that is not known here.
_DAMAGE = (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError, ArithmeticError)
# In names of weights: of peft's adapters, and of the layer that they are around.
ADAPTER, BELOW_ADAPTER = ".lora_", ".base_layer"
ADAPTER_CONFIG = "adapter_config.json"
EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"


@dataclass(frozen=True)
class ModelSize:
    """Weights, shared ones once, and the sizes that the memory of training and sampling depends on.

    Adapters are not counted. linears: (outputs, inputs) of the linear layers but for the output head, by their names.
    """

    parameters: int
    embedding_parameters: int
    layers: int
    kv_heads: int
    head_dim: int
    hidden: int
    intermediate: int
    vocabulary: int
    linears: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def linear_parameters(self) -> int:
        """Weights of `linears`."""
        return sum(outputs * inputs for outputs, inputs in self.linears.values())

    @property
    def cache_values_per_token(self) -> int:
        """Numbers that an engine keeps for one token: a key and a value of each head and layer."""
        return 2 * self.layers * self.kv_heads * self.head_dim


def size_of(model: PreTrainedModel) -> ModelSize:
    """The size of a loaded model, or of one on the meta device."""
    embedding = model.get_input_embeddings()
    base = [weight for name, weight in model.named_parameters() if ADAPTER not in name]
    return _size(
        model.config,
        parameters=sum(weight.numel() for weight in base),
        embedding_parameters=sum(weight.numel() for weight in embedding.parameters()),
        vocabulary=embedding.num_embeddings,
        linears={name: (module.out_features, module.in_features) for name, module in linear_layers(model).items()},
    )


def linear_layers(model: PreTrainedModel) -> dict[str, Any]:
    """The linear layers of a model by name but for the output head, those below adapters by the name of the whole."""
    from torch import nn

    head = model.get_output_embeddings()
    return {
        name.removesuffix(BELOW_ADAPTER): module
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and module is not head and ADAPTER not in name
    }


def model_folder(path: str) -> Path:
    """The path of a model; that of the package for `bundled`."""
    return Path(str(resources.files("groupwise") / "bundled" / "model")) if path == BUNDLED else Path(path)


def base_path(path: str) -> str:
    """The model that `path` names, or that adapters at `path` belong to. Raises DataError where these do not say."""
    if not _holds_adapters(path):
        return path
    file = Path(path) / ADAPTER_CONFIG
    try:
        base = json.loads(file.read_text(encoding="utf-8"))["base_model_name_or_path"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"'{file}' cannot be read: {type(error).__name__}: {error}") from error
    if not isinstance(base, str) or not base:
        raise DataError(f"'{file}' does not say which model its adapters belong to: set base_model_name_or_path in it")
    if _holds_adapters(base):
        raise DataError(f"the adapters in '{path}' belong to other adapters, '{base}': merge those first and name them")
    return base


def _holds_adapters(path: str) -> bool:
    return (Path(path) / ADAPTER_CONFIG).is_file() and not (Path(path) / "config.json").is_file()


def read_size(path: str) -> ModelSize | str:
    """The size of a model that is not loaded, or why it cannot be found out. Nothing is looked up on the network."""
    try:
        path = base_path(path)
    except DataError as error:
        return str(error)
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
    shapes = {name: shape for file in folder.glob("*.safetensors") for name, shape in shapes_in(file).items()}
    counts = {name: math.prod(shape) for name, shape in shapes.items() if name.startswith(("model.", HEAD))}
    counts = {name: count for name, count in counts.items() if not name.endswith("inv_freq")}
    if config["tie_word_embeddings"]:
        counts.pop(HEAD, None)
    linears = {
        name.removesuffix(".weight"): (shape[0], shape[1])
        for name, shape in shapes.items()
        if name.startswith("model.") and len(shape) == 2 and name != EMBEDDING
    }
    return _size(SimpleNamespace(**config), sum(counts.values()), counts[EMBEDDING], config["vocab_size"], linears)


def shapes_in(file: Path) -> dict[str, list[int]]:
    """The shapes of the weights in a file of safetensors, by their names. Raises OSError or ValueError."""
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


def _size(
    config: Any, parameters: int, embedding_parameters: int, vocabulary: int, linears: Mapping[str, tuple[int, int]]
) -> ModelSize:
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
        linears=linears,
    )
