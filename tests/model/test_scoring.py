"""The packed pass with shared prompts computes what the unchanged model computes, values and gradients."""

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import Gemma2Config, Gemma2ForCausalLM, GPT2Config, GPT2LMHeadModel, PreTrainedModel

from groupwise.errors import DataError
from groupwise.model.backends import attention
from groupwise.model.backends.packed_cpu.tiles import Tile, tiles_of
from groupwise.model.load import Policy, load_policy
from groupwise.model.packing import PackedBatch, SequenceGroup, pack, packed_tokens
from groupwise.model.score import SamplingMask, Scoring, score
from groupwise.model.startup_check import TOLERANCE_NATS, check_scoring
from tests.support.tiny import (
    ARCHITECTURES,
    VOCABULARY,
    build,
    gradients,
    packed_scores,
    plain_logits,
    plain_scores,
    policy_of,
    ragged_groups,
    relative_difference,
)

CPU = torch.device("cpu")

# Ragged prompts, one-token prompts and completions, groups of different size.
SHAPES = [(7, (5, 1, 9)), (1, (4,)), (12, (1, 1)), (3, (6, 2, 2, 11, 1))]


def plain_loss(
    model: PreTrainedModel, groups: list[SequenceGroup], factors_N: Tensor, temperature: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Scores of every token from one forward pass a sequence, and a weighted sum of the log-probabilities."""
    scored = [
        plain_scores(model, group.prompt_ids, ids, temperature) for group in groups for ids in group.completion_ids
    ]
    logps_N, entropies_N = torch.cat([logps for logps, _ in scored]), torch.cat([entropy for _, entropy in scored])
    return logps_N, entropies_N, (logps_N * factors_N).sum()


def factors(groups: list[SequenceGroup]) -> Tensor:
    """A different factor of either sign for each token, so that no two gradients cancel or are confused."""
    count = sum(len(ids) for group in groups for ids in group.completion_ids)
    return torch.linspace(-1.0, 2.0, count, dtype=torch.float64)


@pytest.mark.parametrize("temperature", [1.0, 0.6, 1.7])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_scores_and_gradients_are_those_of_the_plain_model(architecture: str, temperature: float) -> None:
    groups = ragged_groups(1, SHAPES)
    plain = build(architecture)
    policy = policy_of(plain)
    expected_N, entropy_N, loss = plain_loss(plain, groups, factors(groups), temperature)
    loss.backward()

    logps_N, entropies_N = packed_scores(policy, groups, temperature)
    (logps_N.double() * factors(groups)).sum().backward()

    assert logps_N.dtype == torch.float32
    torch.testing.assert_close(logps_N.double(), expected_N, atol=1e-5, rtol=0)
    torch.testing.assert_close(entropies_N.double(), entropy_N, atol=1e-5, rtol=0)
    assert not entropies_N.requires_grad
    assert relative_difference(gradients(policy.model), gradients(plain)) < 1e-5


def test_gradients_in_double_precision() -> None:
    """Only the model's norms round to float32."""
    groups = ragged_groups(2, SHAPES)
    plain = build("llama").double()
    policy = policy_of(plain)
    plain_loss(plain, groups, factors(groups), 1.0)[2].backward()
    logps_N, _ = packed_scores(policy, groups, 1.0)
    assert logps_N.dtype == torch.float64
    (logps_N * factors(groups)).sum().backward()
    assert relative_difference(gradients(policy.model), gradients(plain)) < 1e-6


@pytest.mark.parametrize("chunk_tokens", [1, 4, 42])
@pytest.mark.parametrize("architecture", ["qwen3", "llama"])
def test_the_chunk_size_changes_neither_values_nor_gradients(architecture: str, chunk_tokens: int) -> None:
    groups = ragged_groups(3, SHAPES)
    whole, chunked = policy_of(build(architecture)), policy_of(build(architecture))
    expected_N, expected_entropy_N = packed_scores(whole, groups, 0.8)
    (expected_N.double() * factors(groups)).sum().backward()
    actual_N, entropy_N = packed_scores(chunked, groups, 0.8, chunk_tokens)
    (actual_N.double() * factors(groups)).sum().backward()
    torch.testing.assert_close(actual_N, expected_N, atol=1e-6, rtol=0)
    torch.testing.assert_close(entropy_N, expected_entropy_N, atol=1e-6, rtol=0)
    assert relative_difference(gradients(chunked.model), gradients(whole.model)) < 1e-6


@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("chunk_tokens", [1000, 10])
def test_scores_of_a_plain_head_are_those_of_any_other(temperature: float, chunk_tokens: int) -> None:
    """A head with a bias of 0 takes the general path through autograd."""
    groups = ragged_groups(3, SHAPES)
    plain, general = policy_of(build("llama")), policy_of(build("llama"))
    general.head.bias = torch.nn.Parameter(torch.zeros(VOCABULARY), requires_grad=False)
    scoring = Scoring(temperature, chunk_tokens, square_sums=True)
    actual = score(plain, pack(groups, plain.device), scoring)
    expected = score(general, pack(groups, general.device), scoring)
    for name in ("logps_N", "entropies_N", "entropies_at_1_N", "square_sums_N"):
        torch.testing.assert_close(getattr(actual, name), getattr(expected, name), atol=2e-6, rtol=0)
    (actual.logps_N.double() * factors(groups)).sum().backward()
    (expected.logps_N.double() * factors(groups)).sum().backward()
    assert relative_difference(gradients(plain.model), gradients(general.model)) < 1e-6
    assert not actual.entropies_N.requires_grad


def test_logits_that_fit_one_chunk_are_not_computed_again() -> None:
    groups = ragged_groups(3, SHAPES)
    policy = policy_of(build("llama"))
    rows: list[int] = []
    policy.head.register_forward_hook(lambda module, inputs, output: rows.append(output.shape[0]))  # noqa: ARG005
    logps_N, _ = packed_scores(policy, groups, 1.0, chunk_tokens=1000)
    logps_N.sum().backward()
    assert rows == [43]


def test_completions_share_a_block_while_their_lengths_are_similar() -> None:
    assert attention.similar([3, 0, 10, 6, 9, 5]) == [[2, 4, 3], [5, 0]]
    assert attention.similar([0, 0]) == []


def test_logits_exist_for_one_chunk_at_a_time() -> None:
    groups = ragged_groups(3, SHAPES)
    policy = policy_of(build("llama"))
    rows: list[int] = []
    policy.head.register_forward_hook(lambda module, inputs, output: rows.append(output.shape[0]))  # noqa: ARG005
    logps_N, _ = packed_scores(policy, groups, 1.0, chunk_tokens=10)
    assert rows == [10, 10, 10, 10, 3]
    logps_N.sum().backward()
    # The backward pass computes every chunk again instead of having kept its logits.
    assert sorted(rows) == sorted([10, 10, 10, 10, 3] * 2)


def test_a_completion_sees_neither_its_siblings_nor_other_groups() -> None:
    """The bundled model, where every sequence is scored in company and alone, to the rounding of float32."""
    policy = load_policy("bundled")
    generator = np.random.default_rng(5)
    prompts = [generator.integers(3, 512, n) for n in (17, 40)]
    groups = [SequenceGroup(prompt, tuple(generator.integers(3, 512, n) for n in (1, 30, 8))) for prompt in prompts]
    with torch.no_grad():
        together_N, _ = packed_scores(policy, groups, 1.0)
        alone = [
            packed_scores(policy, [SequenceGroup(group.prompt_ids, (ids,))], 1.0)[0]
            for group in groups
            for ids in group.completion_ids
        ]
    torch.testing.assert_close(together_N, torch.cat(alone), atol=2e-5, rtol=0)


def test_changing_one_completion_leaves_all_others_as_they_were() -> None:
    groups = ragged_groups(6, SHAPES)
    first = groups[0]
    changed_ids = (first.completion_ids[0], first.completion_ids[1], (first.completion_ids[2] + 1) % VOCABULARY)
    policy = policy_of(build("qwen3"))
    with torch.no_grad():
        before_N, _ = packed_scores(policy, groups, 1.0)
        changed = [SequenceGroup(first.prompt_ids, changed_ids), *groups[1:]]
        after_N, _ = packed_scores(policy, changed, 1.0)
    same_N = torch.ones(len(before_N), dtype=torch.bool)
    same_N[6:15] = False
    torch.testing.assert_close(after_N[same_N], before_N[same_N], atol=1e-6, rtol=0)
    assert float((after_N[~same_N] - before_N[~same_N]).abs().min()) > 1e-3


def test_the_prompt_stands_once_in_the_packed_tokens() -> None:
    prompt, completion = np.array([10, 11, 12]), (np.array([20, 21]), np.array([30]), np.array([40, 41, 42]))
    other = SequenceGroup(np.array([13]), (np.array([50, 51]),))
    packed = pack([SequenceGroup(prompt, completion), other], CPU)
    # The last token of a completion predicts nothing.
    assert packed.token_ids_1T.tolist() == [[10, 11, 12, 20, 40, 41, 13, 50]]
    assert packed.position_ids_1T.tolist() == [[0, 1, 2, 3, 3, 4, 0, 1]]
    assert packed.target_ids_N.tolist() == [20, 21, 30, 40, 41, 42, 50, 51]
    assert packed.predictor_N.tolist() == [2, 3, 2, 2, 4, 5, 6, 7]
    assert packed.lengths_B.tolist() == [2, 1, 3, 2]
    assert packed.token_ids_1T.shape[1] == packed_tokens(3, [2, 1, 3]) + packed_tokens(1, [2])


def test_every_linear_layer_runs_on_the_packed_tokens_alone() -> None:
    groups = ragged_groups(7, SHAPES)
    policy = policy_of(build("llama"))
    seen: list[int] = []
    layer = policy.model.model.layers[0].mlp
    layer.register_forward_hook(lambda module, inputs, output: seen.append(output.shape[1]))  # noqa: ARG005
    with torch.no_grad():
        packed_scores(policy, groups, 1.0)
    assert seen == [sum(prompt + sum(lengths) - len(lengths) for prompt, lengths in SHAPES)]


def test_only_one_token_completions() -> None:
    groups = ragged_groups(8, [(4, (1, 1)), (9, (1,))])
    plain = build("qwen3")
    expected_N, _, _ = plain_loss(plain, groups, torch.ones(3), 1.0)
    logps_N, _ = packed_scores(policy_of(plain), groups, 1.0)
    torch.testing.assert_close(logps_N.double(), expected_N, atol=1e-5, rtol=0)


@pytest.mark.parametrize(("prompt", "completion"), [(0, 3), (3, 0)])
def test_an_empty_prompt_or_completion_is_an_error(prompt: int, completion: int) -> None:
    group = SequenceGroup(np.arange(prompt), (np.arange(2), np.arange(completion)))
    with pytest.raises(ValueError, match="without tokens"):
        pack([group], CPU)


@pytest.mark.parametrize("chunk_tokens", [5, 1000])
def test_entropies_carry_gradient_where_they_are_asked_to(chunk_tokens: int) -> None:
    groups = ragged_groups(4, SHAPES)
    plain = build("qwen3")
    policy = policy_of(plain)
    scores = score(policy, pack(groups, CPU), Scoring(0.8, chunk_tokens, entropy_gradient=True))
    (scores.entropies_N.double() * factors(groups)).sum().backward()
    _, entropies_N, _ = plain_loss(plain, groups, factors(groups), 0.8)
    (entropies_N * factors(groups)).sum().backward()
    torch.testing.assert_close(scores.entropies_N.double(), entropies_N, atol=1e-5, rtol=0)
    assert relative_difference(gradients(policy.model), gradients(plain)) < 1e-5


def test_entropy_is_also_stated_at_temperature_1() -> None:
    groups = ragged_groups(4, SHAPES)
    plain = build("qwen3")
    policy = policy_of(plain)
    with torch.no_grad():
        _, at_1_N, _ = plain_loss(plain, groups, factors(groups), 1.0)
        for temperature in (1.0, 0.6):
            scores = score(policy, pack(groups, CPU), Scoring(temperature, 7))
            torch.testing.assert_close(scores.entropies_at_1_N.double(), at_1_N, atol=1e-5, rtol=0)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_sums_of_squared_probabilities(architecture: str, masked: bool, bias: bool, temperature: float) -> None:
    """Of the distribution that a token was drawn from: at the temperature, and over the kept set where there is one."""
    groups = ragged_groups(5, SHAPES)
    plain = build(architecture).double()
    policy = policy_of(plain)
    if bias:
        policy.head.bias = torch.nn.Parameter(torch.zeros(VOCABULARY).double(), requires_grad=False)
    chosen = [(group.prompt_ids, ids) for group in groups for ids in group.completion_ids]
    with torch.no_grad():
        logits_NV = torch.cat([plain_logits(plain, *pair) for pair in chosen]) / temperature
    target_N = torch.from_numpy(np.concatenate([ids for _, ids in chosen]))
    mask = None
    if masked:
        kept_NV = torch.rand(logits_NV.shape, generator=torch.Generator().manual_seed(0)) < 0.3
        kept_NV[torch.arange(len(target_N)), target_N] = True
        mask = SamplingMask(kept_NV.nonzero()[:, 1], kept_NV.sum(1))
        logits_NV = logits_NV.masked_fill(~kept_NV, float("-inf"))
    scores = score(policy, pack(groups, CPU), Scoring(temperature, 7, square_sums=True), mask)
    assert scores.square_sums_N is not None
    assert not scores.square_sums_N.requires_grad
    expected_N = logits_NV.softmax(-1).square().sum(-1)
    torch.testing.assert_close(scores.square_sums_N, expected_N, atol=1e-6, rtol=0)
    assert score(policy, pack(groups, CPU), Scoring(temperature, 7), mask).square_sums_N is None
    # What the optimal token baseline weighs a token by is the squared norm of its gradient towards the logits.
    own_N = logits_NV.softmax(-1)[torch.arange(len(target_N)), target_N]
    one_hot_NV = torch.nn.functional.one_hot(target_N, logits_NV.shape[1])
    squared_norm_N = (one_hot_NV - logits_NV.softmax(-1)).square().sum(-1)
    torch.testing.assert_close(1 - 2 * own_N + expected_N, squared_norm_N)


# The check before training


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_check_passes_architectures_that_are_scored_right(architecture: str) -> None:
    assert check_scoring(policy_of(build(architecture))) < 1e-5


def test_the_check_leaves_the_model_as_it_was() -> None:
    policy = load_policy("bundled")
    before = copy.deepcopy(policy.model.state_dict())
    assert check_scoring(policy) < 1e-4
    assert policy.model.config._attn_implementation == attention.IMPLEMENTATION
    assert all(torch.equal(before[name], weight) for name, weight in policy.model.state_dict().items())
    assert all(weight.grad is None for weight in policy.model.parameters())


def refusal(policy: Policy) -> str:
    with pytest.raises(DataError) as raised:
        check_scoring(policy)
    message = str(raised.value)
    assert "cannot be trained" in message
    assert type(policy.model).__name__ in message
    assert "\n" not in message
    return message


def test_the_check_refuses_a_wrong_scale(monkeypatch: pytest.MonkeyPatch) -> None:
    attend = attention.SharedPromptAttention.attend_rows

    def scaled(plan: Any, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
        return attend(plan, query, key, value, 1.05 * scale)

    monkeypatch.setattr(attention.SharedPromptAttention, "attend_rows", scaled)
    assert difference_in(refusal(policy_of(build("qwen3")))) > TOLERANCE_NATS


def test_the_check_refuses_a_wrong_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    def seeing_all(*arguments: Any) -> list[Tile]:
        return [replace(tile, mask_1TS=torch.zeros_like(tile.mask_1TS)) for tile in tiles_of(*arguments)]

    monkeypatch.setattr("groupwise.model.backends.attention.tiles_of", seeing_all)
    assert difference_in(refusal(policy_of(build("qwen3")))) > TOLERANCE_NATS


def test_the_check_refuses_wrong_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    def positions_of_the_row(groups: list[SequenceGroup], device: torch.device) -> PackedBatch:
        packed = pack(groups, device)
        return replace(packed, position_ids_1T=torch.arange(packed.token_ids_1T.shape[1]).unsqueeze(0))

    monkeypatch.setattr("groupwise.model.startup_check.pack", positions_of_the_row)
    assert difference_in(refusal(policy_of(build("qwen3")))) > TOLERANCE_NATS


def difference_in(message: str) -> float:
    return float(message.split("differ from the model's own by ")[1].split(" ")[0])


def test_the_check_refuses_soft_capped_scores() -> None:
    torch.manual_seed(0)
    config = Gemma2Config(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        initializer_range=0.25,
        pad_token_id=None,
        bos_token_id=None,
        eos_token_id=None,
    )
    assert "soft-capped" in refusal(policy_of(Gemma2ForCausalLM(config).eval()))


def test_absolute_positions_are_scored_right_or_refused() -> None:
    """GPT-2 takes each token's position in its own sequence like any rotary model."""
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=VOCABULARY, n_embd=32, n_layer=2, n_head=4, n_positions=64, initializer_range=0.25,
        bos_token_id=None, eos_token_id=None,
    )  # fmt: skip
    plain = GPT2LMHeadModel(config).eval()
    plain.set_attn_implementation("eager")
    policy = policy_of(plain)
    assert check_scoring(policy) < 1e-5
    groups = ragged_groups(9, SHAPES)
    expected_N, _, _ = plain_loss(plain, groups, factors(groups), 1.0)
    logps_N, _ = packed_scores(policy, groups, 1.0)
    torch.testing.assert_close(logps_N.double(), expected_N, atol=1e-5, rtol=0)
