"""Layers that are computed again in the backward pass: the same gradient, with less kept in between."""

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from groupwise.model.backends.activation_checkpointing import checkpointed_layers, layers_of
from groupwise.model.load import Policy
from groupwise.model.packing import SequenceGroup, pack
from groupwise.model.score import Scoring, score
from tests.support.tiny import ARCHITECTURES, build, gradients, policy_of, ragged_groups

CPU = torch.device("cpu")
GROUPS = ragged_groups(3, [(9, (7, 12, 3)), (5, (11,)), (14, (6, 6))])
LAYERS = 6


def gradient_and_kept(
    policy: Policy, groups: Sequence[SequenceGroup], recompute: bool
) -> tuple[dict[str, Tensor], int]:
    """The gradient of all log-probabilities, and the bytes that the forward pass keeps for it, weights aside."""
    weights = {weight.untyped_storage().data_ptr() for weight in policy.model.parameters()}
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        scores = score(policy, pack(groups, CPU), Scoring(0.8, 1000, checkpoint_layers=recompute))
    kept_bytes = sum(kept.values())
    (scores.logps_N * torch.linspace(-1, 1, len(scores.logps_N))).sum().backward()
    return gradients(policy.model), kept_bytes


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_gradient_is_the_same_to_the_last_bit_and_less_is_kept(architecture: str, dtype: torch.dtype) -> None:
    model = build(architecture, num_hidden_layers=LAYERS)
    plain, plain_bytes = gradient_and_kept(policy_of(model, compute_dtype=dtype), GROUPS, recompute=False)
    again, again_bytes = gradient_and_kept(policy_of(model, compute_dtype=dtype), GROUPS, recompute=True)
    assert plain.keys() == again.keys()
    for name, gradient in plain.items():
        assert torch.equal(gradient, again[name]), name
    assert again_bytes < 0.5 * plain_bytes


@pytest.mark.parametrize("architecture", ["llama", "olmo2"])
def test_what_is_kept_for_each_layer_is_its_input(architecture: str) -> None:
    """Two more layers keep two more inputs of T x D numbers."""
    sizes = [
        gradient_and_kept(policy_of(build(architecture, num_hidden_layers=layers)), GROUPS, recompute=True)[1]
        for layers in (2, 4)
    ]
    tokens = pack(GROUPS, CPU).token_ids_1T.numel()
    assert sizes[1] - sizes[0] == 2 * tokens * 32 * 4


def test_the_layers_are_themselves_again_behind_the_context() -> None:
    model = build("olmo2")
    layers = layers_of(model.model)
    assert len(layers) == model.config.num_hidden_layers
    own = layers[0].forward
    layers[1].forward = replaced = layers[1].forward

    def failing_pass() -> None:
        with checkpointed_layers(model.model, active=True):
            assert all("forward" in vars(layer) for layer in layers)
            raise KeyError

    with pytest.raises(KeyError):
        failing_pass()
    assert "forward" not in vars(layers[0])
    assert layers[0].forward == own
    assert vars(layers[1])["forward"] is replaced


def test_passes_without_gradient_run_the_layers_once() -> None:
    policy = policy_of(build("olmo2"))
    with torch.no_grad(), checkpointed_layers(policy.backbone, active=True):
        assert not any("forward" in vars(layer) for layer in layers_of(policy.backbone))
