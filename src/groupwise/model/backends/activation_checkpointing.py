"""Activation checkpointing: what a layer computed is dropped after the forward pass and computed again in the backward.

Of each layer only its input is kept, for the price of one more forward pass (Chen et al. 2016, 1604.06174).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from transformers.modeling_layers import GradientCheckpointingLayer


def checkpointed(function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """Call `function` and keep nothing of it but its arguments. It draws no random numbers."""
    return checkpoint(function, *arguments, use_reentrant=False, preserve_rng_state=False, **named)


@contextmanager
def checkpointed_layers(backbone: nn.Module, active: bool) -> Iterator[None]:
    """Forward passes inside of this context keep only the inputs of the model's layers, where `active`.

    transformers recomputes layers in training mode alone, which would switch dropout on. The layers are themselves
    again behind the context, so that nothing else that runs the model is affected.
    """
    wrapped = layers_of(backbone) if active and torch.is_grad_enabled() else []
    own = [vars(layer).get("forward") for layer in wrapped]
    for layer in wrapped:
        layer.forward = partial(checkpointed, layer.forward)
    try:
        yield
    finally:
        for layer, forward in zip(wrapped, own, strict=True):
            if forward is None:
                del layer.forward
            else:
                layer.forward = forward


def layers_of(backbone: nn.Module) -> list[Any]:
    """The layers that transformers can recompute, in order; none for an architecture that marks none."""
    return [module for module in backbone.modules() if isinstance(module, GradientCheckpointingLayer)]
