"""Whether tensors hold numbers, and how long they are: the sum of squares that says both reads each value once."""

import math
from collections.abc import Iterable

import torch
from torch import Tensor

from groupwise.model.shards import whole


def norm_of(tensors: Iterable[Tensor]) -> float:
    """The norm of all tensors together; not finite where a value is not, or where the squares leave float32."""
    return float(whole(torch.nn.utils.get_total_norm([tensor.detach() for tensor in tensors])))


def not_finite(named: Iterable[tuple[str, Tensor]]) -> list[str]:
    """The tensors that have values which are no finite numbers, or too large to be squared, with how many; often none.

    Slow where there are any, one norm otherwise.
    """
    tensors = {name: tensor for name, tensor in named if tensor.is_floating_point()}
    if math.isfinite(norm_of(tensors.values())):
        return []
    return [found for name, tensor in tensors.items() if (found := _described(name, whole(tensor.detach())))]


def shown(tensors: list[str], most: int = 3) -> str:
    """Tensors as `not_finite` lists them, in one line."""
    return ", ".join(tensors[:most]) + (f" and {len(tensors) - most} more" if len(tensors) > most else "")


def _described(name: str, tensor: Tensor) -> str:
    bad = int((~tensor.isfinite()).sum())
    if bad:
        kind = "NaN" if bool(tensor.isnan().any()) else "infinite"
        return f"{name} ({bad} of {tensor.numel()} values, {kind})"
    if not math.isfinite(norm_of([tensor])):
        return f"{name} (values up to {float(tensor.abs().max()):.1e})"
    return ""
