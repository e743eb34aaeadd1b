"""What stands in the weights of a vLLM worker, read back through its own layers, as digests by checkpoint name.

A layer is read by multiplying with unit vectors: whatever its kernel did to the weights when they were loaded, the
products are the columns that it computes with, exact in every floating dtype. This module is imported by vLLM's
workers: it needs torch alone.

Axes: X outputs, D inputs, K of them that are read, V vocabulary.
"""

import hashlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

COLUMNS, ROWS = 256, 4096
"""Of a wider matrix, or a longer embedding, a quarter as many are read. Which follows from a seed, so that they change
from version to version."""


def digest(values: Tensor) -> str:
    """Of the values of a tensor; both zeros are the same."""
    exact = values.detach().float().cpu().contiguous() + 0.0
    return hashlib.sha256(exact.numpy().tobytes()).hexdigest()[:32]


def picked(count: int, most: int, seed: int) -> Tensor:
    """All of `count` indices, or a quarter of `most`, in order."""
    if count <= most:
        return torch.arange(count)
    generator = torch.Generator().manual_seed(seed)
    return torch.randperm(count, generator=generator)[: most // 4].sort().values


def digest_of(weight: Tensor, by: str, seed: int) -> str:
    """The digest of a tensor of a checkpoint, read `whole`, or by `rows` or `columns`."""
    if by == "rows":
        weight = weight[picked(weight.shape[0], ROWS, seed).to(weight.device)]
    elif by == "columns":
        weight = weight[:, picked(weight.shape[1], COLUMNS, seed).to(weight.device)]
    return digest(weight)


class WeightReader:
    """A worker extension of vLLM: `--worker-extension-cls groupwise.rollout.vllm.weight_reader.WeightReader`."""

    def read_digests(self, seed: int) -> dict[str, list[str]]:
        """By checkpoint name: how the tensor is read (`whole`, `rows`, `columns`), and the digest of what is there."""
        worker: Any = self
        return read_digests(worker.model_runner.get_model(), seed)


@torch.inference_mode()
def read_digests(model: nn.Module, seed: int) -> dict[str, list[str]]:
    """See `WeightReader.read_digests`. Layers that cannot be read, such as fused experts, are left out."""
    fused: dict[str, list[str]] = getattr(model, "packed_modules_mapping", None) or {}
    found = {}
    for path, module in model.named_modules():
        above, _, last = path.rpartition(".")
        parts = fused.get(last, [last])
        sizes = getattr(module, "output_sizes", None) if len(parts) > 1 else None
        for kind, by, values in _values_of(module, seed):
            # Of a layer that holds several of the checkpoint's, outputs stand one behind the other.
            for part, own in zip(parts, values.split(sizes) if sizes else [values], strict=True):
                found[f"{above}.{part}.{kind}" if above else f"{part}.{kind}"] = [by, digest(own)]
    return found


def _values_of(module: nn.Module, seed: int) -> Iterator[tuple[str, str, Tensor]]:
    """Name, way of reading, and values of what one module holds itself; outputs first in each of them."""
    layer: Any = module
    method: Any = getattr(layer, "quant_method", None)
    own = dict(module.named_parameters(recurse=False))
    if hasattr(layer, "embedding_dim") and type(module).__name__ != "ParallelLMHead":
        rows = picked(layer.org_vocab_size, ROWS, seed).to(own["weight"].device)
        yield "weight", "rows", method.embedding(layer, rows)
    elif hasattr(layer, "embedding_dim"):
        yield "weight", "columns", _columns(layer, layer.embedding_dim, seed)[: layer.org_vocab_size]
    elif hasattr(layer, "input_size") and hasattr(method, "apply"):
        yield "weight", "columns", _columns(layer, layer.input_size, seed)
    elif method is None and "weight" in own:
        yield "weight", "whole", own["weight"]
    if "bias" in own:
        yield "bias", "whole", own["bias"]


def _columns(layer: Any, width: int, seed: int) -> Tensor:
    """The columns of a layer's matrix that are read, (X, K)."""
    columns_K = picked(width, COLUMNS, seed)
    weight = next(layer.parameters())
    unit_KD = torch.zeros(len(columns_K), width, dtype=weight.dtype, device=weight.device)
    unit_KD[torch.arange(len(columns_K)), columns_K] = 1.0
    return torch.as_tensor(layer.quant_method.apply(layer, unit_KD, None)).T
