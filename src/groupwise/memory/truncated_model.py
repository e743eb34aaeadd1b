"""Parts of a model on the same weights, cheap to run and alike in kind: few layers, or the head alone."""

import copy
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from groupwise.model.backends.activation_checkpointing import layers_of
from groupwise.model.load import Policy


def layer_list(policy: Policy) -> str | None:
    """The name under which the backbone holds its layers; None for an architecture that holds them otherwise."""
    layers = layers_of(policy.backbone)
    for name, child in policy.backbone.named_children():
        if isinstance(child, nn.ModuleList) and list(child) == layers and len(layers) > 0:
            return name
    return None


def truncated(policy: Policy, layers: int, vocabulary: int | None = None) -> Policy:
    """The policy with its last layers alone, and with the first tokens of its vocabulary. The policy stays as it is."""
    name = layer_list(policy)
    if name is None:
        raise ValueError(f"{type(policy.model).__name__} holds its layers in a way that is not supported")
    model, backbone = _twin(policy.model), _twin(policy.backbone)
    model.config = backbone.config = copy.copy(policy.model.config)
    model.config.num_hidden_layers = layers
    held = list(policy.backbone.get_submodule(name).children())
    backbone._modules[name] = nn.ModuleList(held[len(held) - layers :])
    model._modules[policy.model.base_model_prefix] = backbone
    if vocabulary is not None:
        embedding, head = _twin(policy.model.get_input_embeddings()), _twin(policy.head)
        tied = policy.head.weight is policy.model.get_input_embeddings().weight
        embedding.num_embeddings, embedding.padding_idx, head.out_features = vocabulary, None, vocabulary
        for module in (embedding, head):
            module._parameters = {key: _first(weight, vocabulary) for key, weight in module._parameters.items()}
        if tied:
            head._parameters["weight"] = embedding._parameters["weight"]
        model.set_input_embeddings(embedding)
        model.set_output_embeddings(head)
    return replace(policy, model=model)


def head_alone(policy: Policy, width: int) -> Policy:
    """The head with the first columns of its weights, behind hidden states that are embeddings of few tokens."""
    model, head = _twin(policy.model), _twin(policy.head)
    weight = head._parameters["weight"]
    head.in_features = width
    head._parameters["weight"] = nn.Parameter(weight.detach()[:, :width].clone(), weight.requires_grad)
    model._modules[policy.model.base_model_prefix] = _Embedded(width, policy.device)
    model.set_output_embeddings(head)
    return replace(policy, model=model)


class _Embedded(nn.Module):
    """A backbone that gives the embeddings of its tokens as they are."""

    def __init__(self, width: int, device: torch.device) -> None:
        super().__init__()
        # Not drawn at random: nobody's random numbers are to be used up.
        self.embed_tokens = nn.Embedding(1, width, device=device, _weight=torch.zeros(1, width, device=device))

    def forward(self, input_ids: Tensor, **_: Any) -> SimpleNamespace:
        return SimpleNamespace(last_hidden_state=self.embed_tokens(input_ids))


def _twin(module: nn.Module) -> Any:
    """Another module with the same parts."""
    twin = copy.copy(module)
    twin._modules, twin._parameters = dict(module._modules), dict(module._parameters)
    return twin


def _first(weight: nn.Parameter | None, rows: int) -> nn.Parameter | None:
    return None if weight is None else nn.Parameter(weight.detach()[:rows].clone(), weight.requires_grad)
