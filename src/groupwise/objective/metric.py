"""A measurement that states how it is merged, so that micro-batches and ranks cannot bend it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, assert_never

from groupwise.lazy import torch

if TYPE_CHECKING:
    from torch import Tensor

MetricReduction = Literal["sum", "mean", "max", "min"]


@dataclass(frozen=True)
class Metric:
    """One measurement of a part of a batch.

    Attributes:
        value: a number, or a detached tensor of no dimension (left on its device until the merge).
        reduction: how parts combine. `mean` is weighted by `weight`.
        weight: how many tokens or sequences the value describes. A part of weight 0 describes nothing and is dropped.
    """

    value: float | Tensor
    reduction: MetricReduction
    weight: float | Tensor = 1.0


def merge_metrics(parts: Iterable[Mapping[str, Metric]]) -> dict[str, Metric]:
    """One mapping from those of all micro-batches or ranks; values and weights of the result are plain floats.

    Sums are exact before one final rounding, so the order of the parts does not matter. A name may be missing in some
    parts; a name that describes nothing anywhere is missing in the result.

    Raises:
        ValueError: one name with two reductions.
    """
    collected: dict[str, list[Metric]] = {}
    for part in parts:
        for name, metric in part.items():
            collected.setdefault(name, []).append(metric)
    flat = [metric for metrics in collected.values() for metric in metrics]
    fetched = iter(_floats([number for metric in flat for number in (metric.value, metric.weight)]))
    numbers = zip(fetched, fetched, strict=True)
    merged: dict[str, Metric] = {}
    for name, metrics in collected.items():
        reductions = {metric.reduction for metric in metrics}
        if len(reductions) > 1:
            raise ValueError(f"metric {name} is reported with different reductions: {', '.join(sorted(reductions))}")
        weighted = [(value, weight) for value, weight in (next(numbers) for _ in metrics) if weight != 0]
        if weighted:
            merged[name] = _merge(weighted, metrics[0].reduction)
    return merged


def _merge(weighted: list[tuple[float, float]], reduction: MetricReduction) -> Metric:
    weight = math.fsum(weight for _, weight in weighted)
    values = [value for value, _ in weighted]
    match reduction:
        case "sum":
            value = math.fsum(values)
        case "mean":
            value = math.fsum(value * weight for value, weight in weighted) / weight
        case "max":
            value = max(values)
        case "min":
            value = min(values)
        case _:
            assert_never(reduction)
    return Metric(value, reduction, weight)


def _floats(values: list[float | Tensor]) -> list[float]:
    """All values as floats, those on a device fetched in one transfer."""
    tensors = [value.double() for value in values if isinstance(value, torch.Tensor)]
    fetched = iter(torch.stack(tensors).tolist() if tensors else [])
    return [next(fetched) if isinstance(value, torch.Tensor) else float(value) for value in values]
