"""The check of a model before it is used: what it finds, and what it calls it."""

import math
from typing import Any

import pytest
import torch
from transformers import Phi3Config, Phi3ForCausalLM

from groupwise.errors import DataError
from groupwise.model import startup_check
from groupwise.model.backends import attention
from groupwise.model.choose_backend import choose_backend
from groupwise.model.load import Policy
from groupwise.model.packing import pack
from groupwise.model.startup_check import TOLERANCE_NATS, check_scoring, checked_tokens
from tests.support.tiny import VOCABULARY, build, policy_of, with_attention


def phi3(original: int) -> Policy:
    """Phi-3 whose angles are others in sequences of more than `original` tokens."""
    torch.manual_seed(0)
    config = Phi3Config(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=128,
        original_max_position_embeddings=original,
        initializer_range=0.25,
        rope_parameters={
            "rope_type": "longrope", "rope_theta": 10000.0, "short_factor": [1.0] * 8, "long_factor": [4.0] * 8,
            "original_max_position_embeddings": original,
        },
        pad_token_id=None, bos_token_id=None, eos_token_id=None, sliding_window=None,
    )  # fmt: skip
    return policy_of(with_attention(Phi3ForCausalLM(config).eval(), "eager"))


def refusal(policy: Policy, longest: int) -> str:
    with pytest.raises(DataError) as raised:
        check_scoring(policy, longest)
    return str(raised.value)


def test_n2_long_and_short_sequences_in_one_pack_are_told_apart() -> None:
    """Nothing has to be known of the kind of rotation: one long sequence turns the short ones of its pack."""
    message = refusal(phi3(48), 90)
    assert float(message.split("differ from the model's own by ")[1].split(" ")[0]) > TOLERANCE_NATS
    assert "shorter ones agree, so that it is their length of 90 tokens (rotary scaling: longrope)" in message
    assert check_scoring(phi3(48), 48) < 1e-4
    assert check_scoring(phi3(96), 90) < 1e-4


@pytest.mark.parametrize("longest", [48, 49, 50, 57, 64, 65, 90])
def test_n2_another_back_end_is_sound_at_every_length(longest: int) -> None:
    policy, note = choose_backend(phi3(48), "auto", longest)
    assert policy.backend == ("plain" if longest > 48 else "packed")
    assert ("long-rope" in note) == (longest > 48)
    assert check_scoring(policy, longest) < 1e-4


def test_a_length_that_does_not_agree_chooses_the_other_back_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("groupwise.model.choose_backend._not_packed", lambda *_: "")
    policy, note = choose_backend(phi3(48), "auto", 90)
    assert policy.backend == "plain"
    assert "shorter ones agree, so that it is their length of 90 tokens" in note


@pytest.mark.parametrize("longest", [25, 32, 90, 128])
def test_sequences_as_long_as_the_run_are_compared(longest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def noted(groups: Any, device: Any) -> Any:
        seen.extend(len(g.prompt_ids) + len(ids) for g in groups for ids in g.completion_ids)
        return pack(groups, device)

    monkeypatch.setattr(startup_check, "pack", noted)
    assert check_scoring(policy_of(build("qwen3")), longest) < 1e-5
    assert max(seen) == longest
    assert min(seen) == 6


def test_a_fault_in_long_sequences_alone_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attention that forgets what is more than 64 tokens away."""
    attend = attention.SharedPromptAttention.attend_rows

    def forgetful(plan: Any, query: Any, key: Any, value: Any, scale: float) -> Any:
        if len(key) > 64:
            value = value.clone()
            value[20:30] = 0
        return attend(plan, query, key, value, scale)

    monkeypatch.setattr(attention.SharedPromptAttention, "attend_rows", forgetful)
    policy = policy_of(build("llama"))
    assert check_scoring(policy) < 1e-5
    assert "shorter ones agree, so that it is their length of 100 tokens;" not in refusal(policy, 100)
    assert "their length of 100 tokens" in refusal(policy, 100)


def test_n5_weights_that_are_not_finite_are_named() -> None:
    policy = policy_of(build("llama"))
    with torch.no_grad():
        policy.model.get_submodule("model.layers.1.mlp").down_proj.weight[0, :3] = math.nan
        policy.model.get_submodule("model.norm").weight[0] = math.inf
    with pytest.raises(DataError) as raised:
        choose_backend(policy, "auto", 60)
    message = str(raised.value)
    assert (
        "model.layers.1.mlp.down_proj.weight (3 of 1536 values, NaN), model.norm.weight (1 of 32 values, infinite)"
        in message
    )
    assert "architecture" not in message


def test_the_cost_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = policy_of(build("qwen3"), max_context_tokens=10**6)
    assert checked_tokens(policy, 5000) == 5000
    monkeypatch.setattr(startup_check, "CHECK_MULTIPLICATIONS", 300 * sum(w.numel() for w in policy.model.parameters()))
    assert checked_tokens(policy, 5000) == 300
    monkeypatch.setattr(startup_check, "CHECK_MULTIPLICATIONS", 1.0)
    assert checked_tokens(policy, 5000) == 256
    assert checked_tokens(policy, 200) == 200


def test_long_sequences_take_no_square_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = policy_of(build("qwen3", max_position_embeddings=2048), max_context_tokens=2048)
    chosen: list[str] = []
    choose = type(policy.model).set_attn_implementation

    def noted(model: Any, name: str) -> None:
        chosen.append(name)
        choose(model, name)

    monkeypatch.setattr(type(policy.model), "set_attn_implementation", noted)
    assert check_scoring(policy, 1500) < 1e-4
    assert chosen == ["sdpa", attention.IMPLEMENTATION]
