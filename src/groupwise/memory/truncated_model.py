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


def truncated(policy: Policy, layers: int, vocabulary: int) -> Policy:
    """The policy with its last layers alone and the first tokens of its vocabulary. The policy stays as it is."""
    name = layer_list(policy)
    if name is None:
        raise ValueError(f"{type(policy.model).__name__} holds its layers in a way that is not supported")
    part = _on_the_same_weights(policy)
    part.model.config.num_hidden_layers = layers
    setattr(part.backbone, name, nn.ModuleList([*part.backbone.get_submodule(name).children()][-layers:]))
    embedding, head = part.model.get_input_embeddings(), part.model.get_output_embeddings()
    tied = head.weight is embedding.weight
    embedding.num_embeddings, embedding.padding_idx, head.out_features = vocabulary, None, vocabulary
    for module in (embedding, head):
        for key, weight in list(module.named_parameters(recurse=False)):
            setattr(module, key, nn.Parameter(weight.detach()[:vocabulary].clone(), weight.requires_grad))
    if tied:
        head.weight = embedding.weight
    return part


def head_alone(policy: Policy, width: int) -> Policy:
    """The head with the first columns of its weights, behind hidden states that are embeddings of few tokens."""
    part = _on_the_same_weights(policy)
    head, weight = part.model.get_output_embeddings(), part.model.get_output_embeddings().weight
    head.in_features = width
    head.weight = nn.Parameter(weight.detach()[:, :width].clone(), weight.requires_grad)
    (name,) = (name for name, child in part.model.named_children() if child is part.backbone)
    setattr(part.model, name, _Embedded(part.backbone, part.model.get_input_embeddings(), width))
    return part


class _Embedded(nn.Module):
    """A backbone that gives the embeddings of its tokens as they are."""

    def __init__(self, backbone: nn.Module, embedding: nn.Module, width: int) -> None:
        super().__init__()
        device = next(embedding.parameters()).device
        # Not drawn at random: nobody's random numbers are to be used up.
        self.embed_tokens = nn.Embedding(1, width, device=device, _weight=torch.zeros(1, width, device=device))
        for name, value in vars(backbone).items():
            # Factors that a model applies behind its head.
            if isinstance(value, float):
                setattr(self, name, value)

    def forward(self, input_ids: Tensor, **_: Any) -> SimpleNamespace:
        return SimpleNamespace(last_hidden_state=self.embed_tokens(input_ids))

    def get_input_embeddings(self) -> nn.Module:
        return self.embed_tokens


def _on_the_same_weights(policy: Policy) -> Policy:
    weights = {id(weight): weight for weight in policy.model.parameters()}
    return replace(policy, model=copy.deepcopy(policy.model, weights))
