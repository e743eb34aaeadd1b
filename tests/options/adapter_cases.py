"""Cases of adapters: what the merged model gained, worked out from the files of the adapters."""

from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor

from groupwise.model.adapter_options import Lora, NoAdapter, SavedAdapter
from tests.options.case import Case
from tests.options.observed import what_was_sampled
from tests.options.runs import Floats, Trace, flat, float64

BELOW, BEHIND = ".base_layer.weight", ".default.weight"


def in_files(folder: str | Path) -> dict[str, Tensor]:
    """A and B of a folder, by the names that the model has for them."""
    tensors = load_file(Path(folder) / "adapter_model.safetensors")
    return {name.removeprefix("base_model.model.").removesuffix(".weight"): tensor for name, tensor in tensors.items()}


def gained(trace: Trace) -> Floats:
    """What the merged model has beyond the model that the run began with, over all linear layers."""
    merged = load_file(trace.folder.model / "model.safetensors")
    names = sorted(name for name in merged if name.endswith("_proj.weight"))
    begun = {name.replace(BELOW, ".weight"): weight for name, weight in trace.before.items()}
    return np.concatenate([float64(merged[name] - begun[name]).ravel() for name in names])


def gained_by_hand(trace: Trace) -> Floats:
    options, saved = trace.config.model.adapter, in_files(trace.folder.adapter)
    assert isinstance(options, Lora)
    root = options.rank**0.5 if options.rank_stabilised else options.rank
    parts = []
    for name in sorted(name for name in trace.before if name.replace(BELOW, ".weight").endswith("_proj.weight")):
        layer = name.removesuffix(".weight").removesuffix(".base_layer")
        weight = trace.before[name].double()
        if f"{layer}.lora_A" in saved:
            whole = (
                weight + options.alpha / root * saved[f"{layer}.lora_B"].double() @ saved[f"{layer}.lora_A"].double()
            )
            if options.dora:
                lengths = saved[f"{layer}.lora_magnitude_vector"].double() / whole.square().sum(dim=1).sqrt()
                whole = whole * lengths.unsqueeze(1)
            parts.append(whole - weight)
        else:
            parts.append(torch.zeros_like(weight))
    return np.concatenate([float64(part).ravel() for part in parts])


def case(*values: str) -> Case:
    # Weights of the size 1 keep 7 digits, and what they gain is a hundredth of that.
    return Case(values, gained, gained_by_hand, base=BOTH, same=what_was_sampled, tolerance=1e-3)


def kinds(trace: Trace) -> list[str]:
    """What training moved: weights of the model, or of adapters that began at 0, or not."""
    moved = [name for name in trace.before if not torch.equal(trace.before[name], trace.after[name])]
    found = {"adapter" if "lora_" in name else "weight" for name in moved}
    begun = any(bool(weight.any()) for name, weight in trace.before.items() if "lora_B" in name)
    return [*sorted(found), *(["continued"] if begun else [])]


def kinds_by_hand(trace: Trace) -> list[str]:
    options = trace.config.model.adapter
    if isinstance(options, NoAdapter):
        return ["weight"]
    return ["adapter", *(["continued"] if isinstance(options, SavedAdapter) else [])]


def first_adapters(trace: Trace) -> Floats:
    return flat({name: weight for name, weight in trace.before.items() if "lora_" in name})


def those_of_the_folder(trace: Trace) -> Floats:
    options = trace.config.model.adapter
    assert isinstance(options, SavedAdapter)
    return flat({f"{name}{BEHIND}": tensor for name, tensor in in_files(options.path).items()})


def kept_bytes(trace: Trace) -> list[int]:
    """Of the weights that are not trained, and of the adapters."""
    named = list(trace.policy.model.named_parameters())
    return [sum(weight.nbytes for name, weight in named if ("lora_" in name) == own) for own in (False, True)]


def kept_bytes_by_hand(trace: Trace) -> list[int]:
    config = trace.policy.model.config
    hidden, wide, layers = config.hidden_size, config.intermediate_size, config.num_hidden_layers
    heads, keys = config.num_attention_heads * config.head_dim, config.num_key_value_heads * config.head_dim
    shapes = [(heads, hidden), (keys, hidden), (keys, hidden), (hidden, heads)]
    shapes += [(wide, hidden), (wide, hidden), (hidden, wide)]
    linear = layers * sum(rows * columns for rows, columns in shapes)
    others = config.vocab_size * hidden + layers * (2 * hidden + 2 * config.head_dim) + hidden
    own = layers * sum(16 * (rows + columns) for rows, columns in shapes)
    return [4 * others + (2 if trace.config.model.weights_dtype == "bfloat16" else 4) * linear, 4 * own]


def begins_within(trace: Trace) -> bool:
    """Whether all of every A lies within ±1/√inputs."""
    named = [weight for name, weight in trace.before.items() if "lora_A" in name]
    return all(float(weight.abs().max()) <= weight.shape[1] ** -0.5 for weight in named)


def left_behind(trace: Trace) -> list[bool]:
    files = (trace.folder.adapter / "adapter_model.safetensors", trace.folder.model / "model.safetensors")
    return [file.is_file() for file in files]


ADAPTERS = ("model.adapter=lora",)
BOTH = ("model.save=both", "optimizer.lr=1e-2")

CASES = {
    "model.adapter": Case(("none", "lora", "{type: saved, path: '{adapter}'}"), kinds, kinds_by_hand),
    "model.adapter.rank (lora)": case("2", "8"),
    "model.adapter.alpha (lora)": case("8.0", "64.0"),
    "model.adapter.targets (lora)": case("all_linear", "[q_proj, down_proj]"),
    "model.adapter.rank_stabilised (lora)": case("false", "true"),
    "model.adapter.dora (lora)": case("false", "true"),
    "model.adapter.init (lora)": Case(
        ("kaiming", "gaussian"),
        begins_within,
        lambda t: isinstance(t.config.model.adapter, Lora) and t.config.model.adapter.init == "kaiming",
        same=what_was_sampled,
    ),
    "model.adapter.path (saved)": Case(("{adapter}", "{adapter2}"), first_adapters, those_of_the_folder),
    "model.weights_dtype": Case(
        ("float32", "bfloat16"), kept_bytes, kept_bytes_by_hand, base=(*ADAPTERS, "model.compute_dtype=bfloat16")
    ),
    "model.save": Case(
        ("adapter", "merged", "both"),
        left_behind,
        lambda t: [t.config.model.save != "merged", t.config.model.save != "adapter"],
        base=ADAPTERS,
        same=what_was_sampled,
    ),
}
