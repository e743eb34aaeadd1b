"""Low-rank adapters in a model, as peft puts them there: its weights in checkpoint form, and a copy without them.

A layer with adapters holds the linear layer that it is around as `base_layer`, and A and B as `lora_A` and `lora_B`.
Axes: X outputs, D inputs, R rank.
"""

import copy
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from groupwise.model.backends.packed_cpu.linear import linear
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


def adapter_weights(model: nn.Module) -> dict[str, nn.Parameter]:
    """The weights of the adapters, by name."""
    return {name: weight for name, weight in model.named_parameters() if ADAPTER in name}


@torch.no_grad()
def merged_weight(layer: Any) -> Tensor:
    """What a layer with adapters multiplies with, (X, D), in float32 or wider: W + s·B·A, rescaled by rows for DoRA."""
    weight_XD: Tensor = layer.base_layer.weight.detach()
    if layer.disable_adapters:
        return weight_XD
    change_XD = (layer.lora_B[NAME].weight @ layer.lora_A[NAME].weight) * layer.scaling[NAME]
    merged_XD: Tensor = weight_XD + change_XD
    if NAME in layer.lora_magnitude_vector:
        length_X = torch.linalg.vector_norm(merged_XD, dim=1)
        merged_XD *= (layer.lora_magnitude_vector[NAME].weight / length_X).unsqueeze(1)
    return merged_XD


def in_checkpoint_form(model: nn.Module, named: Iterable[tuple[str, Tensor]]) -> Iterator[tuple[str, Tensor]]:
    """Weights of a model by the names that they have without adapters, each merged when it is asked for."""
    for name, weight in named:
        if ADAPTER in name:
            continue
        owner, below, kind = name.rpartition(f"{BELOW_ADAPTER}.")
        if below and kind == "weight":
            weight = merged_weight(model.get_submodule(owner))
        yield (f"{owner}.{kind}" if below else name), weight


def model_to_sample(model: PreTrainedModel, dtype: torch.dtype) -> PreTrainedModel:
    """A copy with merged adapters and weights of this type, which shares all weights that are so already.

    Without adapters and with float32 it is the model itself.
    """
    adapted = adapted_layers(model)
    if not adapted and dtype == torch.float32:
        return model
    # Weights alone: rotary frequencies are buffers, and in a reduced precision they would turn by other angles.
    # Given as copied already, they are never copied in float32.
    copied: dict[int, Any] = {id(weight): weight for weight in adapter_weights(model).values()}
    for weight in model.parameters():
        copied.setdefault(id(weight), nn.Parameter(weight.detach().to(dtype), requires_grad=False))
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
