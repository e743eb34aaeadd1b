"""The decoding step that is written by hand: the model's own to rounding where layers are supported, or not used."""

import types
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel, Qwen2Config, Qwen2ForCausalLM
from transformers.models.llama.modeling_llama import LlamaDecoderLayer as Original

from groupwise.model import cache, decoder
from groupwise.model.backends.supported import is_supported
from groupwise.model.cache import KVCache
from groupwise.rollout.engine import SampleRequest, SamplingParams
from groupwise.rollout.inprocess import InProcessEngine
from tests.support.sampling import recorded, requests, sampling, scored
from tests.support.tiny import VOCABULARY, build, policy_of, random_ids

ROTARY = {"rope_type": "yarn", "factor": 4.0, "rope_theta": 10000.0, "original_max_position_embeddings": 32}


def qwen2() -> PreTrainedModel:
    """Biases in the maps of queries, keys and values, none of which is 0."""
    torch.manual_seed(0)
    sizes: dict[str, Any] = {"num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2}
    config = Qwen2Config(vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, initializer_range=0.25, **sizes)
    model = Qwen2ForCausalLM(config).eval()
    for name, weight in model.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(weight, std=0.5)
    return model


MODELS = {
    "llama": lambda: build("llama"),
    "llama with biases": lambda: build("llama", attention_bias=True, mlp_bias=True),
    "llama with scaled rotation": lambda: build("llama", rope_parameters=ROTARY),
    "mistral": lambda: build("mistral", head_dim=24),
    "qwen2": qwen2,
    "qwen3": lambda: build("qwen3"),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_supported_step_is_the_models_own(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Norms with weights that are not 1, and the same sequences by either pass."""
    model = MODELS[name]()
    for part, weight in model.named_parameters():
        if "norm" in part:
            torch.nn.init.uniform_(weight, 0.5, 1.5)
    policy = policy_of(model, (1, 2))
    assert is_supported(policy.backbone)
    by_hand = InProcessEngine(policy, 256).generate(requests(), sampling())
    torch.testing.assert_close(recorded(by_hand), scored(policy, requests(), by_hand, 1.0), atol=2e-5, rtol=0)
    monkeypatch.setattr(decoder, "is_supported", lambda _: False)
    by_model = InProcessEngine(policy, 256).generate(requests(), sampling())
    assert [c.ids.tolist() for group in by_hand for c in group] == [c.ids.tolist() for group in by_model for c in group]
    torch.testing.assert_close(recorded(by_hand), recorded(by_model), atol=2e-5, rtol=0)


class LlamaDecoderLayer(Original):
    """Of a supported name, with a term of its own."""

    def forward(self, *arguments: Any, **named: Any) -> Tensor:
        hidden: Tensor = super().forward(*arguments, **named)
        return 0.5 * hidden


def of_own_class(model: PreTrainedModel) -> None:
    for layer in model.model.layers:
        layer.__class__ = LlamaDecoderLayer


def with_own_forward(model: PreTrainedModel) -> None:
    for layer in model.model.layers:
        original = layer.self_attn.forward

        def halved(_: Any, *arguments: Any, original: Any = original, **named: Any) -> Any:
            attended, weights = original(*arguments, **named)
            return 0.5 * attended, weights

        layer.self_attn.forward = types.MethodType(halved, layer.self_attn)


def with_hook(model: PreTrainedModel) -> None:
    model.model.norm.register_forward_hook(lambda module, inputs, output: 0.5 * output)  # noqa: ARG005


def with_own_norm(model: PreTrainedModel) -> None:
    class Shifted(torch.nn.Module):
        def forward(self, hidden: Tensor) -> Tensor:
            return torch.nn.functional.rms_norm(hidden, hidden.shape[-1:]) + 0.3

    for layer in model.model.layers:
        layer.input_layernorm = Shifted()


def with_layers_left_out(model: PreTrainedModel) -> None:
    model.config.num_hidden_layers = 1


@pytest.mark.parametrize("change", [of_own_class, with_own_forward, with_hook, with_own_norm, with_layers_left_out])
def test_a_changed_layer_takes_part(change: Any) -> None:
    policy = policy_of(build("llama"), (1, 2))
    change(policy.model)
    assert not is_supported(policy.backbone)
    answers = InProcessEngine(policy, 256).generate(requests(), sampling(max_new_tokens=8))
    torch.testing.assert_close(recorded(answers), scored(policy, requests(), answers, 1.0), atol=2e-5, rtol=0)


class Replaced(torch.nn.Module):
    """A linear map with a term of low rank beside it."""

    def __init__(self, original: torch.nn.Linear) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.original = original
        self.low = torch.nn.Parameter(
            0.3 * torch.randn(original.out_features, 2) @ torch.randn(2, original.in_features)
        )

    def forward(self, hidden: Tensor) -> Tensor:
        changed: Tensor = self.original(hidden) + hidden @ self.low.T
        return changed


@pytest.mark.parametrize("limit", [0, decoder.JOINED_BYTES])
@pytest.mark.parametrize("name", ["llama", "llama with biases", "qwen2", "qwen3"])
@pytest.mark.parametrize("change", ["nothing", "replaced", "hooked", "one bias less"])
def test_maps_side_by_side_are_the_maps(name: str, limit: int, change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Joined or not, and with maps that were replaced or have hooks, in the layer that is not the first."""
    monkeypatch.setattr(decoder, "JOINED_BYTES", limit)
    policy = policy_of(MODELS[name](), (1, 2))
    layer = policy.model.model.layers[1]
    if change == "replaced":
        layer.self_attn.k_proj, layer.mlp.up_proj = Replaced(layer.self_attn.k_proj), Replaced(layer.mlp.up_proj)
    elif change == "hooked":
        layer.self_attn.v_proj.register_forward_hook(lambda module, inputs, output: 0.5 * output)  # noqa: ARG005
        layer.mlp.gate_proj.register_forward_hook(lambda module, inputs, output: -output)  # noqa: ARG005
    elif change == "one bias less":
        layer.self_attn.k_proj.bias = None
    assert is_supported(policy.backbone)
    answers = InProcessEngine(policy, 256).generate(requests(), sampling(max_new_tokens=8))
    torch.testing.assert_close(recorded(answers), scored(policy, requests(), answers, 1.0), atol=2e-5, rtol=0)


@pytest.mark.parametrize("growth", [1, 5, 64])
@pytest.mark.parametrize("rows", [3, 256])
def test_a_ring_that_grows_holds_what_it_held(growth: int, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rows are refilled until the ring has come round; many move together while it grows."""
    monkeypatch.setattr(cache, "GROWTH", growth)
    policy = policy_of(build("qwen3"), (1, 2, 3))
    answers = InProcessEngine(policy, rows).generate(requests((6, 6, 6, 6)), sampling(max_new_tokens=40))
    torch.testing.assert_close(
        recorded(answers), scored(policy, requests((6, 6, 6, 6)), answers, 1.0), atol=2e-5, rtol=0
    )


def test_an_unsupported_architecture_decodes_by_its_own_pass() -> None:
    assert not is_supported(policy_of(build("olmo2")).backbone)


def test_two_streams_of_one_engine_do_not_meet() -> None:
    """A group that is divided over several beginnings, with another call of the engine between them."""
    engine = InProcessEngine(policy_of(build("llama"), (1, 2, 3, 4)), 3)
    alone = engine.generate(requests((1, 20, 1, 2)), sampling())
    stream = engine.stream(requests((1, 20, 1, 2)), sampling())
    parts = []
    for part in stream:
        parts.append(part)
        engine.generate(requests((2, 1, 5, 1)), sampling())
    for index, completions in parts:
        assert [c.ids.tolist() for c in completions] == [c.ids.tolist() for c in alone[index]]


def test_no_position_is_outside_of_the_context(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row that has ended is computed on for a while, but not further than its own end."""
    generator = np.random.default_rng(0)
    policy = policy_of(build("llama"), (), max_context_tokens=40)
    positions: list[int] = []
    step = decoder.Decoder.step

    def noted(self: decoder.Decoder, ids_A: Tensor, positions_A: Tensor, cache: KVCache) -> Tensor:
        positions.append(int(positions_A.max()))
        return step(self, ids_A, positions_A, cache)

    monkeypatch.setattr(decoder.Decoder, "step", noted)
    prompts = [random_ids(generator, 36), *(random_ids(generator, 4) for _ in range(5))]
    asked = [SampleRequest(prompt, (index,)) for index, prompt in enumerate(prompts)]
    answers = InProcessEngine(policy, 256).generate(asked, SamplingParams(1.0, 100, (), 0, 1.0, 0.0, False))
    assert [len(completions[0].ids) for completions in answers] == [4, 36, 36, 36, 36, 36]
    assert max(positions) < 40
