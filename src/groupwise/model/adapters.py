"""Low-rank adapters in a model, as peft puts them there: its weights in checkpoint form, and a copy without them.

A layer with adapters holds the linear layer that it is around as `base_layer`, and A and B as `lora_A` and `lora_B`.
Axes: X outputs, D inputs, R rank.
"""

import copy
from collections.abc import Iterable, Iterator
from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from groupwise.model.backends.packed_cpu.linear import adapted_linear, linear
from groupwise.model.backends.supported import is_bare, is_plain_linear
from groupwise.model.shards import whole
from groupwise.model.size import ADAPTER, BELOW_ADAPTER

# What peft calls the adapters where there is one set of them.
NAME = "default"


class FrozenLinear(nn.Linear):
    """A linear layer that is not trained, whose weights are kept in another precision than it computes in."""

    def forward(self, input: Tensor) -> Tensor:
        """In the precision of autocast, or of the input. No converted copy of the weights outlives the product."""
        device = input.device.type
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else input.dtype
        return linear(input, self, dtype)


def adapted_layers(model: nn.Module) -> dict[str, Any]:
    """The layers with adapters, by name."""
    return {name: module for name, module in model.named_modules() if hasattr(module, "lora_A")}


def applied(layer: nn.Module, input_TD: Tensor, dtype: torch.dtype) -> Tensor:
    """What a linear layer, or what is in its place, makes of its input, with products in `dtype`.

    Plain layers and adapters of LoRA are computed here and keep little for the backward pass; all else is called.
    """
    if is_plain_linear(layer):
        return linear(input_TD, cast("nn.Linear", layer), dtype)
    within: Any = layer
    if not (hasattr(layer, "lora_A") and is_bare(layer) and _is_plain_lora(within)):
        called_TX: Tensor = layer(input_TD)
        return called_TX
    if within.disable_adapters:
        return linear(input_TD, within.base_layer, dtype)
    down, up = within.lora_A[NAME].weight, within.lora_B[NAME].weight
    return adapted_linear(input_TD, within.base_layer, down, up, within.scaling[NAME], dtype)


def _is_plain_lora(layer: Any) -> bool:
    """Whether there is one set of adapters, A and B alone and as torch keeps them, around a frozen linear layer."""
    base, parts = layer.base_layer, [layer.lora_A, layer.lora_B]
    alone = list(layer.lora_A) == [NAME] == list(layer.active_adapters) and not layer.lora_variant and not layer.merged
    frozen = type(base) is FrozenLinear and is_bare(base) and not base.weight.requires_grad
    plain = all(is_plain_linear(part[NAME]) and part[NAME].bias is None for part in parts)
    return alone and frozen and plain and type(layer.lora_dropout[NAME]) is nn.Identity


def adapter_weights(model: nn.Module) -> dict[str, nn.Parameter]:
    """The weights of the adapters, by name."""
    return {name: weight for name, weight in model.named_parameters() if ADAPTER in name}


@torch.no_grad()
def merged_weight(layer: Any) -> Tensor:
    """What a layer with adapters multiplies with, (X, D), in float32 or wider: W + s·B·A, rescaled by rows for DoRA."""
    weight_XD = whole(layer.base_layer.weight.detach())
    if layer.disable_adapters:
        return weight_XD
    change_XD = (whole(layer.lora_B[NAME].weight) @ whole(layer.lora_A[NAME].weight)) * layer.scaling[NAME]
    merged_XD: Tensor = weight_XD + change_XD
    if NAME in layer.lora_magnitude_vector:
        length_X = torch.linalg.vector_norm(merged_XD, dim=1)
        merged_XD *= (whole(layer.lora_magnitude_vector[NAME].weight) / length_X).unsqueeze(1)
    return merged_XD


def in_checkpoint_form(model: nn.Module, named: Iterable[tuple[str, Tensor]]) -> Iterator[tuple[str, Tensor]]:
    """Weights of a model by the names that they have without adapters, each merged or gathered when it is asked for."""
    for name, weight in named:
        if ADAPTER in name:
            continue
        owner, below, kind = name.rpartition(f"{BELOW_ADAPTER}.")
        merged = merged_weight(model.get_submodule(owner)) if below and kind == "weight" else whole(weight)
        yield (f"{owner}.{kind}" if below else name), merged


def model_to_sample(model: PreTrainedModel, dtype: torch.dtype, shares: bool = True) -> PreTrainedModel:
    """A copy with merged adapters and weights of this type, which shares all weights that are so already.

    Without adapters and with float32 it is the model itself. shares: False for a copy of every weight.
    """
    adapted = adapted_layers(model)
    if shares and not adapted and dtype == torch.float32:
        return model
    # Weights alone: rotary frequencies are buffers, and in a reduced precision they would turn by other angles.
    # Given as copied already, they are never copied in float32.
    copied: dict[int, Any] = {id(weight): weight for weight in adapter_weights(model).values()}
    for weight in model.parameters():
        copied.setdefault(id(weight), nn.Parameter(weight.detach().to(dtype, copy=not shares), requires_grad=False))
    for layer in adapted.values():
        merged = merged_weight(layer).to(dtype)
        copied[id(layer.base_layer.weight)] = nn.Parameter(merged, requires_grad=False)
    made = copy.deepcopy(model, copied).eval()
    without_adapters(made)
    return made


def without_adapters(model: nn.Module) -> None:
    """Put the layers below the adapters in their place."""
    for name, layer in adapted_layers(model).items():
        model.set_submodule(name, layer.base_layer)
    for module in model.modules():
        if type(module) is FrozenLinear:
            setattr(module, "__class__", nn.Linear)  # noqa: B010
    if hasattr(model, "peft_config"):
        del model.peft_config
