"""The pass of supported models against their own: values and gradients in float64, and what is not supported."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, Qwen2Config, Qwen2ForCausalLM

from groupwise.model.backends.packed import Packed
from groupwise.model.backends.packed_cpu import layers
from groupwise.model.backends.supported import is_supported
from groupwise.model.load import Policy
from groupwise.model.packing import PackedBatch, SequenceGroup, pack
from groupwise.model.score import Scoring, backend_of, score
from tests.support.tiny import (
    _SIZES,
    build,
    gradients,
    plain_logits,
    policy_of,
    ragged_groups,
    relative_difference,
    with_attention,
)

CPU = torch.device("cpu")
SHAPES = [(7, (5, 1, 9)), (1, (4,)), (12, (1, 1)), (3, (6, 2, 2, 11, 1))]
SUPPORTED = ("llama", "mistral", "qwen2", "qwen3")


def hidden_states(policy: Policy, batch: PackedBatch, checkpoint: bool = False) -> Tensor:
    """Those of the back-end that is chosen."""
    backend = backend_of(policy)
    assert isinstance(backend, Packed)
    return backend.hidden_states(batch, Scoring(1.0, 1000, checkpoint_layers=checkpoint))


def supported_model(architecture: str, tied: bool) -> PreTrainedModel:
    """A tiny model with grouped queries; that of Qwen2 has biases."""
    changes: dict[str, Any] = {"tie_word_embeddings": tied, "num_attention_heads": 4, "num_key_value_heads": 2}
    if architecture != "qwen2":
        return build(architecture, **changes)
    torch.manual_seed(0)
    model = Qwen2ForCausalLM(Qwen2Config(**{**_SIZES, **changes})).eval()
    for name, weight in model.named_parameters():
        if name.endswith("bias"):
            nn.init.normal_(weight)
    return model


def exact(monkeypatch: pytest.MonkeyPatch, model: PreTrainedModel) -> PreTrainedModel:
    """The model in float64, without the roundings to float32 in its norms and in eager attention."""

    def forward(norm: Any, values: Tensor) -> Tensor:
        scale: Tensor = norm.weight * torch.rsqrt(values.pow(2).mean(-1, keepdim=True) + norm.variance_epsilon)
        return scale * values

    monkeypatch.setattr(type(model.model.norm), "forward", forward)
    return with_attention(model.double(), "sdpa")


def own_logits(policy: Policy, groups: list[SequenceGroup]) -> Tensor:
    batch = pack(groups, CPU)
    logits: Tensor = policy.head(hidden_states(policy, batch)[batch.predictor_N])
    return logits


def factors(logits_NV: Tensor) -> Tensor:
    return torch.randn(logits_NV.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(3))


def check_against_itself(plain: PreTrainedModel) -> None:
    """Logits and gradients of the packed pass are those of the model's own."""
    policy = policy_of(plain)
    assert type(backend_of(policy)) is layers.PackedCpu
    groups = ragged_groups(1, SHAPES)
    expected_NV = torch.cat([plain_logits(plain, g.prompt_ids, ids) for g in groups for ids in g.completion_ids])
    actual_NV = own_logits(policy, groups)
    assert float((actual_NV - expected_NV).detach().norm() / expected_NV.detach().norm()) < 1e-10
    for logits_NV in (actual_NV, expected_NV):
        (logits_NV * factors(logits_NV)).sum().backward()
    assert relative_difference(gradients(policy.model), gradients(plain)) < 1e-9


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("architecture", SUPPORTED)
def test_logits_and_gradients_are_those_of_the_model(
    monkeypatch: pytest.MonkeyPatch, architecture: str, tied: bool
) -> None:
    check_against_itself(exact(monkeypatch, supported_model(architecture, tied)))


def test_maps_with_biases_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build("llama", mlp_bias=True, attention_bias=True)
    for name, weight in model.named_parameters():
        if name.endswith("bias"):
            nn.init.normal_(weight)
    check_against_itself(exact(monkeypatch, model))


@pytest.mark.parametrize("architecture", SUPPORTED)
def test_layers_computed_again_have_the_same_gradients(architecture: str) -> None:
    groups = ragged_groups(2, SHAPES)
    kept, again = (policy_of(supported_model(architecture, True)) for _ in range(2))
    for policy, recompute in ((kept, False), (again, True)):
        hidden_states(policy, pack(groups, CPU), recompute).pow(2).sum().backward()
    assert relative_difference(gradients(again.model), gradients(kept.model)) == 0.0


def test_layers_computed_again_keep_their_inputs_alone() -> None:
    policy = policy_of(build("llama"))
    batch = pack(ragged_groups(2, SHAPES), CPU)

    def kept_elements(recompute: bool) -> int:
        weights = {weight.data_ptr() for weight in policy.model.parameters()}
        found: dict[int, int] = {}

        def note(tensor: Tensor) -> Tensor:
            if tensor.data_ptr() not in weights:
                found[tensor.data_ptr()] = tensor.numel()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            hidden_states(policy, batch, recompute)
        return sum(found.values())

    assert kept_elements(True) < kept_elements(False) / 3


@pytest.mark.parametrize("architecture", SUPPORTED)
def test_weights_that_are_frozen_get_no_gradient(architecture: str) -> None:
    groups = ragged_groups(2, SHAPES)
    whole, part = (policy_of(supported_model(architecture, False)) for _ in range(2))
    frozen = {"model.embed_tokens.weight", "model.layers.0.self_attn.k_proj.weight", "model.norm.weight"}
    for name, weight in part.model.named_parameters():
        weight.requires_grad_(name not in frozen)
    for policy in (whole, part):
        own_logits(policy, groups).pow(2).sum().backward()
    expected = {name: grad for name, grad in gradients(whole.model).items() if name not in frozen}
    assert relative_difference(gradients(part.model), expected) < 1e-6


def test_a_pass_without_gradient_keeps_nothing() -> None:
    policy = policy_of(build("qwen3"))
    batch = pack(ragged_groups(2, SHAPES), CPU)
    with torch.no_grad():
        frozen_TD = hidden_states(policy, batch, checkpoint=True)
    assert not frozen_TD.requires_grad
    torch.testing.assert_close(frozen_TD, hidden_states(policy, batch).detach(), atol=0, rtol=0)


@pytest.mark.parametrize("architecture", SUPPORTED)
def test_bfloat16_is_as_close_as_in_the_model_s_own_pass(architecture: str) -> None:
    groups = ragged_groups(4, [(12, (40, 30, 20))] * 4)
    batch = pack(groups, CPU)

    def logps(model: PreTrainedModel, dtype: torch.dtype, supported: bool) -> tuple[Tensor, dict[str, Tensor]]:
        policy = policy_of(model, compute_dtype=dtype)
        if not supported:
            # A hook that does nothing makes the model unsupported.
            policy.backbone.register_forward_hook(lambda module, inputs, output: None)  # noqa: ARG005
        logps_N = score(policy, batch, Scoring(1.0, 1000)).logps_N
        logps_N.sum().backward()
        return logps_N.detach(), gradients(policy.model)

    model = supported_model(architecture, True)
    exact_N, exact_gradients = logps(model, torch.float32, True)
    errors, away = [], []
    for supported in (True, False):
        logps_N, found = logps(model, torch.bfloat16, supported)
        errors.append(float((logps_N - exact_N).pow(2).mean().sqrt()))
        away.append(relative_difference(found, exact_gradients))
    assert errors[0] < 1.1 * errors[1]
    assert away[0] < 1.5 * away[1]


class LowRank(nn.Module):
    """A linear map with a low-rank addition, as adapters put in its place."""

    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Linear(base.in_features, 3, bias=False, dtype=torch.float64)
        self.up = nn.Linear(3, base.out_features, bias=False, dtype=torch.float64)

    def forward(self, values: Tensor) -> Tensor:
        made: Tensor = self.base(values) + self.up(self.down(values))
        return made


MAPS = [f"self_attn.{name}_proj" for name in "qkvo"] + [f"mlp.{name}_proj" for name in ("gate", "up", "down")]


@pytest.mark.parametrize("place", MAPS)
def test_linear_maps_that_were_replaced_or_hooked_take_part(monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    plain = exact(monkeypatch, supported_model("llama", True))
    torch.manual_seed(1)
    first, second = plain.model.layers
    parent, name = place.split(".")
    setattr(getattr(first, parent), name, LowRank(first.get_submodule(place)))
    second.get_submodule(place).register_forward_hook(lambda module, inputs, output: 1.5 * output)  # noqa: ARG005
    policy = policy_of(plain)
    assert is_supported(policy.backbone)
    groups = ragged_groups(1, SHAPES)
    expected_NV = torch.cat([plain_logits(plain, g.prompt_ids, ids) for g in groups for ids in g.completion_ids])
    actual_NV = own_logits(policy, groups)
    torch.testing.assert_close(actual_NV, expected_NV, atol=1e-10, rtol=0)
    for logits_NV in (actual_NV, expected_NV):
        (logits_NV * factors(logits_NV)).sum().backward()
    assert relative_difference(gradients(policy.model), gradients(plain)) < 1e-9


def hooked_layer(model: Any) -> None:
    model.model.layers[1].register_forward_hook(lambda module, inputs, output: output)  # noqa: ARG005


def hooked_norm(model: Any) -> None:
    model.model.norm.register_forward_pre_hook(lambda module, inputs: None)  # noqa: ARG005


def own_forward(model: Any) -> None:
    attention = model.model.layers[0].self_attn
    attention.forward = attention.forward


def subclassed_layer(model: Any) -> None:
    layer = model.model.layers[0]
    layer.__class__ = type("Layer", (type(layer),), {})


@pytest.mark.parametrize("change", [hooked_layer, hooked_norm, own_forward, subclassed_layer])
def test_what_may_compute_anything_else_runs_itself(
    monkeypatch: pytest.MonkeyPatch, change: Callable[[Any], None]
) -> None:
    policy = policy_of(build("llama"))
    batch = pack(ragged_groups(2, SHAPES), CPU)
    expected_TD = hidden_states(policy, batch)
    change(policy.model)
    assert not is_supported(policy.backbone)
    assert type(backend_of(policy)) is Packed
    monkeypatch.setattr(layers, "_layer", lambda *_: pytest.fail("the modules were passed over"))
    torch.testing.assert_close(hidden_states(policy, batch), expected_TD, atol=1e-5, rtol=0)


def test_an_mlp_that_was_replaced_takes_part() -> None:
    policy = policy_of(build("llama"))
    batch = pack(ragged_groups(2, SHAPES), CPU)
    plain_TD = hidden_states(policy, batch)
    mlp = policy.model.model.layers[0].mlp
    hook = mlp.register_forward_hook(lambda module, inputs, output: 2 * output)  # noqa: ARG005
    doubled_TD = hidden_states(policy, batch)
    hook.remove()
    mlp.down_proj.weight.data *= 2
    assert float((doubled_TD - plain_TD).detach().abs().max()) > 0.1
    torch.testing.assert_close(doubled_TD, hidden_states(policy, batch), atol=1e-5, rtol=0)


def test_another_activation_is_computed_by_the_model() -> None:
    policy = policy_of(build("llama", hidden_act="gelu"))
    batch = pack(ragged_groups(2, SHAPES), CPU)
    assert is_supported(policy.backbone)
    own_TD = hidden_states(policy, batch)
    hooked_layer(policy.model)
    torch.testing.assert_close(own_TD, hidden_states(policy, batch), atol=1e-5, rtol=0)
